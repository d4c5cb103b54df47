// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// modelled_stack.hpp: a model of what machine_stack (barrier/stack.hpp) does with the processor's stack, which the
// checker can follow: one owner, whose frames are entries of an array, and signals that stop it between any two of
// its steps.
#pragma once

#include <muster/fork/detail/barrier/engine.hpp>

#include "checker/engine.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster_model_test {

namespace sync = muster::sync;
using muster::detail::completion_count;
using muster::detail::found_forks;
using muster::detail::stack_fork;
using muster::detail::task;

/// The owner's frames that fork, the oldest first. Steps between operations are stopped at by step().
class paper {
 public:
  static constexpr std::size_t most = 8;
  /// A frame's second half after its return address has been replaced.
  static constexpr std::size_t overwritten = ~std::size_t{0} - 2;
  using execution = void (*)(void* game, std::size_t second);

  /// Thieves execute second halves by `how(game, second)`.
  paper(void* game, execution how) : game_(game), execute_(how) { now() = this; }
  /// The thread is no longer a worker: later signals have no effect.
  static void end() { now() = nullptr; }
  paper(const paper&) = delete;
  paper& operator=(const paper&) = delete;
  /// That of the program which is running.
  static paper*& now() {
    static paper* one = nullptr;
    return one;
  }

  /// A place in the code where a signal may come.
  static void step() { muster_model::engine::running().may_be_stopped(); }

  // The steps of the owner's code, one instruction each.
  void begins_to_fork(bool now) { may_fork_ = now; }
  void call(std::size_t second) {
    if (many_ == most) muster_model::engine::running().fail("the paper is full");
    frames_[many_].second.write_ref() = second;
    frames_[many_].barrier = nullptr;
    ++many_;
    may_fork_ = false;
  }
  /// Returns from the newest frame's call: null, or to the barrier.
  stack_fork* ret() {
    stack_fork* const at = frames_[--many_].barrier;
    in_barrier_ = at != nullptr;
    return at;
  }
  /// The barrier's code: as if the frame had called it.
  void call_again() {
    frames_[many_++].barrier = nullptr;
    in_barrier_ = false;
  }

  /// An exception is on its way to the newest frame: null, or the frame's record, which it passes.
  stack_fork* unwinds() {
    unwinding_ = true;
    return frames_[many_ - 1].barrier;
  }
  /// An exception that passes a frame waits: the frames above have been left already.
  void leaves(bool now) {
    left_ = now ? many_ : 0;
    unwinding_ = !now;
  }
  void catch_exception() {
    const frame& passed = frames_[--many_];
    // The unwinder reads the return address in this frame.
    if (passed.barrier != nullptr && passed.second.read_ref() != overwritten)
      muster_model::engine::running().fail("an exception meets a wrong return address");
    unwinding_ = false;
  }
  /// The thread is in another pool, with a frame there.
  void goes_away(std::size_t second) {
    call(second);
    away_ = true;
  }
  void comes_back() {
    away_ = false;
    --many_;
  }

  // The deque's steps.
  bool is_away() const { return away_; }
  static std::uintptr_t slot_of(std::size_t frame) { return (most - frame) * 16; }
  found_forks::extent find(found_forks& found, std::uintptr_t newest_slot, bool stopped) const {
    using extent = found_forks::extent;
    const extent whole = stopped && may_fork_ ? extent::some : extent::all;
    if (in_barrier_ || unwinding_) return extent::unusable;
    for (std::size_t at = many_; at-- > left_;) {
      if (newest_slot != 0 && slot_of(at) >= newest_slot) return slot_of(at) == newest_slot ? whole : extent::unusable;
      found.add(slot_of(at), 1);
    }
    return newest_slot == 0 || left_ != 0 ? whole : extent::unusable;
  }
  bool prepare(stack_fork& r) {
    r.closure() = frame_of(r).second.read_ref();
    return refusals == 0 || refusals-- == 0;
  }
  void replace(stack_fork& r) {
    frame_of(r).second.write_ref() = overwritten;
    frame_of(r).barrier = &r;
  }
  void restore(stack_fork& r) { frame_of(r).second.write_ref() = r.closure(); }
  std::size_t depth() const { return many_; }
  /// By a thief.
  void execute(stack_fork& r) { execute_(game_, r.closure()); }

  sync::atomic<std::uint32_t> answers{0};  // of the owner, to signals
  unsigned refusals = 0;                   // of prepare()

 private:
  struct frame {
    sync::cell<std::size_t> second{std::size_t{0}};  // as the closure
    stack_fork* barrier = nullptr;
  };
  frame& frame_of(const stack_fork& r) { return frames_[most - r.slot() / 16]; }

  void* const game_;
  const execution execute_;
  std::array<frame, most> frames_;
  std::size_t many_ = 0;
  bool may_fork_ = false;    // has checked for requests, and not called
  bool in_barrier_ = false;  // where no walk leads anywhere
  bool unwinding_ = false;
  std::size_t left_ = 0;  // frames that an exception has left
  bool away_ = false;
};

class modelled_stack {
 public:
  using thread = unsigned;  // 0: none
  struct point {};
  static constexpr unsigned records = 1, spared = 1;

  static const char* unavailable_reason() noexcept { return nullptr; }
  static void make_ready() noexcept {}
  static void let_stop() noexcept {}
  static thread this_thread() noexcept { return muster_model::engine::running().current() + 1; }
  static void stop(thread one, void* of) noexcept {
    if (one == 0) muster_model::engine::running().fail("a signal for no thread");
    muster_model::engine::running().interrupt(one - 1, [of] {
      if (paper::now() == nullptr || paper::now()->is_away()) return;
      static_cast<muster::detail::barrier_engine<modelled_stack>*>(of)->publish_in_handler({});
      paper& all = *paper::now();
      all.answers.fetch_add(1, std::memory_order_relaxed);
      sync::futex_wake(all.answers, 8, 1, muster::futex_scope::process);
    });
  }
  template <class Ready>
  static bool wait(Ready ready) noexcept {
    for (;;) {
      const std::uint32_t seen = paper::now()->answers.load(std::memory_order_relaxed);
      if (ready()) return true;
      const auto soon = muster::deadline_clock::time_point{};
      if (sync::futex_wait(paper::now()->answers, seen, 1, soon, muster::futex_scope::process) ==
          muster::futex_reason::timed_out)
        return false;
    }
  }
  static std::uint64_t depth() noexcept { return ~(paper::slot_of(paper::now()->depth()) + 1); }
  found_forks::extent find(found_forks& found, std::uintptr_t newest_slot, std::uintptr_t,
                           const point* stopped) noexcept {
    return paper::now()->find(found, newest_slot, stopped != nullptr);
  }
  static bool prepare(stack_fork& r) noexcept { return paper::now()->prepare(r); }
  static void replace(stack_fork& r) noexcept { paper::now()->replace(r); }
  static void restore(stack_fork& r) noexcept {
    paper::now()->restore(r);
    paper::step();
  }
  static completion_count* run_stolen(task& of) noexcept {
    auto& r = static_cast<stack_fork&>(of);
    paper::now()->execute(r);
    return nullptr;
  }
};

}  // namespace muster_model_test
