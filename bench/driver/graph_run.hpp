// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// graph_run.hpp: one run of a contender that executes graphs of tasks: a wavefront, whose node in row i and column j
// follows those above it and to its left; or a fan, in which many nodes follow the first, and the last follows them.
// The graph is built once and executed again and again; only that is timed.
//
// Each node counts its executions, and checks that those before it have been executed once more than itself; the last
// one of a fan checks a few of them. So a node that is lost, repeated or too early is noticed, at a cost that is the
// same for all contenders.
//
// A contender G has
//   caller_works                  true if the thread that calls run() executes nodes as well
//   G(workers)                    starts the threads
//   build(width, node)            makes a wavefront, in which the node at (i, j) calls node(i, j)
//   build_fan(many, node)         makes a fan: node(0) is the first, node(1) to node(many) follow it, and
//                                 node(many + 1) follows these
//   run()                         executes it, and returns when all nodes have ended
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {

class executed_graph {
 public:
  executed_graph(std::uint32_t width, bool fan) : width_(width), runs_of_(std::size_t{width} * width + (fan ? 2 : 0)) {}

  void execute(std::uint32_t i, std::uint32_t j) {
    std::uint32_t* const here = &runs_of_[std::size_t{i} * width_ + j];
    const std::uint32_t run = ++*here;
    const bool right = (i == 0 || *(here - width_) == run) && (j == 0 || *(here - 1) == run);
    if (!right) wrong_.fetch_add(1, std::memory_order_relaxed);
  }
  void execute_in_fan(std::size_t i) {
    const std::uint32_t run = ++runs_of_[i];
    const std::size_t last = runs_of_.size() - 1;
    bool right = i == 0 || runs_of_[0] == run;
    for (std::size_t k = 1; i == last && k < last; k += 1 + last / 8) right = right && runs_of_[k] == run;
    if (!right) wrong_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Empty if every node has been executed once in each of so many runs.
  std::string error(std::uint64_t runs) const {
    if (wrong_ != 0) return fmt::format("{} nodes were executed before one that they follow", wrong_.load());
    const auto other = std::find_if(runs_of_.begin(), runs_of_.end(), [&](std::uint32_t n) { return n != runs; });
    if (other == runs_of_.end()) return "";
    return fmt::format("a node was executed {} times in {} runs", *other, runs);
  }

 private:
  const std::uint32_t width_;
  std::vector<std::uint32_t> runs_of_;
  std::atomic<std::uint64_t> wrong_{0};
};

template <class Graph>
outcome run_graph(const graph_spec& spec) {
  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point begin) {
    return std::chrono::duration<double>(clock::now() - begin).count();
  };
  outcome result;
  // New threads may stay on the processor of their creator for long, so this one is elsewhere then; see fork_run.hpp.
  std::vector<int> units = spec.pus;
  if (Graph::caller_works && units.size() > 1) units.erase(units.begin());
  share_units(units);
  Graph graph(spec.workers);
  executed_graph cells(spec.width, spec.fan);
  auto begin = clock::now();
  if (spec.fan) graph.build_fan(spec.width * spec.width, [&cells](std::size_t i) { cells.execute_in_fan(i); });
  else graph.build(spec.width, [&cells](std::uint32_t i, std::uint32_t j) { cells.execute(i, j); });
  result.detail["building"] = seconds_since(begin);
  graph.run();
  if (Graph::caller_works && units.size() < spec.pus.size()) share_units({spec.pus.begin(), spec.pus.begin() + 1});
  graph.run();

  const std::uint64_t nodes = std::uint64_t{spec.width} * spec.width + (spec.fan ? 2 : 0);
  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / nodes);
  const double cpu = cpu_seconds();
  begin = clock::now();
  for (std::uint64_t i = 0; i < times; ++i) graph.run();
  result.seconds = seconds_since(begin);
  result.cpu_seconds = cpu_seconds() - cpu;
  result.items = times * nodes;
  result.detail["building"] *= 1e9 / static_cast<double>(nodes);
  result.error = cells.error(times + 2);
  return result;
}

}  // namespace muster::bench
