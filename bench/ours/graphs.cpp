// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's graphs of tasks, and plain calls in an order of their nodes, as the limit.
#include "driver/graph_run.hpp"

#include <muster/fork.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

class muster_graph {
 public:
  static constexpr bool caller_works = true;
  explicit muster_graph(unsigned workers) : pool_(workers) {}

  template <class F>
  void build(std::uint32_t width, F node) {
    std::vector<task_node> above;
    for (std::uint32_t i = 0; i < width; ++i) {
      std::vector<task_node> row;
      for (std::uint32_t j = 0; j < width; ++j) {
        const auto call = [node, i, j] { node(i, j); };
        if (i == 0 && j == 0) row.push_back(graph_.add(call));
        else if (i == 0) row.push_back(graph_.add(call, after(row.back())));
        else if (j == 0) row.push_back(graph_.add(call, after(above[j])));
        else row.push_back(graph_.add(call, after(above[j], row.back())));
      }
      above = std::move(row);
    }
  }
  template <class F>
  void build_fan(std::size_t many, F node) {
    const auto first = graph_.add([node] { node(0); });
    const auto last = graph_.add([node, many] { node(many + 1); });
    for (std::size_t i = 1; i <= many; ++i) graph_.add([node, i] { node(i); }, after(first)).precede(last);
  }
  template <class F>
  void build_levels(const level_edges& of, F node) {
    std::vector<task_node> nodes;
    nodes.reserve(of.size());
    for (std::uint32_t i = 0; i < of.size(); ++i) nodes.push_back(graph_.add([node, i] { node(i); }));
    for (std::uint32_t i = 0; i < of.size(); ++i)
      for (const std::uint32_t next : of.after(i)) nodes[i].precede(nodes[next]);
  }
  void run() { graph_.run(pool_); }

 private:
  pool pool_;
  task_graph graph_;
};

class graph_of_calls {
 public:
  static constexpr bool caller_works = true;
  explicit graph_of_calls(unsigned) {}

  template <class F>
  void build(std::uint32_t width, F node) {
    run_ = [width, node] {
      for (std::uint32_t i = 0; i < width; ++i)
        for (std::uint32_t j = 0; j < width; ++j) node(i, j);
    };
  }
  template <class F>
  void build_fan(std::size_t many, F node) {
    run_ = [many, node] {
      for (std::size_t i = 0; i <= many + 1; ++i) node(i);
    };
  }
  template <class F>
  void build_levels(const level_edges& of, F node) {
    run_ = [many = of.size(), node] {
      for (std::uint32_t i = 0; i < many; ++i) node(i);
    };
  }
  void run() { run_(); }

 private:
  std::function<void()> run_;
};

}  // namespace

void add_graphs(catalogue& to) {
  to.add(
      {.name = "muster", .family = "muster", .role = "ours", .note = "task_graph", .graph = run_graph<muster_graph>});
  to.add({.name = "plain calls",
          .family = "serial",
          .role = "limit",
          .note = "one after the other, without a graph",
          .graph = run_graph<graph_of_calls>});
}

}  // namespace muster::bench
