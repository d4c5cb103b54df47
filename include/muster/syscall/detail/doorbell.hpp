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
//            After brief sleeps the next waits spin longer (base/detail/spin_extension.hpp): a wake takes longer than a
//            call, so both sides would sleep at every call.
// Several    threads may wait for events of which each needs one thread. A ring then wakes one of them. The thread that
//            wakes says for the others that they still sleep, and one that has taken an event wakes the next thread if
//            there is another event.
// Fence      both sides execute a full fence. A heavy fence (base/detail/asymmetric_fence.hpp) would spare the ringing
//            side's, but it interrupts every processor that runs a sandbox, so a client that sleeps often would delay
//            the others.
// Source     ours.
#pragma once

#include <muster/base/arch.hpp>                   // line_size
#include <muster/base/detail/siblings.hpp>        // siblings, waiter
#include <muster/base/detail/spin_extension.hpp>  // spin_extension
#include <muster/base/sync.hpp>                   // sync::atomic
#include <muster/base/wait.hpp>                   // wait::park

#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// For sides on different processors, and on the same one.
struct wait_apart {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 512;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = true;
};
using wait_together = wait::park;

/// Initially zero.
struct alignas(line_size) doorbell {
  sync::atomic<std::uint32_t> rings{0};
  sync::atomic<std::uint32_t> asleep{0};     // a thread may sleep; set before its last look, cleared by a wake
  sync::atomic<std::uint32_t> processor{0};  // on which a thread last waited, plus one

  /// Call after an event that threads may wait for.
  MUSTER_HOT void ring() noexcept { ring_for(INT_MAX); }
  /// The same for an event that needs one thread, whichever it is.
  MUSTER_HOT void ring_one() noexcept { ring_for(1); }
  /// For a thread that has taken such an event when there is another one, whose ring may have woken this thread only.
  void wake_next() noexcept {
    if (asleep.load(std::memory_order_relaxed) != 0) wake(1);
  }
  /// Wakes this many. Threads that are about to sleep look again, too.
  void wake(int most = INT_MAX) noexcept {
    // Before the count: a thread that sets `asleep` after this finds the count changed, or has looked later.
    asleep.store(0, std::memory_order_relaxed);
    // (3) release: pairs with (4). A thread that has read the new count sees the event in its last look.
    rings.fetch_add(1, std::memory_order_release);
    sync::futex_wake(rings, most, any, futex_scope::shared);
  }

  /// Returns true once ready() is true, false at the deadline. `here` is the caller's processor plus one, or 0, and
  /// `other` the doorbell at which the other side waits. `longer` belongs to the threads that wait here, and must be in
  /// memory of their side only; fibers use their thread's.
  template <class Ready>
  bool await(const doorbell& other, std::uint32_t here, spin_extension& longer, Ready ready, deadline until) noexcept {
    // Only if it has changed: the other side reads this line at every event.
    if (processor.load(std::memory_order_relaxed) != here) processor.store(here, std::memory_order_relaxed);
    if (here == 0 || other.processor.load(std::memory_order_relaxed) != here)
      return await<wait_apart>(longer, ready, until);
    return await<wait_together>(longer, ready, until);
  }
  template <class Policy, class Ready>
  bool await(spin_extension& longer, Ready ready, deadline until) noexcept {
    if (siblings* const others = siblings::of_caller(); others != nullptr) {
      fiber_waiter<Ready> one(Policy{}, *this, ready, until);
      return others->wait(one);
    }
    for (unsigned looks = 0; looks < Policy::pauses; ++looks) {
      if (ready()) return true;
      sync::relax();
    }
    if constexpr (Policy::adapts) {
      if (longer.spin(ready, until, Policy::pauses / 8)) return true;
      const deadline begin = deadline_clock::now();
      const bool is_ready = sleep(ready, until);
      longer.note_sleep(is_ready ? deadline_clock::now() - begin : deadline_clock::duration::max());
      return is_ready;
    } else {
      return sleep(ready, until);
    }
  }

 private:
  static constexpr std::uint32_t any = ~std::uint32_t{0};

  MUSTER_HOT void ring_for(int most) noexcept {
    // (1) full_fence: pairs with (2). Either the sleeper's last look sees the event's store, or this thread sees that
    // it sleeps.
    sync::full_fence();
    if (asleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake(most);
  }

  template <class Ready>
  bool sleep(Ready& ready, deadline until) noexcept {
    for (;;) {
      const std::uint32_t seen = announce();
      if (ready()) return true;
      const futex_reason why = sync::futex_wait(rings, seen, any, until, futex_scope::shared);
      // To add nothing reads the newest count, so (4) reads no older one, as it otherwise might. So the next
      // announcement comes after the store that has cleared `asleep`, and holds for the others that sleep.
      rings.fetch_add(0, std::memory_order_relaxed);
      // Also if the count changes all the time.
      if (why == futex_reason::timed_out || (until != no_deadline && deadline_clock::now() >= until)) {
        announce();
        return ready();
      }
    }
  }
  /// Returns the count on which to sleep.
  std::uint32_t announce() noexcept {
    // (4) acquire: pairs with (3).
    const std::uint32_t seen = rings.load(std::memory_order_acquire);
    asleep.store(1, std::memory_order_relaxed);
    // (2) full_fence: pairs with (1).
    sync::full_fence();
    return seen;
  }

  template <class Ready>
  class fiber_waiter final : public waiter {
   public:
    template <class Policy>
    fiber_waiter(const Policy& policy, doorbell& at, Ready& ready, deadline end) noexcept
        : waiter(policy, end), at_(at), ready_(ready) {}
    bool ready() noexcept override { return ready_(); }
    void announce(futex_words& words) noexcept override {
      // The wait is long: from now on the thread spins only for the others.
      pauses = 0;
      adapts = false;
      const std::uint32_t seen = at_.announce();
      words.add({&at_.rings, seen, any, futex_scope::shared}, false);
    }

   private:
    doorbell& at_;
    Ready& ready_;
  };
};

}  // namespace muster::inline MUSTER_ABI::detail
