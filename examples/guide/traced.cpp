// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: the program whose trace docs/pictures/trace.svg shows: a graph of nodes with names, which use loops.

#include "expect.hpp"

#include <muster/fork.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

int main() {
  constexpr std::size_t many = 300'000;
  std::vector<double> samples(many), sorted, smooth(many);
  double median = 0, energy = 0;
  bool done = false;

  muster::pool pool(3);
  muster::task_graph graph;
  auto load = graph.add("load", [&] {
    for (std::size_t i = 0; i < many; ++i) samples[i] = static_cast<double>(i * 7919 % many);
  });
  auto sort = graph.add(
      "sort",
      [&] {
        sorted = samples;
        muster::parallel_sort(sorted);
        median = sorted[many / 2];
      },
      muster::after(load));
  auto filter = graph.add(
      "smooth",
      [&] {
        muster::parallel_for(std::size_t{1}, many - 1, [&](std::size_t i) {
          for (int turn = 0; turn < 20; ++turn)
            smooth[i] = std::sqrt(samples[i - 1] + samples[i] + samples[i + 1] + smooth[i]);
        });
      },
      muster::after(load));
  auto sum = graph.add(
      "sum", [&] { energy = muster::parallel_reduce(smooth.begin(), smooth.end(), 0.0, std::plus<>()); },
      muster::after(filter));
  graph.add("report", [&] { done = median == static_cast<double>(many / 2) && energy > 0; }, muster::after(sort, sum));
  graph.run(pool);
  expect(done && std::is_sorted(sorted.begin(), sorted.end()));
}
