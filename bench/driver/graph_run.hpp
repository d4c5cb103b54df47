// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// graph_run.hpp: one run of a contender that executes graphs of tasks: a wavefront, whose node in row i and column j
// follows those above it and to its left; a fan, in which many nodes follow the first, and the last follows them; or
// levels, each node of which precedes one to four random ones of the next level, so that some have several predecessors
// and some none. The graph is built once and executed again and again; only that is timed.
//
// Each node counts its executions, and checks that those before it have been executed as often as itself; the last one
// of a fan checks a few of them. So a node that is lost, repeated or too early is noticed, at a cost that is the same
// for all contenders.
//
// A contender G has
//   caller_works                  true if the thread that calls run() executes nodes as well
//   G(workers)                    starts the threads
//   build(width, node)            makes a wavefront, in which the node at (i, j) calls node(i, j)
//   build_fan(many, node)         makes a fan: node(0) is the first, node(1) to node(many) follow it, and
//                                 node(many + 1) follows these
//   build_levels(levels, node)    makes levels: node(i) is executed by the i-th node, of levels.size(), and after it
//                                 levels.after(i); the nodes are in an order in which they could be executed
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

/// The executions of nodes.
class node_counts {
 public:
  explicit node_counts(std::size_t nodes) : of_(nodes) {}

  std::size_t nodes() const { return of_.size(); }
  std::uint32_t operator[](std::size_t i) const { return of_[i]; }
  std::uint32_t next(std::size_t i) { return ++of_[i]; }
  void check(bool right) {
    if (!right) wrong_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Empty if every node has been executed once in each of so many runs.
  std::string error(std::uint64_t runs) const {
    if (wrong_ != 0) return fmt::format("{} nodes were executed before one that they follow", wrong_.load());
    const auto other = std::find_if(of_.begin(), of_.end(), [&](std::uint32_t n) { return n != runs; });
    if (other == of_.end()) return "";
    return fmt::format("a node was executed {} times in {} runs", *other, runs);
  }

 private:
  std::vector<std::uint32_t> of_;
  std::atomic<std::uint64_t> wrong_{0};
};

/// Which nodes follow which in random levels.
class level_edges {
 public:
  static constexpr std::uint32_t levels = 64;

  explicit level_edges(std::uint32_t length) : after_(std::size_t{length} * levels), before_(after_.size()) {
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

 private:
  std::vector<std::vector<std::uint32_t>> after_, before_;
};

/// build() gives the nodes to the graph, each of which counts itself in `counts`.
template <class Graph, class Build>
outcome run_built(const graph_spec& spec, node_counts& counts, Build build) {
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
  auto begin = clock::now();
  build(graph);
  result.detail["building"] = 1e9 * seconds_since(begin) / static_cast<double>(counts.nodes());
  graph.run();
  if (Graph::caller_works && units.size() < spec.pus.size()) share_units({spec.pus.begin(), spec.pus.begin() + 1});
  graph.run();

  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / counts.nodes());
  const double cpu = cpu_seconds();
  begin = clock::now();
  for (std::uint64_t i = 0; i < times; ++i) graph.run();
  result.seconds = seconds_since(begin);
  result.cpu_seconds = cpu_seconds() - cpu;
  result.items = times * counts.nodes();
  result.error = counts.error(times + 2);
  return result;
}

template <class Graph>
outcome run_square(const graph_spec& spec) {
  const std::size_t width = spec.width;
  node_counts counts(width * width);
  return run_built<Graph>(spec, counts, [&](Graph& graph) {
    graph.build(spec.width, [&counts, width](std::uint32_t i, std::uint32_t j) {
      const std::size_t here = i * width + j;
      const std::uint32_t run = counts.next(here);
      counts.check((i == 0 || counts[here - width] == run) && (j == 0 || counts[here - 1] == run));
    });
  });
}

template <class Graph>
outcome run_fan(const graph_spec& spec) {
  const std::size_t many = std::size_t{spec.width} * spec.width;
  node_counts counts(many + 2);
  return run_built<Graph>(spec, counts, [&](Graph& graph) {
    graph.build_fan(many, [&counts](std::size_t i) {
      const std::uint32_t run = counts.next(i);
      const std::size_t last = counts.nodes() - 1;
      bool right = i == 0 || counts[0] == run;
      for (std::size_t k = 1; i == last && k < last; k += 1 + last / 8) right = right && counts[k] == run;
      counts.check(right);
    });
  });
}

template <class Graph>
outcome run_levels(const graph_spec& spec) {
  const level_edges edges(spec.width);
  node_counts counts(edges.size());
  return run_built<Graph>(spec, counts, [&](Graph& graph) {
    graph.build_levels(edges, [&counts, &edges](std::uint32_t i) {
      const std::uint32_t run = counts.next(i);
      for (const std::uint32_t one : edges.before(i)) counts.check(counts[one] == run);
    });
  });
}

template <class Graph>
outcome run_graph(const graph_spec& spec) {
  switch (spec.shape) {
    case graph_shape::square: return run_square<Graph>(spec);
    case graph_shape::fan: return run_fan<Graph>(spec);
    case graph_shape::levels: break;
  }
  return run_levels<Graph>(spec);
}

}  // namespace muster::bench
