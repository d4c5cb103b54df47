// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// local_work.hpp: the work of a thread between two operations on a shared object: a random number of dummy iterations,
// uniform in [least, limit), as in the "Lock Oscillation" experiments. One function for all contenders.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace muster::bench {

/// Marsaglia's xorshift. One for each fiber.
class dice {
 public:
  explicit dice(std::uint64_t seed) noexcept : state_((seed + 1) * 0x9e3779b97f4a7c15U | 1) {}

  /// A number from 0 to `limit` - 1; `limit` must not be 0.
  std::uint32_t below(std::uint32_t limit) noexcept {
    state_ = after(state_, 1);
    return static_cast<std::uint32_t>(((state_ >> 32) * limit) >> 32);
  }

  /// The dummy iterations: throws `n` times and ignores the results. Each takes six cycles on every processor, for six
  /// dependent instructions. (The usual loop over a counter in memory takes one cycle or five per iteration, depending
  /// on whether the processor forwards the counter through a register, which changes at any time.)
  void skip(std::uint32_t n) noexcept { state_ = after(state_, n); }

 private:
  /// Never inlined, so that it costs all callers the same.
  [[gnu::noinline]] static std::uint64_t after(std::uint64_t state, std::uint32_t throws) noexcept {
    for (; throws != 0; --throws) state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const volatile std::uint64_t last = state;  // keeps the compiler from removing the unused result
    return last;
  }

  std::uint64_t state_;
};

class local_work {
 public:
  local_work(unsigned least, unsigned limit, std::uint64_t seed) noexcept : least_(least), limit_(limit), dice_(seed) {}

  void operator()() noexcept { dice_.skip(limit_ > least_ ? least_ + dice_.below(limit_ - least_) : limit_); }

 private:
  const unsigned least_;
  const unsigned limit_;
  dice dice_;
};

/// If not 0, used instead of the measured time. A dry run does not depend on it.
inline double assumed_nanoseconds_per_iteration = 0;

/// The time of an iteration on this machine, the best of some tries. Measured once.
inline double nanoseconds_per_iteration() {
  static const double found = [] {
    if (assumed_nanoseconds_per_iteration != 0) return assumed_nanoseconds_per_iteration;
    constexpr std::uint32_t iterations = 100000;
    double best = 1e9;
    dice spent(0);
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      spent.skip(iterations);
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / iterations);
    }
    return best;
  }();
  return found;
}

}  // namespace muster::bench
