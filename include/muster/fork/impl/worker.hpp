// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// worker.hpp: a thread's part in a pool: its forks, how it looks for work, and how it waits for what was stolen.
//
// A worker without work looks at what the others offer and asks them, more and more seldom when what it gets is hardly
// worth the way. After fifty microseconds without an answer it takes unanswered; after a millisecond it sleeps.
// A worker that waits for a stolen half, or for a scope, executes only parts of it (leapfrogging), the thief's or those
// that others have stolen of it: so it never runs anything that could wait for what it holds itself. When there has
// been nothing for a fifth of a millisecond, it sleeps, and looks again after 1, 2, 4, 8, 8, ... ms. If the pool may
// have substitutes, another thread takes its place meanwhile, and it sleeps until what it waits for is done.
//
// Source     leapfrogging: Wagner and Calder, "Leapfrogging" (PPoPP 1993), which steals from the thief only.
//            Substitutes: Java's ForkJoinPool calls it compensation. A thread keeps its stack, its thread-local data
//            and its locks, which a stack that is parked and resumed by others would not.
#pragma once

#include <muster/base/thread.hpp>           // own_place
#include <muster/fork/engine/deque.hpp>     // deque
#include <muster/fork/impl/open_count.hpp>  // open_count

#include <chrono>   // how long it has looked
#include <compare>  // async_index
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class pool_core;

/// When an async was begun, among those of its scope: after so many that the scope's owner has begun, itself included,
/// and, if another thread has begun it, after so many that others have.
struct async_index {
  std::uint64_t by_owner;
  std::uint64_t by_others;
  friend auto operator<=>(const async_index&, const async_index&) = default;
};

/// Which async of which scope is being executed, innermost first. Lies on the stack.
struct async_place {
  const scope_link* scope;
  async_index index;
  const async_place* outer;
};

class worker {
 public:
  worker(pool_core& of, unsigned at, sleepers& asleep, const deque_options& how) noexcept
      : forks(asleep, how), pool(of), number(at), dice_(at * 0x9e3779b97f4a7c15ULL + 1) {}

  /// Null, or why forks cannot be found on the stack.
  static const char* no_barrier() noexcept { return deque::obstacle(); }
  /// The calling thread's, or null. Each fiber has its own.
  static worker* current() noexcept { return static_cast<worker*>(real::own_place().worker); }

  /// Returns when the thief of `r` has finished with it.
  MUSTER_COLD inline void await(fork_record& r) noexcept;
  /// Returns when all that has been begun in the scope has ended. Until then it executes what is offered for it, or for
  /// scopes within.
  MUSTER_COLD inline void await(const scope_link& scope, open_count& open) noexcept;
  /// Whether something that could run at once should rather be kept for others: when somebody asks, or when they would
  /// find little. What is kept and executed here counts until it ends; so of a recursion, the top is kept.
  bool wants_stock() const noexcept;
  bool can_make_owners_answer() const noexcept;
  /// From here on, asyncs may run within each other for some room of the stack. Returns what held before.
  MUSTER_HOT std::uintptr_t allow_depth() noexcept;
  /// Whether an async that runs at once would run so deep within others that it should rather be kept.
  MUSTER_HOT bool is_deep() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < floor && is_too_deep();
  }
  /// Looks for work until the pool ends.
  void work() noexcept;
  /// For a thread that has nothing on its stack: until its place is given a token. After a second, what it has used of
  /// its stack goes back to the system.
  void sleep_deeply() noexcept;

  deque forks;
  pool_core& pool;
  const unsigned number;
  parking_place place;
  const async_place* within = nullptr;
  std::uintptr_t floor = 0;         // an address in the stack: what runs below it is deep
  std::uintptr_t lowest_floor = 0;  // three quarters of the stack are above it; 0 where the stack is not known

 private:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration first_nap = std::chrono::milliseconds(1), longest_nap = 8 * first_nap;

  MUSTER_COLD inline bool is_too_deep() noexcept;
  template <class Steal>
  bool execute(const deque& from, Steal steal) noexcept;
  template <class Steal>
  bool steal_and_execute(Steal steal) noexcept;
  /// Somebody, who may not answer himself. Returns whether there is something to take now.
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
  unsigned own_stock_ = 0;  // of what it has kept: executes itself now
};

}  // namespace muster::inline MUSTER_ABI::detail
