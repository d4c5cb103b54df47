// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// turn.hpp: what the baseline stacks and queues do while they wait, and their dice.
//
// A thread that waits for another, or steps back after losing a race, calls Pause::turn(). By default that is the
// processor's pause. In an experiment with user-level threads it switches to a sibling on the same kernel thread, as in
// "Lock Oscillation", section 5. That is the only place where an operation can be interrupted by a sibling, and nothing
// here is kept per kernel thread: what an operation needs between its steps belongs to a handle, and each user-level
// thread has its own.
#pragma once

#include <muster/base/sync.hpp>  // sync::relax

#include <algorithm>
#include <cstdint>

namespace muster::bench::inline MUSTER_ABI {

/// The default: waits on the spot.
struct cpu_turn {
  static void turn() noexcept { sync::relax(); }
};

/// Marsaglia's xorshift, one per handle. Seeded with what only this handle has (sync::new_object_id), so that handles
/// differ.
class small_random {
 public:
  explicit small_random(std::uint64_t identity) noexcept
      : state_((identity ^ 0x2545f4914f6cdd1dU) * 0x9e3779b97f4a7c15U | 1) {}

  /// From 0 to `limit` - 1; `limit` must not be 0.
  std::uint32_t below(std::uint32_t limit) noexcept {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(((state_ >> 32) * limit) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// In turns. With {0, 0} no thread steps back; with {1, 1} exactly one turn lies between two attempts.
struct backoff_limits {
  unsigned least = 1;
  unsigned most = 256;
};

/// Randomized exponential backoff, for one operation: the n-th lost race costs 1 to min(most, least * 2^n) turns.
template <class Pause>
class backoff {
 public:
  backoff(const backoff_limits& limits, small_random& dice) noexcept
      : limit_(limits.least), most_(limits.most), dice_(dice) {}

  void lost() noexcept {
    if (limit_ == 0) return;
    for (unsigned turns = 1 + dice_.below(limit_); turns != 0; --turns) Pause::turn();
    limit_ = std::min(2 * limit_, std::max(most_, 1U));
  }

 private:
  unsigned limit_;
  const unsigned most_;
  small_random& dice_;
};

}  // namespace muster::bench::inline MUSTER_ABI
