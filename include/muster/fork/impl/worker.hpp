// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// worker.hpp: a worker of a pool: its forks, how it looks for work, and how it waits for stolen work.
//
// A worker without work takes offered tasks and requests more; it requests less often when tasks are too small to pay
// for the steal. After fifty microseconds without an answer it publishes for an owner; after a millisecond it sleeps.
// A worker that waits for a stolen half, or for a scope, executes only parts of it (leapfrogging), from its thief or
// from workers that stole parts of it. So it never runs anything that could wait for a lock that it holds. After a
// fifth of a millisecond without such work it sleeps, and checks again after 1, 2, 4, 8, 8, ... ms. If the pool may
// have substitutes, another thread replaces it, and it sleeps until its wait is over.
//
// Source     leapfrogging: Wagner and Calder, "Leapfrogging" (PPoPP 1993), which steals from the thief only.
//            Substitutes: Java's ForkJoinPool calls it compensation. The waiting thread keeps its stack, its
//            thread-local data and its locks; a parked stack that another thread resumes would lose the latter two.
#pragma once

#include <muster/base/thread.hpp>           // own_place
#include <muster/fork/engine/deque.hpp>     // deque
#include <muster/fork/impl/open_count.hpp>  // open_count

#include <chrono>   // how long it has looked
#include <compare>  // async_index
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class pool_core;

/// The position of an async in the order of its scope: the number that the scope's owner had started then, including
/// this one; and, if another thread started it, the number that other threads had started.
struct async_index {
  std::uint64_t by_owner;
  std::uint64_t by_others;
  friend auto operator<=>(const async_index&, const async_index&) = default;
};

/// An async that is being executed, and its scope; a list on the stack, innermost first.
struct async_place {
  const scope_link* scope;
  async_index index;
  const async_place* outer;
};

class worker {
 public:
  worker(pool_core& of, unsigned at, sleepers& asleep, const deque_options& how) noexcept
      : forks(asleep, how), pool(of), number(at), dice_(at * 0x9e3779b97f4a7c15ULL + 1) {}

  /// Returns null, or the reason why forks cannot be found on the stack.
  static const char* no_barrier() noexcept { return deque::obstacle(); }
  /// Returns the calling thread's worker, or null. Each fiber has its own.
  static worker* current() noexcept { return static_cast<worker*>(real::own_place().worker); }

  /// Waits until the thief of `r` has finished it.
  MUSTER_COLD inline void await(fork_record& r) noexcept;
  /// Waits until all asyncs of the scope have ended. Meanwhile executes asyncs offered for it, or for scopes within it.
  MUSTER_COLD inline void await(const scope_link& scope, open_count& open) noexcept;
  /// True if an async should be queued rather than run immediately: another worker asks, or would find few. A queued
  /// async that this worker executes counts until it ends, so that the top of a recursion is queued.
  bool wants_stock() const noexcept;
  bool can_make_owners_answer() const noexcept;
  /// Lets nested asyncs run immediately for a further part of the stack, from here on. Returns the previous floor.
  MUSTER_HOT std::uintptr_t allow_depth() noexcept;
  /// True if the stack is so deep that an async should be queued rather than run immediately.
  MUSTER_HOT bool is_deep() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < floor && is_too_deep();
  }
  /// Looks for work until the pool ends.
  void work() noexcept;
  /// For a thread with nothing on its stack: sleeps until its place is given a token. After a second, returns the
  /// unused part of its stack to the system.
  void sleep_deeply() noexcept;

  deque forks;
  pool_core& pool;
  const unsigned number;
  parking_place place;
  const async_place* within = nullptr;
  std::uintptr_t floor = 0;         // an address in the stack: asyncs that run below it are deep
  std::uintptr_t lowest_floor = 0;  // three quarters of the stack are above it; 0 where the stack is not known

 private:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration first_nap = std::chrono::milliseconds(1), longest_nap = 8 * first_nap;

  MUSTER_COLD inline bool is_too_deep() noexcept;
  template <class Steal>
  bool execute(const deque& from, Steal steal) noexcept;
  template <class Steal>
  bool steal_and_execute(Steal steal) noexcept;
  /// Answers for a random worker, which may not answer itself. Returns true if it offers something now.
  bool answer_for_anybody() noexcept;
  bool sleep_in_join(clock::duration nap) noexcept;
  bool sleep(clock::duration nap) noexcept;
  unsigned roll(unsigned sides) noexcept {
    dice_ ^= dice_ << 13U;
    dice_ ^= dice_ >> 7U;
    dice_ ^= dice_ << 17U;
    return static_cast<unsigned>((dice_ >> 32U) * sides >> 32U);
  }

  std::uint64_t dice_;
  unsigned own_stock_ = 0;  // queued asyncs of its own that it is executing
};

}  // namespace muster::inline MUSTER_ABI::detail
