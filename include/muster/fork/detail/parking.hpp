// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parking.hpp: where threads of a pool sleep until they get a token, and the workers that sleep for lack of work, which
// are woken one by one.
//
// A sleeper announces itself, requests work of all workers, checks a last time, and sleeps. A worker that offers work
// reads the count after a full fence. So either the sleeper's last check finds the work, or the worker finds the
// sleeper counted. In a part of a pool no thread sleeps: it leaves its place after the last check, and a token for the
// vacant place brings a thread of the pool.
#pragma once

#include <muster/base/detail/brief_wait.hpp>  // brief_wait
#include <muster/base/detail/siblings.hpp>    // siblings, waiter
#include <muster/base/sync.hpp>               // sync::atomic, sync::futex_wait
#include <muster/base/wait.hpp>               // wait::park

#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// Sleeps until the word does not hold `expected` any more and another thread wakes the sleepers; may return earlier.
/// Returns false if the deadline has passed.
inline bool sleep_on(sync::atomic<std::uint32_t>& word, std::uint32_t expected, deadline until) noexcept {
  class fiber_waiter final : public waiter {
   public:
    fiber_waiter(sync::atomic<std::uint32_t>& at, std::uint32_t holds, deadline end) noexcept
        : waiter(wait::park{}, end), at_(at), holds_(holds) {}
    bool ready() noexcept override { return at_.load(std::memory_order_relaxed) != holds_; }
    void announce(futex_words& words) noexcept override { words.add({&at_, holds_, ~0U, futex_scope::process}, false); }

   private:
    sync::atomic<std::uint32_t>& at_;
    const std::uint32_t holds_;
  };
  if (siblings* const others = siblings::of_caller(); others != nullptr) {
    fiber_waiter one(word, expected, until);
    return others->wait(one);
  }
  return sync::futex_wait(word, expected, ~0U, until, futex_scope::process) != futex_reason::timed_out;
}

/// A thread sleeps here until another gives it a token. Outlives every thread that may give one.
class parker {
 public:
  using summons = void (*)(parker&) noexcept;
  parker() noexcept = default;
  /// A place that threads leave and come back to, vacant at first. A token that is given while it is vacant stays for
  /// the thread that call() brings.
  explicit parker(summons call) noexcept : call_(call), token_(vacant) {}
  parker(const parker&) = delete;
  parker& operator=(const parker&) = delete;

  /// Waits for a token and takes it.
  void park() noexcept { park_until(no_deadline); }
  /// The same, until a deadline. Returns true if it took a token.
  bool park_until(deadline until) noexcept {
    // (1) acquire: pairs with (2). The sleeper sees all writes before the token.
    while (token_.exchange(0, std::memory_order_acquire) == 0)
      if (!sleep_on(token_, 0, until)) return false;
    return true;
  }
  void unpark() noexcept {
    if (call_ != nullptr) {
      // (2)
      if (token_.exchange(1, std::memory_order_release) == vacant) return call_(*this);
    } else {
      // (2) release: pairs with (1).
      token_.store(1, std::memory_order_release);
    }
    sync::futex_wake(token_, 1, ~0U, futex_scope::process);
  }
  /// For a place that threads leave: leaves it, and returns true; or takes the token that has been given meanwhile, and
  /// returns false.
  bool leave() noexcept {
    std::uint32_t none = 0;
    if (token_.compare_exchange_strong(none, vacant, std::memory_order_relaxed, std::memory_order_relaxed)) return true;
    park();
    return false;
  }

 private:
  friend class idle_workers;
  static constexpr std::uint32_t vacant = 2;  // otherwise 1: a token, 0: none
  const summons call_ = nullptr;
  sync::atomic<std::uint32_t> token_{0};
  parker* next_ = nullptr;  // in the list of idle workers
};

/// A lock that is held for a few instructions, or longer if its holder is preempted.
class spin_lock {
 public:
  bool try_lock() noexcept {
    // (3) acquire: pairs with (4).
    return taken_.load(std::memory_order_relaxed) == 0 && taken_.exchange(1, std::memory_order_acquire) == 0;
  }
  MUSTER_HOT void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      await();
  }
  void unlock() noexcept {
    // (4) release: pairs with (3).
    taken_.store(0, std::memory_order_release);
  }

 private:
  MUSTER_COLD void await() noexcept {
    for (brief_wait wait; !try_lock();) wait.pause();
  }

  sync::atomic<std::uint32_t> taken_{0};
};

class idle_workers {
 public:
  /// True if a worker sleeps or is about to. The caller must have executed a full fence, or be in injector::put().
  bool anyone() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// From now on a token may come. Check a last time for work, then call park() or withdraw().
  void announce(parker& place) noexcept {
    lock_.lock();
    place.next_ = first_;
    first_ = &place;
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lock_.unlock();
    // (5) full_fence: pairs with steal_list.hpp (3), scheduler.hpp (4, 5, 11). If a thread does not see the count,
    // the last check sees that thread's work.
    sync::full_fence();
  }
  /// Ends the announcement, because there is work. Takes the token if one has been given meanwhile.
  void withdraw(parker& place) noexcept {
    lock_.lock();
    parker** at = &first_;
    while (*at != nullptr && *at != &place) at = &(*at)->next_;
    const bool found = *at != nullptr;
    if (found) {
      *at = place.next_;
      count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    }
    lock_.unlock();
    if (!found) place.park();
  }
  /// Wakes the most recent sleeper. Returns false if there is none.
  bool wake_one() noexcept {
    lock_.lock();
    parker* const woken = first_;
    if (woken != nullptr) {
      first_ = woken->next_;
      count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    }
    lock_.unlock();
    if (woken == nullptr) return false;
    woken->unpark();
    return true;
  }

 private:
  sync::atomic<std::uint32_t> count_{0};  // the length of the list; changed under the lock
  spin_lock lock_;
  parker* first_ = nullptr;
};

}  // namespace muster::inline MUSTER_ABI::detail
