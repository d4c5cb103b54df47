// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync.hpp: the chaotic side of the seam muster/base/sync.hpp, for headers compiled with MUSTER_CHAOS. The standard
// library's atomics; before an operation they may delay, yield, or kill the process.
//
// Use it     delays and yields, set in settings(), cause orders of events that are rare otherwise.
//            die_at() kills the process before its n-th operation: call it in a child of fork() whose queue lies in
//            memory that the parent shares (shared_region.hpp), for each n until the child survives.
// Between    processes: futexes are shared, and there is no asymmetric fence, as membarrier(2) reaches one process
//            only.
#pragma once

#include <muster/base/arch.hpp>
#include <muster/base/futex.hpp>
#include <muster/base/real.hpp>
#include <muster/base/thread.hpp>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace muster_chaos {

/// At random, once in this many operations; 0: never.
struct plan {
  unsigned delay_one_in = 0;
  unsigned yield_one_in = 0;
  unsigned delay = 200;  // pauses
};
inline plan& settings() {
  static plan one;
  return one;
}

/// Operations of this process since the last die_at() or count().
struct death {
  std::atomic<std::uint64_t> at{0};  // 0: never
  std::atomic<std::uint64_t> operations{0};
  bool by_fault = false;  // for a process that cannot send signals
};
inline death& fate() {
  static death one;
  return one;
}
/// Kills this process before its n-th operation from now on; 0: counts only.
inline void die_at(std::uint64_t n) {
  fate().operations.store(0);
  fate().at.store(n);
}

/// Before every operation.
inline void point() noexcept {
  death& end = fate();
  if (const std::uint64_t at = end.at.load(std::memory_order_relaxed); at != 0)
    if (end.operations.fetch_add(1, std::memory_order_relaxed) + 1 == at)
      for (;;) end.by_fault ? __builtin_trap() : static_cast<void>(::kill(::getpid(), SIGKILL));
  const plan& p = settings();
  if (p.delay_one_in == 0 && p.yield_one_in == 0) return;
  static std::atomic<std::uint64_t> threads{1};
  thread_local std::uint64_t state = 0x9e3779b97f4a7c15U * threads.fetch_add(1);
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  if (p.yield_one_in != 0 && state % p.yield_one_in == 0) ::sched_yield();
  if (p.delay_one_in != 0 && (state >> 20) % p.delay_one_in == 0)
    for (unsigned i = 0; i < p.delay; ++i) muster::pause();
}

}  // namespace muster_chaos

namespace muster::inline MUSTER_ABI::chaos {

using muster_chaos::point;

template <class T>
class atomic {
  using order = std::memory_order;

 public:
  atomic() noexcept = default;
  explicit atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(order o = order::seq_cst) const noexcept { return point(), value_.load(o); }
  void store(T v, order o = order::seq_cst) noexcept { point(), value_.store(v, o); }
  T exchange(T v, order o = order::seq_cst) noexcept { return point(), value_.exchange(v, o); }
  T fetch_add(T v, order o = order::seq_cst) noexcept { return point(), value_.fetch_add(v, o); }
  T fetch_sub(T v, order o = order::seq_cst) noexcept { return point(), value_.fetch_sub(v, o); }
  T fetch_or(T v, order o = order::seq_cst) noexcept { return point(), value_.fetch_or(v, o); }
  T fetch_and(T v, order o = order::seq_cst) noexcept { return point(), value_.fetch_and(v, o); }
  T fetch_xor(T v, order o = order::seq_cst) noexcept { return point(), value_.fetch_xor(v, o); }
  bool compare_exchange_strong(T& expected, T desired, order success, order failure) noexcept {
    return point(), value_.compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_strong(T& expected, T desired, order o = order::seq_cst) noexcept {
    return point(), value_.compare_exchange_strong(expected, desired, o);
  }
  bool compare_exchange_weak(T& expected, T desired, order success, order failure) noexcept {
    return point(), value_.compare_exchange_weak(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, order o = order::seq_cst) noexcept {
    return point(), value_.compare_exchange_weak(expected, desired, o);
  }
  const void* address() const noexcept { return &value_; }

 private:
  std::atomic<T> value_{};
};

template <class T>
class cell {
 public:
  cell() = default;
  template <class... Args>
  explicit cell(Args&&... args) : value_(std::forward<Args>(args)...) {}

  T& ref() noexcept { return point(), value_; }
  const T& get() const noexcept { return point(), value_; }

 private:
  T value_;
};

using real::at_thread_end;
using real::before_thread_end;
using real::innermost;
using real::keep_part_of;
using real::kept_part_of;
using real::last_work;
using real::lasting;
using real::lasts;
using real::nap;
using real::new_identity;
using real::own;
using real::own_siblings;
using real::own_tenure;
using real::thread_index;
using real::thread_tenure;

inline void switch_fiber() noexcept {}
inline void relax() noexcept { pause(); }
inline void yield() noexcept { ::sched_yield(); }
inline void light_fence() noexcept { point(); }
inline void full_fence() noexcept { point(), std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void heavy_fence(futex_scope = futex_scope::process) noexcept {}
inline bool try_heavy_fence(futex_scope = futex_scope::process) noexcept { return true; }
inline bool asymmetric_fences(futex_scope = futex_scope::process) noexcept { return false; }

inline futex_reason futex_wait(const atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t bits,
                               deadline until, futex_scope) noexcept {
  point();
  return MUSTER_ABI::futex_wait(word.address(), expected, bits, until, futex_scope::shared);
}

/// Every word counts as shared, as in futex_wait().
inline futex_reason futex_wait_any(const futex_words& words, deadline until) noexcept {
  futex_words shared;
  for (unsigned i = 0; i < words.count(); ++i) {
    futex_word one = words[i];
    one.at = static_cast<const atomic<std::uint32_t>*>(one.at)->address();
    one.scope = futex_scope::shared;
    shared.add(one, false);
  }
  point();
  return MUSTER_ABI::futex_wait_any(shared, until);
}

inline int futex_wake(const atomic<std::uint32_t>& word, int count, std::uint32_t bits, futex_scope) noexcept {
  point();
  return MUSTER_ABI::futex_wake(word.address(), count, bits, futex_scope::shared);
}

}  // namespace muster::inline MUSTER_ABI::chaos
