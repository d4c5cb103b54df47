// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// local_work.hpp: what a thread does between two operations on a shared object: dummy iterations, a random number of
// them. One function for all contenders. It is that of the "Lock Oscillation" experiments: uniform in [least, limit).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace muster::bench {

/// The loop counter lives in memory, so that an iteration costs a store and a load, whatever the compiler. Never
/// inlined: what these cost depends on how the counter is addressed, twofold, and must be the same for all.
[[gnu::noinline]] inline void dummy_iterations(std::uint32_t n) noexcept {
  for (volatile std::uint32_t i = 0; i < n;) {
    const std::uint32_t next = i + 1;
    i = next;
  }
}

/// Marsaglia's xorshift. One for each fiber.
class dice {
 public:
  explicit dice(std::uint64_t seed) noexcept : state_((seed + 1) * 0x9e3779b97f4a7c15U | 1) {}

  /// From 0 to `limit` - 1; `limit` must not be 0.
  std::uint32_t below(std::uint32_t limit) noexcept {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(((state_ >> 32) * limit) >> 32);
  }

 private:
  std::uint64_t state_;
};

class local_work {
 public:
  local_work(unsigned least, unsigned limit, std::uint64_t seed) noexcept : least_(least), limit_(limit), dice_(seed) {}

  void operator()() noexcept {
    if (limit_ > least_) dummy_iterations(least_ + dice_.below(limit_ - least_));
    else dummy_iterations(limit_);
  }

 private:
  const unsigned least_;
  const unsigned limit_;
  dice dice_;
};

/// What an iteration costs here, the best of some tries. Measured once.
inline double nanoseconds_per_iteration() {
  static const double found = [] {
    constexpr std::uint32_t iterations = 100000;
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      dummy_iterations(iterations);
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / iterations);
    }
    return best;
  }();
  return found;
}

}  // namespace muster::bench
