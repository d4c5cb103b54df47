// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// compare.hpp: does one job in several ways in turn, checks that all results are equal, and shows the times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace find_text {

/// One way to do the job.
template <class Result>
struct method {
  std::string name;
  unsigned workers;
  std::function<void(Result&)> run;  // turns its argument into the result
};

template <class Result>
struct comparison {
  Result reference;                          // of the first method, in a run that is not timed
  std::vector<std::vector<double>> seconds;  // of each method
  std::string difference;                    // the name of a method with another result; empty when there is none
};

/// Runs each method `repeats` times, on a copy of `start` each time. The first one also makes an untimed run, which
/// brings the files into memory. The methods take turns, in a new random order each round, so that a slow moment of the
/// machine does not always hit the same method.
template <class Result>
comparison<Result> compare_methods(const std::vector<method<Result>>& methods, const Result& start,
                                   std::size_t repeats) {
  comparison<Result> all{start, std::vector<std::vector<double>>(methods.size()), {}};
  methods.front().run(all.reference);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i != methods.size(); ++i) order.push_back(i);
  std::mt19937 random(1);
  for (std::size_t round = 0; round != repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t which : order) {
      Result result = start;
      const auto begin = std::chrono::steady_clock::now();
      methods[which].run(result);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      all.seconds[which].push_back(time.count());
      if (result == all.reference) continue;
      all.difference = methods[which].name + " with " + std::to_string(methods[which].workers) + " workers";
      return all;
    }
  }
  return all;
}

/// The median; the mean of the middle two when the number of values is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Prints one line for each method; the last column compares with the first.
template <class Result>
void print_times(const std::vector<method<Result>>& methods, const comparison<Result>& compared) {
  std::printf("all results are equal; medians of %zu runs each\n\n", compared.seconds.front().size());
  std::printf("%-12s %8s %13s %10s\n", "method", "workers", "time", "speed");
  const double first = median(compared.seconds.front());
  for (std::size_t i = 0; i != methods.size(); ++i) {
    const double seconds = median(compared.seconds[i]);
    std::printf("%-12s %8u %10.3f ms %8.2f x\n", methods[i].name.c_str(), methods[i].workers, seconds * 1e3,
                first / seconds);
  }
}

}  // namespace find_text
