// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// eventcount.hpp: how a thread or fiber waits for an event of another, and what that costs.
//
// Fibers     a waiting fiber lets the others of its thread run. When none of them can run, the thread checks and sleeps
//            for all of them at once (fiber/detail/carrier.hpp).
// Cost       the sleeper pays. The thread that makes the event loads one word that is almost always zero and in its
//            cache; it executes no fence and no read-modify-write, because the sleeper orders the accesses of both
//            threads by heavy_fence() (membarrier). Without membarrier, a read-modify-write follows the load. If a
//            filter forbids membarrier later, a sleeper may miss an event, so it checks every millisecond.
// Progress   making an event is wait-free, except for the system call when a thread sleeps. With listeners it is
//            lock-free: see listeners.hpp.
// Killed     a sleeper that dies leaves its bit set, which costs one superfluous wake. A waker that dies inside wake(),
//            or between the event and wake(), leaves the sleepers of its event asleep until the next event of their
//            key. With wake_one(), one sleeper too many stays asleep until an event finds no thread asleep.
// Source     an eventcount (Reed and Kanodia, 1979) with a set of keys beside the count, so that an event without
//            waiters writes nothing; asymmetric Dekker synchronization (Dice, Huang, Yang, 2001).
#pragma once

#include <muster/base/detail/listeners.hpp>       // listeners
#include <muster/base/detail/siblings.hpp>        // siblings, waiter
#include <muster/base/detail/spin_extension.hpp>  // spin_extension
#include <muster/base/detail/utilities.hpp>       // std::min
#include <muster/base/sync.hpp>                   // sync::atomic, sync::futex_wait

#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI {

/// The keys of events that threads sleep for, and a few flags of the owner.
class eventcount {
 public:
  /// Sleepers for key k use bit k % keys; two keys with the same bit wake each other superfluously.
  static constexpr std::uint32_t keys = 16;
  /// The bits above the keys belong to the owner, which sets each of them once. n is less than 13.
  static constexpr std::uint32_t flag(unsigned n) noexcept { return 1U << (keys + n); }

  explicit eventcount(futex_scope scope = futex_scope::process) noexcept
      : word_(sync::asymmetric_fences(scope) ? 0 : no_fence),
        asymmetric_((word_.load(std::memory_order_relaxed) & no_fence) == 0),
        scope_(scope) {}
  eventcount(const eventcount&) = delete;
  eventcount& operator=(const eventcount&) = delete;

  /// Call after making an event with any store. Returns the flags, and the keys for which a thread may sleep, limited
  /// to `interest`. Zero: nothing to do.
  MUSTER_HOT std::uint32_t waiters_after_event(std::uint32_t interest = ~(for_many | listened | no_fence)) noexcept;
  /// Wakes the sleepers of `key`. Call it if wakes(word, key) is true for the result of waiters_after_event(). Returns
  /// true if it has woken a thread, and no thread has ever slept on several words. Threads about to sleep check again.
  bool wake(std::uint32_t key) noexcept;
  /// Wakes one sleeper of `key`, if any. For events that one thread consumes: the woken thread must consume the event,
  /// or ensure that another thread is woken.
  void wake_one(std::uint32_t key) noexcept { wake_one(key, 1); }
  /// Wakes all sleepers and notifies all listeners.
  void wake_all() noexcept { wake_bits(all_keys, detail::listeners::all); }
  /// As wake_all(), without the listeners: for events that concern only threads, such as a request to stop.
  void wake_sleepers() noexcept { wake_bits(all_keys, 0); }

  static constexpr std::uint32_t all_keys = (1U << keys) - 1;  // as an `interest`: may any thread be asleep?
  static constexpr std::uint32_t bit(std::uint32_t key) noexcept { return 1U << (key % keys); }
  static constexpr bool wakes(std::uint32_t word, std::uint32_t key) noexcept { return (word & bit(key)) != 0; }

  /// Sets a flag and wakes all sleepers. Returns true if this call set it. It is ordered with events in both
  /// directions: see (2).
  bool raise(std::uint32_t flag_bit) noexcept;
  /// As raise(), but returns false if membarrier(2) has been forbidden since: the caller may then not yet see an event
  /// whose maker missed the flag.
  [[nodiscard]] bool try_raise(std::uint32_t flag_bit) noexcept { return try_raise(flag_bit, detail::listeners::all); }
  /// Returns true if waiters_after_event() needs no fence because sleepers execute it. Every process that uses a shared
  /// eventcount must then call asymmetric_fences(), which joins the heavy fences.
  bool asymmetric() const noexcept { return asymmetric_; }
  /// Returns the flags. The caller then sees everything written before they were raised.
  std::uint32_t flags() const noexcept;

  /// Waits until ready() is true; returns false if the deadline passes first. ready() may become true only by an event
  /// of `key` or by a flag; it must neither wait nor throw. If a fiber waits, other fibers of its thread may make
  /// ready() false again before await() returns. Calls before_sleep() once spinning has failed, before the thread
  /// announces that it sleeps.
  template <class Policy, class Ready, class BeforeSleep>
  bool await(std::uint32_t key, Ready ready, deadline until, BeforeSleep before_sleep) noexcept;
  template <class Policy, class Ready>
  bool await(std::uint32_t key, Ready ready, deadline until) noexcept {
    return await<Policy>(key, ready, until, [] {});
  }

  /// For a thread that is about to sleep for events of several words (base/detail/wait_any.hpp): announces it under
  /// `key`, and adds this word. The thread must then execute the fences that `words` asks for, and check once more.
  void announce(std::uint32_t key, futex_words& words) noexcept {
    const std::uint32_t epoch = announce(bit(key) | for_many);
    words.add({&epoch_, epoch, bit(key), scope_}, asymmetric_);
  }

  /// Lists a listener for the events of the keys in `bits`: such an event wakes the sleepers of its key, and notifies
  /// the listener. Returns false, and does not list it, if ready() is true. Otherwise the listener may be notified, and
  /// may have ended, before this returns.
  template <class Ready>
  bool listen(detail::listener& one, std::uint32_t bits, Ready ready) noexcept;
  /// Removes a listener. Returns false if it is not listed: it has been, or will be, notified.
  bool stop_listening(detail::listener& one) noexcept;
  bool has_listeners() const noexcept { return (word_.load(std::memory_order_relaxed) & listened) != 0; }
  /// Notifies listeners as `events` events would.
  void notify_listeners(std::uint64_t events = 1) noexcept {
    if (listeners_.enter_for(events)) leave_listeners(events);
  }

 protected:
  // Each notifies listeners as `events` events would; 0: notifies none.
  bool wake_bits(std::uint32_t bits, std::uint64_t events) noexcept;
  void wake_one(std::uint32_t key, std::uint64_t events) noexcept;
  bool try_raise(std::uint32_t flag_bit, std::uint64_t events) noexcept;

 private:
  static constexpr std::uint32_t no_fence = 1U << 31;  // always set if asymmetric_ is false
  static constexpr std::uint32_t listened = 1U << 29;  // set while there are listeners
  static constexpr std::uint32_t for_many = 1U << 30;  // set forever once a thread has slept on several words
  static constexpr std::uint64_t one_sleep = std::uint64_t{1} << 32;

  enum class found { yes, not_yet, too_late };
  template <class Policy, class Ready>
  found look(Ready& ready, deadline until) const noexcept;
  template <class Ready, class BeforeSleep>
  bool sleep(std::uint32_t key, Ready& ready, deadline until, BeforeSleep& before_sleep) noexcept;
  std::uint32_t announce(std::uint32_t bits) noexcept;
  template <class Ready, class BeforeSleep>
  class fiber_waiter;

  void leave_listeners(std::uint64_t events) noexcept;

  // word_: keys and flags, and in the upper half a count of sleeps. Before its last check a sleeper counts itself and
  // sets its bit. A waker clears the bits whose sleepers it has woken, unless a thread has gone to sleep since the
  // waker read the word. The owner's flags are never cleared. (A waker errs only if it is stopped for exactly 2^32
  // sleeps.)
  // A thread that sleeps on several words is woken by events of any key. So once there has been one, wake_one() wakes
  // every sleeper of a key.
  // epoch_: wakers increment it; a sleeper that finds it changed checks again instead of sleeping.
  mutable sync::atomic<std::uint64_t> word_;
  sync::atomic<std::uint32_t> epoch_{0};
  const bool asymmetric_;
  const futex_scope scope_;
  detail::spin_extension extension_;
  detail::listeners listeners_;
};

inline std::uint32_t eventcount::waiters_after_event(std::uint32_t interest) noexcept {
  // (7) light_fence: pairs with (8), and wait_any.hpp (1). The event's store may still be in this core's
  // store buffer. Either the sleeper's heavy fence flushes it before the sleeper's last check, or the load below comes
  // after that fence and sees the bit.
  sync::light_fence();
  std::uint64_t word = word_.load(std::memory_order_relaxed);
  if ((word & (interest | no_fence)) == 0) [[likely]]
    return 0;
  // (1) release: pairs with (2), (3). This operation and the sleeper's are ordered by the modification order of word_,
  // and the later one sees the earlier: this thread sees the bit, or the sleeper's last check sees the event.
  if ((word & no_fence) != 0) word = word_.fetch_or(0, std::memory_order_release);
  return static_cast<std::uint32_t>(word) & interest;
}

inline bool eventcount::wake(std::uint32_t key) noexcept { return wake_bits(bit(key), 1); }

inline bool eventcount::wake_bits(std::uint32_t bits, std::uint64_t events) noexcept {
  std::uint64_t asleep = word_.load(std::memory_order_relaxed);
  // (5) release: pairs with (6). A sleeper that has read the new epoch sees the event in its last check, and is not yet
  // in `asleep`; one that has read an older epoch does not sleep, or is woken.
  epoch_.fetch_add(1, std::memory_order_release);
  const bool some = sync::futex_wake(epoch_, INT_MAX, bits, scope_) > 0;
  if ((asleep & listened) != 0) [[unlikely]] {
    if (events != 0) notify_listeners(events);
    asleep &= ~std::uint64_t{listened};  // if some are left, the bits stay for them
  }
  // The bits are cleared last. So if this waker is stopped before, the makers of later events still find the bits and
  // wake the sleepers. Relaxed: it fails if a thread has gone to sleep meanwhile. Otherwise all sleepers that `asleep`
  // stands for are awake.
  word_.compare_exchange_strong(asleep, asleep & ~std::uint64_t{bits}, std::memory_order_relaxed,
                                std::memory_order_relaxed);
  return some && (asleep & for_many) == 0;
}

inline void eventcount::wake_one(std::uint32_t key, std::uint64_t events) noexcept {
  if (has_listeners()) [[unlikely]] {
    wake_bits(bit(key), events);
    return;
  }
  // The new epoch makes threads that are about to sleep check again: one of them may have been woken for an older event
  // that it has not yet seen. Relaxed: they check after their fence, or after (3).
  epoch_.fetch_add(1, std::memory_order_relaxed);
  const bool woken = sync::futex_wake(epoch_, 1, bit(key), scope_) != 0;
  // The woken thread may also sleep for another key: then it has set for_many before. Relaxed, but a read-modify-write,
  // which sees the latest value.
  const bool only_one = woken && (word_.fetch_or(0, std::memory_order_relaxed) & for_many) == 0;
  // The bit stays while others may sleep.
  if (!only_one) wake_bits(bit(key), events);
}

inline bool eventcount::raise(std::uint32_t flag_bit) noexcept {
  // (2) acq_rel: pairs with (1), (3), (4). The raiser sees every event made before a call of waiters_after_event() that
  // missed the flag, and a thread that sees the flag sees everything written before it.
  const std::uint64_t before = word_.fetch_or(flag_bit, std::memory_order_acq_rel);
  // (8) heavy_fence: pairs with (7).
  if (asymmetric_) sync::heavy_fence(scope_);
  wake_all();
  return (before & flag_bit) == 0;
}

inline bool eventcount::try_raise(std::uint32_t flag_bit, std::uint64_t events) noexcept {
  word_.fetch_or(flag_bit, std::memory_order_acq_rel);                 // (2)
  const bool ordered = !asymmetric_ || sync::try_heavy_fence(scope_);  // (8)
  wake_bits(all_keys, events);
  return ordered;
}

inline std::uint32_t eventcount::flags() const noexcept {
  // (4) acquire: pairs with (2).
  return static_cast<std::uint32_t>(word_.load(std::memory_order_acquire)) &
         ~(all_keys | for_many | listened | no_fence);
}

template <class Policy, class Ready, class BeforeSleep>
bool eventcount::await(std::uint32_t key, Ready ready, deadline until, BeforeSleep before_sleep) noexcept {
  if (detail::siblings* const others = detail::siblings::of_caller(); others != nullptr) [[unlikely]] {
    fiber_waiter<Ready, BeforeSleep> one(Policy{}, *this, key, ready, until, before_sleep);
    return others->wait(one);
  }
  switch (look<Policy>(ready, until)) {
    case found::yes: return true;
    case found::too_late: return false;
    case found::not_yet: break;
  }
  if constexpr (Policy::adapts) {
    const deadline begin = deadline_clock::now();
    const bool is_ready = sleep(key, ready, until, before_sleep);
    // A sleep that ended at its deadline says nothing about how soon events come.
    extension_.note_sleep(is_ready ? deadline_clock::now() - begin : deadline_clock::duration::max());
    return is_ready;
  } else {
    return sleep(key, ready, until, before_sleep);
  }
}

template <class Policy, class Ready>
eventcount::found eventcount::look(Ready& ready, deadline until) const noexcept {
  for (unsigned looks = 0; looks < Policy::pauses; ++looks) {
    if (ready()) return found::yes;
    sync::relax();
  }
  for (unsigned looks = 0; !Policy::parks || looks < Policy::yields; ++looks) {
    if (ready()) return found::yes;
    if (until != no_deadline && deadline_clock::now() >= until) return found::too_late;
    sync::yield();
  }
  if constexpr (Policy::adapts)
    if (extension_.spin(ready, until, Policy::pauses / 8)) return found::yes;
  return found::not_yet;
}

/// Announces a sleeper. Returns the value that epoch_ must still have when the thread sleeps. A heavy fence and a last
/// check must follow.
inline std::uint32_t eventcount::announce(std::uint32_t bits) noexcept {
  // (6) acquire: pairs with (5).
  const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
  // Counted before the bit is set: only a waker that has seen this count clears the bit. Relaxed: such a waker
  // increments the epoch after the load above, and this sleeper notices that.
  word_.fetch_add(one_sleep, std::memory_order_relaxed);
  // (3) acquire: pairs with (1), (2). The later of the two operations sees the earlier.
  word_.fetch_or(bits, std::memory_order_acquire);
  return epoch;
}

template <class Ready, class BeforeSleep>
bool eventcount::sleep(std::uint32_t key, Ready& ready, deadline until, BeforeSleep& before_sleep) noexcept {
  before_sleep();
  for (;;) {
    const std::uint32_t epoch = announce(bit(key));
    const bool fenced = !asymmetric_ || sync::try_heavy_fence(scope_);  // (8)
    if (ready()) return true;                                           // our bit stays: it costs one superfluous wake
    // Without the fence, an event may not be visible yet although its maker has missed the bit. So the sleep is short.
    const deadline limit = fenced ? until : nap_until(until);
    const futex_reason why = sync::futex_wait(epoch_, epoch, bit(key), limit, scope_);
    if (why == futex_reason::timed_out && limit == until) return ready();
    if (ready()) return true;
  }
}

template <class Ready>
bool eventcount::listen(detail::listener& one, std::uint32_t bits, Ready ready) noexcept {
  listeners_.enter();
  // As announce(). The maker of an event from here on notifies the listeners after this turn.
  word_.fetch_add(one_sleep, std::memory_order_relaxed);
  word_.fetch_or(bits | listened, std::memory_order_acquire);  // (3)
  if (asymmetric_) sync::heavy_fence(scope_);                  // (8)
  const bool listens = !ready();
  if (listens) listeners_.under_turn().add(one);
  leave_listeners(0);
  return listens;
}

inline bool eventcount::stop_listening(detail::listener& one) noexcept {
  listeners_.enter();
  const bool listened_before = listeners_.under_turn().remove(one);
  leave_listeners(0);
  return listened_before;
}

inline void eventcount::leave_listeners(std::uint64_t events) noexcept {
  // Relaxed: a maker of events that sees the bit takes the turn after the thread that has set it.
  listeners_.leave(events, [this] { word_.fetch_and(~std::uint64_t{listened}, std::memory_order_relaxed); }).notify();
}

template <class Ready, class BeforeSleep>
class eventcount::fiber_waiter final : public detail::waiter {
 public:
  template <class Policy>
  fiber_waiter(const Policy& policy, eventcount& mask, std::uint32_t key, Ready& ready, deadline end,
               BeforeSleep& before_sleep) noexcept
      : waiter(policy, end), mask_(mask), key_(key), ready_(ready), before_sleep_(before_sleep) {}
  bool ready() noexcept override { return ready_(); }
  void announce(futex_words& words) noexcept override {
    before_sleep_();
    mask_.announce(key_, words);
  }

 private:
  eventcount& mask_;
  const std::uint32_t key_;
  Ready& ready_;
  BeforeSleep& before_sleep_;
};

/// An eventcount in memory that other processes write. It has no listeners: whatever that memory contains, no address
/// in it is used.
class shared_eventcount : public eventcount {
 public:
  shared_eventcount() noexcept : eventcount(futex_scope::shared) {}

  bool wake(std::uint32_t key) noexcept { return wake_bits(bit(key), 0); }
  void wake_one(std::uint32_t key) noexcept { eventcount::wake_one(key, 0); }
  void wake_all() noexcept { wake_sleepers(); }
  [[nodiscard]] bool try_raise(std::uint32_t flag_bit) noexcept { return eventcount::try_raise(flag_bit, 0); }

  bool raise(std::uint32_t flag_bit) noexcept = delete;
  template <class Ready>
  bool listen(detail::listener& one, std::uint32_t bits, Ready ready) noexcept = delete;
  bool stop_listening(detail::listener& one) noexcept = delete;
  void notify_listeners(std::uint64_t events = 1) noexcept = delete;
};

}  // namespace muster::inline MUSTER_ABI
