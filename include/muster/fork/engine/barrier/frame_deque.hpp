// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_deque.hpp: the forks of one thread: a deque that is the thread's stack.
//
// A thief that finds nothing to take asks, as in watermark.hpp. The thread's next fork sees that, and walks its own
// stack: every frame that forks gets a record, and its return address is replaced by the barrier's. The older half of
// them is offered. A thief reads the second half from the frame, and executes it on its own stack. When the first half
// returns, it comes to the barrier. There the thread takes the second half back, or waits for it, and goes on in its
// frame, on its own stack, with its locks and its thread-local data.
//
// Order      the owner takes the newest, thieves the oldest.
// Progress   a fork that nobody has asked: one load, one compare. A walk costs some nanoseconds per frame.
// Signals    a thread that does not fork is asked by SIGURG, which stops it where it is for one walk.
// Memory     for each fork that has been found, a record, which is used again.
// Needs      x86-64 and no shadow stack: obstacle() tells what is missing; and unwind information. Forks above a
//            function that has none are executed serially.
// Source     Kumar, Blackburn, Grove, "Friendly Barriers" (VEE 2014); Kumar, Frampton, Blackburn, Grove, Tardieu,
//            "Work-Stealing Without The Baggage" (OOPSLA 2012).
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/base/arch.hpp>                        // shadow_stack
#include <muster/base/stop_signal.hpp>                 // stop_signal
#include <muster/fork/engine/barrier/fork_frame.hpp>   // answer_from_fork
#include <muster/fork/engine/barrier/frame_stock.hpp>  // frame_stock
#include <muster/fork/engine/barrier/stack_walk.hpp>   // stack_walk
#include <muster/fork/engine/watermark.hpp>            // fork_deque

#include <bit>      // std::bit_cast
#include <chrono>   // how long to wait for an answer
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// See replaced_return; and what stop_signal calls. For the calling thread's worker.
inline void* came_to_barrier(replaced_return& at) noexcept;
inline void exception_passes(replaced_return& at) noexcept;
inline bool stopped_by_signal(const void* of, void* context) noexcept;

/// One for each worker. What is offered, and how thieves take it, is the other engine's: so is everything where this
/// one is not possible.
class frame_deque : public fork_deque {
 public:
  explicit frame_deque(sleepers& asleep, const deque_options& options = {}) noexcept
      : fork_deque(asleep, options), by_frames_(!options.apart && obstacle() == nullptr) {}

  /// Null, or why this engine cannot be used in this process.
  static const char* obstacle() noexcept {
    static const char* const why = [] {
      if (shadow_stack()) return "return addresses cannot be replaced: the process has a shadow stack";
      // A function that throws nothing has it only when all have.
      const auto function = std::bit_cast<std::uintptr_t>(&answer_from_fork);
      if (!unwind_information(function).found())
        return "the stack cannot be walked: compile with -fasynchronous-unwind-tables";
      return stop_signal::listen(&stopped_by_signal) ? nullptr : "SIGURG cannot be handled";
    }();
    // The table is the library's that has been loaded with this code, not the process's.
    return why != nullptr || slot_map::make() ? why : "there is no room for the table of return addresses";
  }
  /// Whether forks are found on the stack. Otherwise they are pushed and popped.
  bool by_frames() const noexcept { return by_frames_; }

  // --- The owner.

  /// From now on the owner's forks lie below `frame`, its own.
  void begin_on_stack(const void* frame) noexcept {
    if (!by_frames_) return;
    entry_ = reinterpret_cast<std::uintptr_t>(frame);
    thread_.store(stop_signal::this_thread(), std::memory_order_relaxed);
    told_.store(nothing, std::memory_order_relaxed);
    const busy now(*this);
    stock_.fill(16);
  }
  /// The owner begins, or ends, to execute something that may fork.
  void runs(bool now) noexcept {
    running_.store(running_.load(std::memory_order_relaxed) + (now ? 1U : ~0U), std::memory_order_relaxed);
  }
  /// The thread is in another pool until go_on(): it cannot be asked.
  MUSTER_COLD void pause() noexcept {
    if (!by_frames_) return;
    publish_all();
    away_.store(true, std::memory_order_relaxed);
  }
  void go_on() noexcept { away_.store(false, std::memory_order_relaxed); }

  /// At what the frames of the owner's forks look: at nothing that concerns them where forks are pushed and popped.
  const void* mark() const noexcept {
    static_assert(asked > real::pool_place::nobodys_mark);
    return by_frames_ ? static_cast<const void*>(&mark_) : &real::pool_place::nobodys_mark;
  }
  /// Within a fork, when is_asked().
  MUSTER_COLD inline void answer_at_fork() noexcept;
  /// See fork_deque.
  void offer(fork_record& r, fork_record::runner run, const scope_link& group) noexcept {
    const busy now(*this);
    quiet_.store(false, std::memory_order_relaxed);
    fork_deque::offer(r, run, group);
  }
  /// Before it sleeps: offers everything.
  MUSTER_COLD inline void publish_all() noexcept;
  /// In the signal's handler.
  inline void answer_in_handler(const stack_point& stopped) noexcept;

  /// When the first half has returned to the barrier. Returns true when the second half is the owner's. Otherwise a
  /// thief has it: wait until it is done, and call end().
  MUSTER_COLD inline bool take_back(frame_record& r) noexcept;
  using fork_deque::take_back;
  MUSTER_COLD inline void end(frame_record& r) noexcept;
  /// Forgets a record that has been joined.
  void recycle(frame_record& r) noexcept {
    const busy now(*this);
    stock_.put(r);
  }
  /// The same for one that an exception passes: the unwinder still reads it.
  void recycle_later(frame_record& r) noexcept {
    const busy now(*this);
    stock_.put_later(r);
  }
  /// While it lives, walks end at `frame`: the functions above it have been left by an exception.
  class end_of_stack {
   public:
    end_of_stack(frame_deque& of, const void* frame) noexcept
        : of_(of), outer_(std::exchange(of.entry_, reinterpret_cast<std::uintptr_t>(frame))) {}
    ~end_of_stack() { of_.entry_ = outer_; }
    end_of_stack(const end_of_stack&) = delete;
    end_of_stack& operator=(const end_of_stack&) = delete;

   private:
    frame_deque& of_;
    const std::uintptr_t outer_;
  };

  /// While it lives, the signal's handler does nothing.
  class busy {
   public:
    explicit busy(frame_deque& of) noexcept : of_(of), outer_(of.busy_.load(std::memory_order_relaxed)) {
      of_.busy_.store(true, std::memory_order_relaxed);
      // (1) light_fence: pairs with (2). What follows is not seen by a handler that does not see that we are busy.
      sync::light_fence();
    }
    ~busy() {
      // (1)
      sync::light_fence();
      of_.busy_.store(outer_, std::memory_order_relaxed);
    }
    busy(const busy&) = delete;
    busy& operator=(const busy&) = delete;

   private:
    frame_deque& of_;
    const bool outer_;
  };
  std::uint64_t depth() const noexcept {
    return by_frames_ ? ~reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) : fork_deque::depth();
  }
  /// See fork_deque.
  std::uint64_t enter() noexcept {
    const std::uint64_t outer = floor_.load(std::memory_order_relaxed);
    floor_.store(depth(), std::memory_order_relaxed);
    return outer;
  }

  // --- Thieves.

  /// Whether the owner may have forks that it has not been asked for.
  bool has_records() const noexcept {
    if (!by_frames_) return fork_deque::has_records();
    return running_.load(std::memory_order_relaxed) != 0 && !away_.load(std::memory_order_relaxed) &&
           !quiet_.load(std::memory_order_relaxed);
  }
  /// Makes an owner that does not fork answer. Returns false when it could not be found out what it has.
  MUSTER_COLD inline bool answer_for_owner() noexcept;

 private:
  enum class share { of_options, all };

  /// From `stopped`, when a signal's handler calls.
  inline bool publish(share how, const stack_point* stopped) noexcept;
  inline void offer_found(frame_record& r) noexcept;
  frame_record* newest() const noexcept {
    fork_record* const r = head_.load(std::memory_order_relaxed);
    return r == &bottom_ ? nullptr : static_cast<frame_record*>(r);
  }

  enum told : unsigned { nothing, asked_by_signal, failed };

  const bool by_frames_;
  std::uintptr_t entry_ = 0;
  sync::atomic<bool> busy_{false};
  frame_stock stock_;
  known_calls calls_;
  alignas(isolation_size) sync::atomic<unsigned> running_{0};
  // The signal's handler has offered everything, and since then the next fork is asked: false whenever the mark falls.
  sync::atomic<bool> quiet_{false};
  sync::atomic<bool> away_{false};
  sync::atomic<unsigned> told_{nothing};
  sync::atomic<int> thread_{0};
};

/// Under the lock, the oldest first.
void frame_deque::offer_found(frame_record& r) noexcept {
  r.own_.ref().value = {head_.load(std::memory_order_relaxed), &frame_record::run_stolen, ~r.slot_};
  r.body = &barrier_body;
  r.came = &came_to_barrier;
  r.passed = &exception_passes;
  r.deque_ = this;
  append(r, nullptr);
  bar_ = &r;
  head_.store(&r, std::memory_order_relaxed);
  *std::bit_cast<std::uintptr_t*>(r.slot_) = return_barrier();
}

/// Returns false when not all of the owner's forks could be found.
bool frame_deque::publish(share how, const stack_point* stopped) noexcept {
  quiet_.store(false, std::memory_order_relaxed);
  const frame_record* const known = newest();
  stack_walk walk(calls_, stock_, known == nullptr ? 0 : known->slot_, entry_, stopped != nullptr);
  stack_point here;
  if (stopped == nullptr) find_here(here);
  const bool found = stopped == nullptr ? walk.go(here) : walk.go_from_signal(*stopped);
  bool locked = true;
  if (stopped != nullptr) {
    locked = lock_.try_lock();
  } else {
    lock_.lock();
  }
  unsigned offered = !found || !locked ? 0 : how == share::all ? walk.many() : options_.share_of(walk.many());
  frame_record* r = walk.oldest();
  steal_counts::add(counts.answers, 1);
  steal_counts::add(counts.offered, offered);
  for (; offered > 0 && slot_map::set(r->slot_, r); --offered) {
    frame_record* const newer = r->before_;
    offer_found(*r);
    r = newer;
  }
  if (locked) {
    raise_mark();
    lock_.unlock();
  }
  while (r != nullptr) {
    frame_record* const newer = r->before_;
    recycle(*r);
    r = newer;
  }
  stock_.lacks(walk.lacking());
  return found && locked && walk.lacking() == 0 && walk.found_all();
}

void frame_deque::answer_at_fork() noexcept {
  const timed publishing(counts.publishing);
  const busy now(*this);
  stock_.fill(32);
  publish(options_.always ? share::all : share::of_options, nullptr);
  if (offers() && sleepers_.anyone()) sleepers_.wake_one();
  wait_for_theft();
}

void frame_deque::publish_all() noexcept {
  if (!by_frames_) return fork_deque::publish_all();
  const busy now(*this);
  stock_.fill(64);
  publish(share::all, nullptr);
  if (offers() && sleepers_.anyone()) sleepers_.wake_one();
}

void frame_deque::answer_in_handler(const stack_point& stopped) noexcept {
  bool answered = false;
  // (2) light_fence: pairs with (1).
  const bool is_busy = busy_.load(std::memory_order_relaxed);
  sync::light_fence();
  if (!is_busy) {
    const busy now(*this);
    const timed publishing(counts.publishing);
    if (running_.load(std::memory_order_relaxed) == 0) {
      answered = true;
    } else if (stock_.take_gift()) {
      answered = publish(share::all, &stopped);
    } else {
      stock_.lacks(1);
    }
  }
  if (answered) {
    quiet_.store(true, std::memory_order_relaxed);
    mark_.store(asked, std::memory_order_relaxed);
  }
  // (3) release: pairs with (4). Whoever has asked finds what is offered.
  told_.store(answered ? nothing : failed, std::memory_order_release);
}

bool frame_deque::take_back(frame_record& r) noexcept {
  const timed returning(counts.returning);
  steal_counts::add(counts.returns, 1);
  const busy now(*this);
  quiet_.store(false, std::memory_order_relaxed);
  lock_.lock();
  const bool mine = r.state_.value.load(std::memory_order_relaxed) == fork_record::offered;
  if (mine) {
    unlink(r);
    head_.store(r.older(), std::memory_order_relaxed);
    bar_ = r.older();
  }
  raise_mark();
  lock_.unlock();
  return mine;
}

void frame_deque::end(frame_record& r) noexcept {
  const busy now(*this);
  r.joined();
  lock_.lock();
  head_.store(r.older(), std::memory_order_relaxed);
  bar_ = r.older();
  lock_.unlock();
}

bool frame_deque::answer_for_owner() noexcept {
  using namespace std::chrono_literals;
  if (!by_frames_) return fork_deque::answer_for_owner();
  for (unsigned tries = 0; has_records() && tries < 4; ++tries) {
    stock_.give();
    if (told_.exchange(asked_by_signal, std::memory_order_relaxed) != asked_by_signal)
      stop_signal::send(thread_.load(std::memory_order_relaxed), this);
    const auto until = std::chrono::steady_clock::now() + 100us;
    // (4) acquire: pairs with (3).
    while (told_.load(std::memory_order_acquire) == asked_by_signal) {
      sync::relax();
      if (std::chrono::steady_clock::now() <= until) continue;
      unsigned lost = asked_by_signal;  // perhaps: then the next one who asks sends another
      told_.compare_exchange_strong(lost, failed, std::memory_order_relaxed);
      return false;
    }
  }
  return !has_records();
}

}  // namespace muster::inline MUSTER_ABI::detail

#endif
