// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/memory: the most memory that a program has resident, in a process of its own.
#include "experiments/fork/points.hpp"

#include <array>

namespace muster::bench {
namespace {

/// From the same runs: what came on top of the process that had not begun.
void add_growth(std::vector<result>& results) {
  axis y = results.front().y;
  y.name = "memory added";
  result r = results.front().also("-growth", "What a fork/join program adds to the memory of its process", y);
  for (series& s : r.lines) {
    for (point& p : s.points) {
      const std::vector<double> at_start = p.told("resident at the start");
      for (std::size_t i = 0; i < at_start.size(); ++i) p.samples[i] -= at_start[i] * 0x1p-20;
    }
  }
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "peak of the whole process, with the program that measures; each run in a process of its own";
  r.x = {"program", "", "category", ""};
  r.y = {"peak memory", "MiB", "", "lower"};
  add_fork_lines(made, s, fork_programs, std::array{"uts T3", "fib", "skynet"});
  made.value = [](const outcome& o) { return static_cast<double>(o.peak_memory) * 0x1p-20; };
  made.finish = add_growth;
  return made;
}

}  // namespace

experiment fork_memory() { return {"fork/memory", "fork", "", "Peak memory of fork/join programs", prepare}; }

}  // namespace muster::bench
