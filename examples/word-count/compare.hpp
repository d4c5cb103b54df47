// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// compare.hpp: runs several ways to do the same job in turn, checks that all results are equal, and shows the times.
#pragma once

#include "count.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace word_count {

/// One way to do the job.
struct method {
  std::string name;
  outcome (*run)(const job&);
};

struct outcome_times {
  double counting;
  double merging;
  double total;
  double cpu;
};

struct method_times {
  std::string name;
  std::vector<outcome_times> runs;
};

struct comparison {
  outcome reference;                // the result of the first, untimed run
  std::vector<method_times> times;  // in the order of the methods
  std::string difference;           // empty when all results were equal
};

inline outcome_times times_of(const outcome& result) {
  return {result.counting_seconds, result.merging_seconds, result.seconds(), result.cpu_seconds};
}

/// The difference between the results, as a message; empty if they are equal. Compares the whole tables.
inline std::string difference(const outcome& reference, const outcome& result, const std::string& name) {
  const reading_report& a = reference.input;
  const reading_report& b = result.input;
  if (a.files != b.files || a.bytes != b.bytes || a.unreadable != b.unreadable)
    return "the files changed while they were compared; run again while no program writes to the directory";
  if (!(reference.words == result.words))
    return "the result of '" + name + "' is not the result of the reference run; either files changed while they " +
           "were compared, or a queue is wrong";
  return {};
}

/// Does the job `repeats` times with each method. The first method also makes an untimed run: it is the reference for
/// the results, and brings the files into memory, so that no method pays for that. The methods take turns, in a new
/// random order each round, so that neither a slow moment of the machine nor the previous run always affects the same
/// method.
inline comparison compare_methods(const std::vector<method>& methods, const job& work, std::size_t repeats) {
  comparison result;
  result.reference = methods.front().run(work);
  std::vector<std::size_t> order;
  for (const method& how : methods) {
    order.push_back(order.size());
    result.times.push_back({how.name, {}});
  }
  std::mt19937 random(1);
  for (std::size_t round = 0; round != repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t which : order) {
      const outcome run = methods[which].run(work);
      result.difference = difference(result.reference, run, methods[which].name);
      if (!result.difference.empty()) return result;
      result.times[which].runs.push_back(times_of(run));
    }
  }
  return result;
}

/// The median of one of the times; the mean of the middle two when the number of runs is even.
inline double median(const std::vector<outcome_times>& runs, double outcome_times::* which) {
  std::vector<double> values;
  for (const outcome_times& run : runs) values.push_back(run.*which);
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Prints one line for each method; the last column compares with the first.
inline void print_times(const std::vector<method_times>& methods) {
  const bool several = methods.size() > 1;
  std::printf("%-8s %12s %10s %10s %10s%s\n", "queue", "count", "merge", "total", "CPU time",
              several ? "    speed" : "");
  const double first = median(methods.front().runs, &outcome_times::total);
  for (const auto& [name, runs] : methods) {
    const double total = median(runs, &outcome_times::total);
    std::printf("%-8s %10.3f s %8.3f s %8.3f s %8.3f s", name.c_str(), median(runs, &outcome_times::counting),
                median(runs, &outcome_times::merging), total, median(runs, &outcome_times::cpu));
    if (several) std::printf("  %5.2f x", first / total);
    std::printf("\n");
  }
}

}  // namespace word_count
