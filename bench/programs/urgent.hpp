// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// urgent.hpp: a chain of urgent joins, beside a heap of longer pieces that are not urgent. A worker that executes any
// piece while it waits for a join returns to the join late; one that executes nothing leaves its processor idle. All
// pieces sleep, so that the number of processors does not matter.
#pragma once

#include "programs/program.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

namespace muster::bench {

/// Times in seconds.
struct urgent_times {
  static constexpr double piece = 10e-3, first_half = 2e-3, second_half = 4e-3;
  /// The total time if no worker ever waits.
  static double ideal(std::uint64_t many, unsigned workers) {
    return static_cast<double>(many) * (2 * piece + first_half + second_half) / workers;
  }
};

template <class S>
class urgent {
 public:
  static constexpr program_sizes size{2, 24, 100};  // joins; twice as many pieces are in the heap
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit urgent(std::uint64_t many) : many_(many) {}

  void run(S) {
    const auto [a, b] =
        S::fork2([this] { return chain(); },
                 [this] {
                   return S::sum(2 * static_cast<unsigned>(many_), [](unsigned) { return sleep(urgent_times::piece); });
                 });
    value_ = a + b;
  }

  std::uint64_t digest() const { return value_; }
  std::string error() const { return value_ == 4 * many_ ? "" : "a piece is lost"; }
  std::uint64_t items() const { return many_; }
  void tell(std::map<std::string, double>& to) const { to["latest join"] = latest_; }

 private:
  using clock = std::chrono::steady_clock;

  static std::uint64_t sleep(double seconds) {
    S::leaf();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return 1;
  }
  std::uint64_t chain() {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < many_; ++i) {
      std::atomic<clock::time_point> ended{};  // the half that ends later
      const auto half = [&ended](double seconds) {
        const std::uint64_t one = sleep(seconds);
        const auto now = clock::now();
        for (auto last = ended.load(); last < now && !ended.compare_exchange_weak(last, now);) {
        }
        return one;
      };
      const auto [a, b] =
          S::fork2([&] { return half(urgent_times::first_half); }, [&] { return half(urgent_times::second_half); });
      const std::chrono::duration<double> late = clock::now() - ended.load();
      latest_ = std::max(latest_, late.count());
      sum += a + b;
    }
    return sum;
  }

  const std::uint64_t many_;
  double latest_ = 0;  // the largest delay of a join after both halves, in seconds
  std::uint64_t value_ = 0;
};

}  // namespace muster::bench
