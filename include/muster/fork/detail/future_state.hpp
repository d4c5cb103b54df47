// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// future_state.hpp: what a future and the function that makes its value share: whether there is a value, who waits for
// it, and what follows.
//
// A state is complete when it has a value or an error. It may have inputs: states whose completion it needs first. An
// input has one successor, because a future that has become an input is not used otherwise. So states form a tree whose
// edges lead to the root; completing one follows them without recursion.
//
// Waiting    a thread that waits for a state first executes the functions that make its value and its inputs' values,
//            unless other threads have begun them. Then it executes parts of these functions, if it is a worker of
//            the pool, and sleeps. So waiting needs no other thread than the caller's, and never executes anything
//            that the value does not depend on.
// Owners     the future, or the successor; the function until it has ended; and threads that wait.
// Progress   completing is wait-free but for the system call that wakes sleepers, and a lock of the pool that the
//            successor is given to.
#pragma once

#include <muster/base/detail/process.hpp>     // process_generation
#include <muster/base/sync.hpp>               // sync::atomic
#include <muster/fork/detail/completion.hpp>  // completion
#include <muster/fork/detail/injector.hpp>    // injected, injector
#include <muster/fork/detail/parking.hpp>     // deadline
#include <muster/fork/detail/scheduler.hpp>   // entered_pool, worker

#include <algorithm>  // std::min
#include <cstddef>    // std::size_t
#include <exception>  // std::exception
#include <stdexcept>  // std::logic_error
#include <vector>     // the inputs that a thread waits for

namespace muster::inline MUSTER_ABI::detail {

class future_state {
 public:
  future_state(const future_state&) = delete;
  future_state& operator=(const future_state&) = delete;

  void refer() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // (1) acq_rel: pairs with (2) and with itself: the last one has seen the effects of all others.
    // (2) acquire: pairs with (1). Without others, none can come: the caller needs no read-modify-write.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }
  /// If so, the caller sees the value.
  bool is_complete() const noexcept { return completion_.is_complete(); }
  injector& home() const noexcept { return home_; }

  /// Makes the state, which has inputs, the successor of this one. Returns false if this one is complete already.
  bool precede(future_state& successor) noexcept { return completion_.precede(successor); }
  /// Called when an input is complete. Returns true if this state is complete, too, but for complete_all().
  virtual bool take_input() noexcept { return false; }
  /// Marks a state as complete, which has its value or error, and then its successors. The caller owns it, and does no
  /// longer.
  static void complete_all(future_state* one) noexcept {
    if (one->is_alone_) {
      one->completion_.complete_alone(*one);
      one->references_.store(1, std::memory_order_relaxed);
      return;
    }
    while (one != nullptr) {
      future_state* const next = one->completion_.complete(*one);
      one->release();
      one = next != nullptr && next->take_input() ? next : nullptr;
    }
  }

  void refuse_in_child() const {
    if (!home_.is_of(process_generation()))
      throw std::logic_error(
          "future: the threads that make its value are in the parent of this process; use it there, or a pool of the "
          "child");
  }
  /// Returns when it is complete, or the deadline has passed. A worker that executes something returns when that has
  /// ended.
  void wait(deadline until) { wait(until, false); }
  /// The same for a caller that then takes the value, and releases the state before its pool matters again.
  void wait_for_last() { wait(no_deadline, true); }

 protected:
  /// `function`: what makes the value, or null. Two owners: the future, and the function or the inputs.
  /// `refers`: false if submit() follows.
  future_state(injector& home, injected* function, bool refers = true) noexcept
      : home_(home), function_(function), refers_(refers) {
    if (refers) home.refer();
  }
  virtual ~future_state() {
    if (refers_) home_.release();
  }

  /// Returns an input that is not complete, with a reference for the caller; or null.
  virtual future_state* incomplete_input() noexcept { return nullptr; }

  /// Gives the function to its pool, when no other thread knows the state yet. Returns false if the pool is ending.
  bool submit(pool_core& pool) noexcept {
    is_submitted_ = refers_ = true;
    if (pool.inject(*function_, nullptr, false, true, true)) return true;
    home_.refer();
    return false;
  }
  /// The same, when the last input is complete.
  bool begin() noexcept {
    injector& home = home_;
    home.refer();
    pool_core* const pool = home.enter();
    bool begun = false;
    if (pool != nullptr) {
      refer();  // it may be complete at once
      pool_core::sleepers seen;
      begun = home.put(*function_, nullptr, false, false, [&] { seen = pool->who_sleeps(); });
      if (begun) {
        completion_.begin();
        pool->wake_for_injected(seen);
      }
      release();
      home.leave();
    }
    home.release();
    return begun;
  }

 private:
  class path;

  void wait(deadline until, bool is_last);
  /// The thread that waits with the future has taken the function. If it was submitted, no other thread knows the state
  /// from now on: completing it and releasing it take no read-modify-write.
  void taken_by_owner() noexcept { is_alone_ = is_submitted_; }
  /// For a thread outside all pools: executes the function as a guest, if that is possible at once.
  bool execute_at_once(bool is_last) noexcept {
    if (!is_submitted_ || !function_->is_queued()) return false;
    worker* const as = home_.visit(*function_);
    if (as == nullptr) return false;
    taken_by_owner();
    {
      const entered_pool here(*as, entered_pool::guest{});
      as->execute_injected(*function_);
    }
    refers_ = !is_last;
    home_.end_visit(is_last);
    return true;
  }

  injector& home_;
  injected* const function_;
  bool refers_;                // to home_
  bool is_submitted_ = false;  // its function was given to the pool before other threads knew the state
  bool is_alone_ = false;      // only the thread that executes the function knows the state
  sync::atomic<std::size_t> references_{2};
  completion<future_state> completion_;
};

/// For a waiting thread: the state that it waits for, one of its inputs, one of the inputs of that, and so on.
class future_state::path {
 public:
  path(future_state& root, deadline until, bool executes) noexcept : root_(root), until_(until), executes_(executes) {}
  ~path() {
    for (future_state* one : inputs_) one->release();
  }
  path(const path&) = delete;
  path& operator=(const path&) = delete;

  bool is_over() noexcept {
    while (!inputs_.empty() && inputs_.back()->is_complete()) {
      inputs_.back()->release();
      inputs_.pop_back();
    }
    return (inputs_.empty() && root_.is_complete()) || (until_ != no_deadline && deadline_clock::now() >= until_);
  }
  /// Executes the function that the value depends on first, unless it has been begun. `self`: the caller's worker, or
  /// null.
  bool execute_some(worker* self) {
    if (!executes_) return false;
    while (future_state* const input = last().incomplete_input()) {
      try {
        inputs_.push_back(input);
      } catch (...) {
        input->release();
        throw;
      }
    }
    future_state& state = last();
    if (!can_be_taken()) return false;
    if (self != nullptr && &self->pool.injected_functions == &state.home_) {
      if (!state.home_.take(*state.function_)) return false;
      if (inputs_.empty()) state.taken_by_owner();
      self->execute_injected(*state.function_);
      return true;
    }
    return execute_as_guest(state);
  }
  const void* executed() const noexcept {
    const future_state& state = last();
    return state.function_ != nullptr ? static_cast<const void*>(state.function_) : &state;
  }
  /// Waits for some microseconds, less than sleeping and waking take, for what another thread has begun. Returns true
  /// if it has ended.
  bool ends_soon() const noexcept {
    for (unsigned i = 0; i < 256; ++i) {
      if (last().is_complete()) return true;
      sync::relax();
    }
    return false;
  }
  void sleep(deadline until) noexcept {
    last().completion_.sleep(std::min(until, until_), [this] { return can_be_taken(); });
  }

 private:
  future_state& last() const noexcept { return inputs_.empty() ? root_ : *inputs_.back(); }
  /// A hint.
  bool can_be_taken() const noexcept {
    const injected* const function = last().function_;
    return executes_ && function != nullptr && function->is_queued() && &last().home_ != refuses_;
  }
  bool execute_as_guest(future_state& state) {
    pool_core* const pool = state.home_.enter();
    if (pool == nullptr) {
      refuses_ = &state.home_;  // the pool is ending, and will drop it
      return false;
    }
    bool mine = false;
    try {
      const entered_pool here(*pool);
      here.self->is_alone = true;
      mine = state.home_.take(*state.function_);
      if (mine && inputs_.empty()) state.taken_by_owner();
      if (mine) here.self->execute_injected(*state.function_);
    } catch (const std::exception&) {
      refuses_ = &state.home_;  // the pool's own threads will execute it
    }
    pool->keep_for_guests();
    state.home_.leave();
    return mine;
  }

  future_state& root_;
  const deadline until_;
  const bool executes_;
  const injector* refuses_ = nullptr;  // its pool has no place for this thread; other inputs may be in other pools
  std::vector<future_state*> inputs_;
};

inline void future_state::wait(deadline until, bool is_last) {
  if (is_complete()) return;
  refuse_in_child();
  worker* const self = worker::current();
  if (self == nullptr && until == no_deadline && execute_at_once(is_last)) return;
  path to(*this, until, self != nullptr || until == no_deadline);
  if (self != nullptr) return self->await_injected(to);
  while (!to.is_over())
    if (!to.execute_some(nullptr) && !to.ends_soon()) to.sleep(no_deadline);
}

}  // namespace muster::inline MUSTER_ABI::detail
