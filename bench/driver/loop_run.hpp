// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loop_run.hpp: one run of a contender that has parallel loops: many short loops, one after another, on the calling
// thread. The number of turns varies by a tenth from loop to loop, because a processor learns when a loop of always the
// same length ends. The results must be those of a plain loop.
//
// A contender L has
//   L(workers)                    starts the threads
//   run(f)                        calls f on a thread that may use them
//   each(turns, f)                a loop: f(0), ..., f(turns - 1)
//   sum(turns, f)                 f(0) + ... + f(turns - 1)
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::bench {

struct plain_loops {
  explicit plain_loops(unsigned) {}
  template <class F>
  void run(F f) {
    f();
  }
  template <class F>
  static void each(int turns, F f) {
    for (int i = 0; i < turns; ++i) f(i);
  }
  template <class F>
  static double sum(int turns, F f) {
    double all = 0;
    for (int i = 0; i < turns; ++i) all = all + f(i);
    return all;
  }
};

/// Executes the loops on these numbers. Returns the sum of all sums.
template <class L>
double execute_loops(const loop_spec& spec, std::uint64_t loops, std::vector<double>& numbers) {
  std::uint64_t random = 1;
  double all = 0;
  double* const at = numbers.data();
  for (std::uint64_t loop = 0; loop < loops; ++loop) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto turns = static_cast<int>(spec.turns - spec.turns / 10 + (random >> 33U) % (spec.turns / 5 + 1));
    const auto added = static_cast<double>(loop & 7U);
    if (spec.what == loop_load::each) L::each(turns, [at, added](int i) { at[i] = at[i] * 0.5 + added; });
    else all += L::sum(turns, [at, added](int i) { return at[i] + added; });
    asm volatile("" : : "r"(at) : "memory");
  }
  return all;
}

template <class L>
outcome run_loops(const loop_spec& spec) {
  using clock = std::chrono::steady_clock;
  outcome result;
  share_units(spec.pus);
  L pool(spec.workers);
  std::vector<double> numbers(spec.turns + spec.turns / 5 + 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 100);
  std::vector<double> expected = numbers;
  const std::uint64_t loops = std::max<std::uint64_t>(1, spec.items);
  double sum = 0;
  pool.run([&] {
    std::vector<double> warm = numbers;
    execute_loops<L>(spec, std::min<std::uint64_t>(loops, 200), warm);
    const double cpu = cpu_seconds();
    const auto begin = clock::now();
    sum = execute_loops<L>(spec, loops, numbers);
    result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    result.cpu_seconds = cpu_seconds() - cpu;
  });
  result.items = loops;
  const double expected_sum = execute_loops<plain_loops>(spec, loops, expected);
  if (numbers != expected) result.error = "the numbers are not those of plain loops";
  // Sums of parts may be rounded otherwise.
  if (std::abs(sum - expected_sum) > 1e-9 * std::abs(expected_sum)) result.error = "the sum is not that of plain loops";
  return result;
}

}  // namespace muster::bench
