// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stealing.hpp: how much a worker offers when asked, and statistics of the cost of stealing.
#pragma once

#include <muster/base/arch.hpp>  // cycles
#include <muster/base/real.hpp>  // real::atomic

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI {

/// How many of its forks a worker offers when asked: the older half; all; or only the oldest, and then it waits until
/// a thief has taken it, for at most some microseconds.
enum class steal_share { half, all, one };

/// Counts of a pool since its creation. Cycles are those of the processor's time-stamp counter, as in muster::cycles().
struct pool_statistics {
  std::uint64_t thefts = 0;             ///< second halves of forks, and asyncs, that another worker took
  std::uint64_t answers = 0;            ///< times that workers answered a request
  std::uint64_t offered = 0;            ///< forks that these answers offered
  std::uint64_t returns = 0;            ///< joins of forks that had been offered
  std::uint64_t publishing_cycles = 0;  ///< owners' cycles for answering
  std::uint64_t returning_cycles = 0;   ///< owners' cycles for joining offered forks, without the waiting
  std::uint64_t waiting_cycles = 0;     ///< owners' cycles waiting for thieves, including work executed meanwhile
  std::uint64_t taking_cycles = 0;      ///< thieves' cycles from finding an offer to beginning to execute it
};

namespace detail {

/// The counts of one worker. The fast path, without a request, counts nothing. Not visible to the model checker: the
/// counts order nothing, and times would make every execution different.
class steal_counts {
 public:
  using count = real::atomic<std::uint64_t>;
  count thefts{0}, answers{0}, offered{0}, returns{0}, publishing{0}, returning{0}, waiting{0}, taking{0};

  /// Called by one thread at a time.
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

/// Adds the cycles from its construction to its destruction.
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
  bool always = false;  // every fork is published immediately, for tests
  bool apart = false;   // forks are pushed and popped even if they could be found on the stack
  steal_share share = steal_share::half;

  /// The number of forks to offer, out of `many`.
  unsigned share_of(unsigned many) const noexcept {
    if (share == steal_share::one && !always) return many == 0 ? 0 : 1;
    return share == steal_share::all ? many : many - many / 2;
  }
};

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
