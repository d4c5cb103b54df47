// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// level_run.hpp: one run of a contender that executes a random graph of tasks in levels: each task precedes one to four
// of the next level, so that some have several predecessors and some none. The graph is built once and executed again
// and again; only that is timed.
//
// Each node counts its executions, and checks that all before it have been executed as often as itself. So a node that
// is lost, repeated or too early is noticed, at a cost that is the same for all contenders.
//
// A contender G has
//   caller_works                  as in graph_run.hpp
//   G(workers)                    starts the threads
//   build(graph, node)            makes the graph: node(i) is executed by the i-th node, of graph.size(), and after it
//                                 graph.after(i); the nodes are in an order in which they could be executed
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
#include <vector>

namespace muster::bench {

class level_graph {
 public:
  level_graph(std::uint32_t length, std::uint32_t levels)
      : after_(std::size_t{length} * levels), before_(after_.size()), runs_of_(after_.size()) {
    std::uint64_t random = 1;
    const auto below = [&](std::uint32_t limit) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::uint32_t>((random >> 33U) % limit);
    };
    for (std::uint32_t i = 0; i < length * (levels - 1); ++i) {
      const std::uint32_t next = (i / length + 1) * length;
      std::vector<std::uint32_t>& of = after_[i];
      for (std::uint32_t edges = 1 + below(std::min(4U, length)); of.size() < edges;) {
        const std::uint32_t to = next + below(length);
        if (std::find(of.begin(), of.end(), to) == of.end()) of.push_back(to);
      }
      for (const std::uint32_t to : of) before_[to].push_back(i);
    }
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(after_.size()); }
  const std::vector<std::uint32_t>& after(std::uint32_t i) const { return after_[i]; }
  const std::vector<std::uint32_t>& before(std::uint32_t i) const { return before_[i]; }

  void execute(std::uint32_t i) {
    const std::uint32_t run = ++runs_of_[i];
    for (const std::uint32_t one : before_[i])
      if (runs_of_[one] != run) wrong_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Empty if every node has been executed once in each of so many runs.
  std::string error(std::uint64_t runs) const {
    if (wrong_ != 0) return fmt::format("{} edges were not respected", wrong_.load());
    const auto other = std::find_if(runs_of_.begin(), runs_of_.end(), [&](std::uint32_t n) { return n != runs; });
    if (other == runs_of_.end()) return "";
    return fmt::format("a node was executed {} times in {} runs", *other, runs);
  }

 private:
  std::vector<std::vector<std::uint32_t>> after_, before_;
  std::vector<std::uint32_t> runs_of_;
  std::atomic<std::uint64_t> wrong_{0};
};

template <class Graph>
outcome run_levels(const level_spec& spec) {
  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point begin) {
    return std::chrono::duration<double>(clock::now() - begin).count();
  };
  outcome result;
  // As in run_graph().
  std::vector<int> units = spec.pus;
  if (Graph::caller_works && units.size() > 1) units.erase(units.begin());
  share_units(units);
  level_graph nodes(spec.length, spec.levels);
  Graph graph(spec.workers);
  auto begin = clock::now();
  graph.build(nodes, [&nodes](std::uint32_t i) { nodes.execute(i); });
  result.detail["building"] = seconds_since(begin);
  graph.run();
  if (Graph::caller_works && units.size() < spec.pus.size()) share_units({spec.pus.begin(), spec.pus.begin() + 1});
  graph.run();

  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / nodes.size());
  const double cpu = cpu_seconds();
  begin = clock::now();
  for (std::uint64_t i = 0; i < times; ++i) graph.run();
  result.seconds = seconds_since(begin);
  result.cpu_seconds = cpu_seconds() - cpu;
  result.items = times * nodes.size();
  result.detail["building"] *= 1e9 / static_cast<double>(nodes.size());
  result.error = nodes.error(times + 2);
  return result;
}

}  // namespace muster::bench
