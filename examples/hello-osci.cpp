// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The first program of the guide to combining: many fibers fill one map.

// [first]
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <cstdio>
#include <map>

int main() {
  muster::osci<std::map<int, int>> histogram;  // a map for all threads, one operation at a time

  muster::run_team({.carriers = 2, .fibers = 32}, [&](unsigned carrier, unsigned fiber) {
    for (int i = 0; i < 1000; ++i) {
      const int key = static_cast<int>(carrier + fiber + static_cast<unsigned>(i)) % 10;
      histogram.apply([key](std::map<int, int>& all) { ++all[key]; });
    }
  });

  const int total = histogram.apply([](std::map<int, int>& all) {
    int sum = 0;
    for (const auto& [key, count] : all) sum += count;
    return sum;
  });
  std::printf("%d operations were counted\n", total);
  return total == 64'000 ? 0 : 1;
}
// [/first]
