// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// htm_ring.hpp: a circular buffer whose operations are hardware transactions, as the FFQ paper describes the one it
// compares with: "a bounded circular buffer [that] simply executes the enqueue and dequeue operations inside hardware
// transactions". Strict FIFO, of trivially copyable values.
//
// Faithful to  that sentence, which is all there is. One ring, two indices; a transaction reads both.
// Differs      a transaction may fail forever, so after `attempts` failures an operation takes a lock. Transactions
//              read the lock first, so that one that is taken ends them, and are not begun while it is taken. The
//              paper does not say what its queue does then.
// Waiting      Pause::turn() while the lock is taken, or the ring is full.
// Memory       eight bytes per entry.
// Needs        Intel's RTM. Elsewhere, or where it is switched off and every transaction aborts, `rtm::why_not()` says
//              so, and all operations take the lock. The words that transactions share are relaxed atomics: the order
//              between transactions is the processor's, which neither C++ nor a thread sanitizer knows.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>      // __get_cpuid_count
#include <immintrin.h>  // _xbegin
#endif

namespace muster::bench {

/// Restricted transactional memory: Intel SDM volume 1, chapter 16.
class rtm {
 public:
  /// The features that CPUID lists, and the result of trying many small transactions.
  struct findings {
    bool listed = false;
    bool always_aborts = false;
    bool committed = false;
  };
  /// Why transactions cannot be used; empty when they can.
  static constexpr const char* why_not(findings f) noexcept {
    if (!f.listed) return "the processor has no transactional memory (RTM)";
    if (f.always_aborts || !f.committed) {
      return "the processor's transactional memory (RTM) is switched off: every transaction aborts";
    }
    return "";
  }
  /// The same about this processor. Looks once.
  static const char* why_not() noexcept {
    static const char* const found = why_not(look());
    return found;
  }
  static bool available() noexcept { return *why_not() == '\0'; }

  /// Executes `body` in a transaction unless `lock` is taken. False: nothing has happened.
  template <class Body>
#if defined(__x86_64__)
  [[gnu::target("rtm")]] static bool attempt(const std::atomic<bool>& lock, Body body) {
    if (_xbegin() != _XBEGIN_STARTED) return false;
    if (lock.load(std::memory_order_relaxed)) _xabort(0xff);
    body();
    _xend();
    return true;
  }
#else
  static bool attempt(const std::atomic<bool>&, Body) {
    return false;
  }
#endif

  static findings look() noexcept {
    findings f;
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return f;
    f.listed = (b >> 11U & 1U) != 0;
    f.always_aborts = (d >> 11U & 1U) != 0;
    const std::atomic<bool> no_lock{false};
    std::atomic<unsigned> word{0};
    for (int i = 0; i < 1000 && f.listed && !f.always_aborts && !f.committed; ++i) {
      f.committed = attempt(no_lock, [&word] { word.store(1, std::memory_order_relaxed); });
    }
#endif
    return f;
  }
};

struct htm_limits {
  unsigned attempts = 8;  // transactions before an operation takes the lock
};

/// `Transactions` has available() and attempt(std::atomic<bool>& lock, body), like rtm.
template <class T = std::uint64_t, class Pause = cpu_turn, class Transactions = rtm>
class htm_ring {
  static_assert(std::is_trivially_copyable_v<T> && std::atomic<T>::is_always_lock_free, "an entry is one word");

 public:
  /// `capacity` is rounded up to a power of two.
  explicit htm_ring(std::size_t capacity, htm_limits limits = {})
      : mask_(std::bit_ceil(std::max<std::size_t>(capacity, 1)) - 1),
        slots_(std::make_unique<std::atomic<T>[]>(mask_ + 1)),
        attempts_(Transactions::available() ? limits.attempts : 0) {}
  htm_ring(const htm_ring&) = delete;
  htm_ring& operator=(const htm_ring&) = delete;

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(htm_ring& q) : ring_(q) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;

    /// False when the queue is full.
    bool try_push(T value) {
      bool room = false;
      atomically([&] {
        const std::size_t tail = ring_.tail_.load(std::memory_order_relaxed);
        room = tail - ring_.head_.load(std::memory_order_relaxed) <= ring_.mask_;
        if (!room) return;
        ring_.slots_[tail & ring_.mask_].store(value, std::memory_order_relaxed);
        ring_.tail_.store(tail + 1, std::memory_order_relaxed);
      });
      return room;
    }
    /// Waits while the queue is full.
    void push(T value) {
      while (!try_push(value)) Pause::turn();
    }
    /// False when the queue is empty.
    bool pop(T& out) {
      bool found = false;
      atomically([&] {
        const std::size_t head = ring_.head_.load(std::memory_order_relaxed);
        found = head != ring_.tail_.load(std::memory_order_relaxed);
        if (!found) return;
        out = ring_.slots_[head & ring_.mask_].load(std::memory_order_relaxed);
        ring_.head_.store(head + 1, std::memory_order_relaxed);
      });
      return found;
    }
    /// Operations of this handle that have taken the lock.
    std::uint64_t locked() const noexcept { return locked_; }

   private:
    template <class Body>
    void atomically(Body body) {
      for (unsigned left = ring_.attempts_; left != 0; --left) {
        await_unlocked();
        if (Transactions::attempt(ring_.lock_, body)) return;
      }
      ++locked_;
      while (ring_.lock_.exchange(true, std::memory_order_acquire)) await_unlocked();
      body();
      ring_.lock_.store(false, std::memory_order_release);
    }
    void await_unlocked() const {
      while (ring_.lock_.load(std::memory_order_relaxed)) Pause::turn();
    }

    htm_ring& ring_;
    std::uint64_t locked_ = 0;
  };

 private:
  const std::size_t mask_;
  const std::unique_ptr<std::atomic<T>[]> slots_;
  const unsigned attempts_;
  alignas(isolation_size) std::atomic<bool> lock_{false};
  // Both only grow; tail_ - head_ items are in the ring.
  alignas(isolation_size) std::atomic<std::size_t> head_{0};
  alignas(isolation_size) std::atomic<std::size_t> tail_{0};
};

}  // namespace muster::bench
