// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// doorbell.hpp: wakes the other side of a sandbox, through memory that both sides can write.
//
// Progress   ring is wait-free. await returns when ready, or at its deadline.
// Hostile    Each word is a hint. The inside can keep a thread of the outside asleep until its deadline, or cause
//            useless checks and wakes; so the outside always has a deadline.
// Where      a waiting side spins before it sleeps, unless the other side last waited on the same processor: then the
//            other can only run while this one sleeps. A fiber that has slept once does not make its thread spin again.
// Fence      the sleeper makes a heavy fence, so the ringing side needs none (base/futex.hpp).
// Source     ours.
#pragma once

#include <muster/base/arch.hpp>  // line_size
#include <muster/base/sync.hpp>  // sync::atomic
#include <muster/base/wait.hpp>  // siblings, waiter

#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// Initially zero.
struct alignas(line_size) doorbell {
  sync::atomic<std::uint32_t> rings{0};
  sync::atomic<std::uint32_t> asleep{0};     // a thread may sleep; set before its last look, cleared by a wake
  sync::atomic<std::uint32_t> processor{0};  // on which a thread last waited, plus one
};

/// For sides on different processors, and on the same one.
struct wait_apart {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 512;
  static constexpr unsigned yields = 0;
};
using wait_together = wait::park;

/// One side's view of a doorbell. Both sides must agree on `asymmetric`: true if sleepers make the fence.
class bell {
 public:
  bell(doorbell& at, bool asymmetric) noexcept : at_(&at), asymmetric_(asymmetric) {}

  /// Call after an event that a thread may wait for.
  MUSTER_HOT void ring() const noexcept {
    // Either the sleeper's last look sees the event's store, or this thread sees that it sleeps.
    if (asymmetric_) {
      // (1) light_fence: pairs with (2).
      sync::light_fence();
    } else {
      // (5) full_fence: pairs with (6).
      sync::full_fence();
    }
    if (at_->asleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }
  /// Threads that are about to sleep look again, too.
  void wake() const noexcept {
    // Before the count: a thread that sets `asleep` after this finds the count changed, or has looked later.
    at_->asleep.store(0, std::memory_order_relaxed);
    // (3) release: pairs with (4). A thread that has read the new count sees the event in its last look.
    at_->rings.fetch_add(1, std::memory_order_release);
    sync::futex_wake(at_->rings, INT_MAX, any, futex_scope::shared);
  }

  /// Returns true once ready() is true, false at the deadline. `processor` is the caller's plus one, or 0, and `other`
  /// the doorbell at which the other side waits.
  template <class Ready>
  bool await(const doorbell& other, std::uint32_t processor, Ready ready, deadline until) const noexcept {
    // Only if it has changed: the other side reads this line at every event.
    if (at_->processor.load(std::memory_order_relaxed) != processor)
      at_->processor.store(processor, std::memory_order_relaxed);
    if (processor == 0 || other.processor.load(std::memory_order_relaxed) != processor)
      return await<wait_apart>(ready, until);
    return await<wait_together>(ready, until);
  }
  template <class Ready>
  bool await(const bell& other, std::uint32_t processor, Ready ready, deadline until) const noexcept {
    return await(*other.at_, processor, ready, until);
  }
  template <class Policy, class Ready>
  bool await(Ready ready, deadline until) const noexcept {
    if (siblings* const others = siblings::of_caller(); others != nullptr) {
      fiber_waiter<Ready> one(Policy{}, *this, ready, until);
      return others->wait(one);
    }
    for (unsigned looks = 0; looks < Policy::pauses; ++looks) {
      if (ready()) return true;
      sync::relax();
    }
    for (;;) {
      const std::uint32_t seen = announce();
      // (2) heavy_fence: pairs with (1).
      if (asymmetric_) sync::heavy_fence(futex_scope::shared);
      if (ready()) return true;
      const futex_reason why = sync::futex_wait(at_->rings, seen, any, until, futex_scope::shared);
      // Also if the count changes all the time.
      if (why == futex_reason::timed_out || (until != no_deadline && deadline_clock::now() >= until)) return ready();
    }
  }

 private:
  static constexpr std::uint32_t any = ~std::uint32_t{0};

  /// Returns the count on which to sleep.
  std::uint32_t announce() const noexcept {
    // (4) acquire: pairs with (3).
    const std::uint32_t seen = at_->rings.load(std::memory_order_acquire);
    at_->asleep.store(1, std::memory_order_relaxed);
    // (6) full_fence: pairs with (5).
    if (!asymmetric_) sync::full_fence();
    return seen;
  }

  template <class Ready>
  class fiber_waiter final : public waiter {
   public:
    template <class Policy>
    fiber_waiter(const Policy& policy, const bell& of, Ready& ready, deadline end) noexcept
        : waiter(policy, end), bell_(of), ready_(ready) {}
    bool ready() noexcept override { return ready_(); }
    void announce(futex_words& words) noexcept override {
      pauses = 0;  // the wait is long: from now on the thread spins only for the others
      const std::uint32_t seen = bell_.announce();
      words.add({&bell_.at_->rings, seen, any, futex_scope::shared}, bell_.asymmetric_);
    }

   private:
    const bell& bell_;
    Ready& ready_;
  };

  doorbell* at_;
  bool asymmetric_;
};

}  // namespace muster::inline MUSTER_ABI::detail
