// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stealing.hpp: how much a worker offers when it is asked, and what stealing costs.
#pragma once

#include <muster/base/arch.hpp>  // cycles
#include <muster/base/real.hpp>  // real::atomic

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI {

/// How many of its forks a worker offers when it is asked: the older half; all; or the oldest, and then it stops until
/// that has been taken, or for some microseconds.
enum class steal_share { half, all, one };

/// Of a pool, since it was made. Cycles are those of the processor's clock counter: compare them with each other, and
/// with muster::cycles().
struct pool_statistics {
  std::uint64_t thefts = 0;             ///< halves of forks, and asyncs, that another worker has taken
  std::uint64_t answers = 0;            ///< that workers have looked through their forks for others
  std::uint64_t offered = 0;            ///< forks that were offered in these
  std::uint64_t returns = 0;            ///< joins of forks that had been offered
  std::uint64_t publishing_cycles = 0;  ///< that owners have lost by answering,
  std::uint64_t returning_cycles = 0;   ///< by joining what had been offered, without
  std::uint64_t waiting_cycles = 0;     ///< waiting for thieves; includes what they have executed meanwhile
  std::uint64_t taking_cycles = 0;  ///< of thieves, from where they have found somebody who offers to where they begin
};

namespace detail {

/// What one worker counts. Nothing is counted where nobody has asked. No order hangs on it, so the checker sees nothing
/// of it: of times, no two executions would be the same.
class steal_counts {
 public:
  using count = real::atomic<std::uint64_t>;
  count thefts{0}, answers{0}, offered{0}, returns{0}, publishing{0}, returning{0}, waiting{0}, taking{0};

  /// By one thread at a time.
  static void add(count& to, std::uint64_t more) noexcept {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void add_to(pool_statistics& sum) const noexcept {
    sum.thefts += thefts.load(std::memory_order_relaxed);
    sum.answers += answers.load(std::memory_order_relaxed);
    sum.offered += offered.load(std::memory_order_relaxed);
    sum.returns += returns.load(std::memory_order_relaxed);
    sum.publishing_cycles += publishing.load(std::memory_order_relaxed);
    sum.returning_cycles += returning.load(std::memory_order_relaxed);
    sum.waiting_cycles += waiting.load(std::memory_order_relaxed);
    sum.taking_cycles += taking.load(std::memory_order_relaxed);
  }
};

/// Adds the cycles of its life.
class timed {
 public:
  explicit timed(steal_counts::count& to) noexcept : to_(to), since_(cycles()) {}
  ~timed() { steal_counts::add(to_, cycles() - since_); }
  timed(const timed&) = delete;
  timed& operator=(const timed&) = delete;

 private:
  steal_counts::count& to_;
  const std::uint64_t since_;
};

/// How a worker keeps its forks.
struct deque_options {
  bool always = false;  // every fork is published at once, for tests
  bool apart = false;   // forks are pushed and popped, also where they could be found on the stack
  steal_share share = steal_share::half;

  /// How many of `many` forks are offered.
  unsigned share_of(unsigned many) const noexcept {
    if (share == steal_share::one && !always) return many == 0 ? 0 : 1;
    return share == steal_share::all ? many : many - many / 2;
  }
};

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
