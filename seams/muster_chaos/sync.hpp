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
#include <muster/base/detail/asymmetric_fence.hpp>
#include <muster/base/detail/futex.hpp>
#include <muster/base/detail/native.hpp>
#include <muster/base/detail/thread_state.hpp>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

/// Yields; but after a yield in which others ran for long, the thread does without some, so that on a busy machine too
/// each takes no more than 20 µs on average. Such a machine causes rare orders anyway.
inline void yield() noexcept {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds affordable{20}, longest{20'000};
  thread_local clock::duration owed{};
  if (owed > affordable) {
    owed -= affordable;
    return;
  }
  const clock::time_point start = clock::now();
  ::sched_yield();
  owed += std::min<clock::duration>(clock::now() - start, longest);
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
  if (p.yield_one_in != 0 && state % p.yield_one_in == 0) yield();
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

  T& write_ref() noexcept { return point(), value_; }
  const T& read_ref() const noexcept { return point(), value_; }

 private:
  T value_;
};

using native::at_thread_end;
using native::before_thread_end;
using native::cache_part;
using native::cached_part;
using native::copy_of_library;
using native::fork_generation;
using native::innermost;
using native::last_work;
using native::lasting;
using native::lasts;
using native::nap;
using native::new_object_id;
using native::own;
using native::own_siblings;
using native::own_tenure;
using native::thread_index;
using native::thread_tenure;

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
