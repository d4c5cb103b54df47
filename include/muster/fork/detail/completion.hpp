// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// completion.hpp: how far the making of a future's value is, who sleeps until it is complete, and what follows it.
//
// Order      the thread that completes it stores the value before; threads that see it complete see the value.
// Progress   wait-free but for system calls: one read-modify-write each to register a successor, to begin and to sleep,
//            and two to complete.
// Killed     a thread that stops before complete() leaves the waiters asleep.
#pragma once

#include <muster/base/sync.hpp>            // sync::atomic
#include <muster/fork/detail/parking.hpp>  // sleep_on

#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// `State`: what it is part of. A state has one successor, which needs its value.
template <class State>
class completion {
 public:
  /// If so, the caller sees the value.
  bool is_complete() const noexcept {
    // (1) acquire: pairs with (3).
    return (status_.load(std::memory_order_acquire) & complete_bit) != 0;
  }
  /// Registers the successor. Returns false if the state is complete already; then the caller sees the value.
  bool precede(State& successor) noexcept {
    State* none = nullptr;
    // (2) release, or acquire if it is complete: pairs with (4). The thread that completes the state sees the
    // successor.
    return successor_.compare_exchange_strong(none, &successor, std::memory_order_release, std::memory_order_acquire);
  }
  /// For the thread that has stored the value; `self` is the state. Returns the successor, or null.
  State* complete(State& self) noexcept {
    // (3) release: pairs with (1), (6).
    if ((status_.exchange(complete_bit, std::memory_order_release) & sleepers_bit) != 0) wake();
    // (4) acq_rel: pairs with (2).
    return successor_.exchange(&self, std::memory_order_acq_rel);
  }

  /// The same, when no other thread knows the state.
  void complete_alone(State& self) noexcept {
    status_.store(complete_bit, std::memory_order_relaxed);
    successor_.store(&self, std::memory_order_relaxed);
  }

  /// The function that makes the value has been given to the pool, where waiting threads may find it. Not needed if no
  /// other thread knew the state before.
  void begin() noexcept {
    // (5) release: pairs with (6).
    if ((status_.fetch_or(begun_bit, std::memory_order_release) & sleepers_bit) != 0) wake();
  }
  /// Sleeps until the state begins or is complete, or until a deadline; may return early. Returns at once if
  /// can_be_taken(): the caller may execute the function.
  template <class CanBeTaken>
  void sleep(deadline until, CanBeTaken can_be_taken) noexcept {
    // (6) acquire: pairs with (3), (5). If it has begun, the question below finds the function, unless it was taken.
    std::uint32_t seen = status_.load(std::memory_order_acquire);
    if ((seen & complete_bit) != 0 || can_be_taken()) return;
    if ((seen & sleepers_bit) == 0) {
      // Relaxed: if the status has changed, the caller looks again.
      if (status_.fetch_or(sleepers_bit, std::memory_order_relaxed) != seen) return;
      seen |= sleepers_bit;
    }
    sleep_on(status_, seen, until);
  }

 private:
  static constexpr std::uint32_t complete_bit = 1, begun_bit = 2, sleepers_bit = 4;

  void wake() noexcept { sync::futex_wake(status_, INT_MAX, ~0U, futex_scope::process); }

  sync::atomic<std::uint32_t> status_{0};
  sync::atomic<State*> successor_{nullptr};  // the state itself once it is complete
};

}  // namespace muster::inline MUSTER_ABI::detail
