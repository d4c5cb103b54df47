// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Taskflow: a Taskflow of static tasks, run by an executor with so many threads beside the caller, which sleeps.
#include "driver/graph_run.hpp"

#include <taskflow/taskflow.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

class taskflow_graph {
 public:
  static constexpr bool caller_works = false;
  explicit taskflow_graph(unsigned workers) : executor_(workers) {}

  template <class F>
  void build(std::uint32_t width, F node) {
    std::vector<tf::Task> above;
    for (std::uint32_t i = 0; i < width; ++i) {
      std::vector<tf::Task> row;
      for (std::uint32_t j = 0; j < width; ++j) {
        row.push_back(graph_.emplace([node, i, j] { node(i, j); }));
        if (i != 0) above[j].precede(row.back());
        if (j != 0) row[j - 1].precede(row.back());
      }
      above = std::move(row);
    }
  }
  template <class F>
  void build_fan(std::size_t many, F node) {
    const tf::Task first = graph_.emplace([node] { node(0); });
    const tf::Task last = graph_.emplace([node, many] { node(many + 1); });
    for (std::size_t i = 1; i <= many; ++i) graph_.emplace([node, i] { node(i); }).succeed(first).precede(last);
  }
  void run() { executor_.run(graph_).wait(); }

 private:
  tf::Executor executor_;
  tf::Taskflow graph_;
};

}  // namespace

void add_taskflow(catalogue& to) {
  to.add({.name = "Taskflow",
          .family = "Taskflow",
          .role = "peer",
          .note = std::string("version ") + tf::version() + ", an executor with a thread for each worker",
          .graph = run_graph<taskflow_graph>});
}

}  // namespace muster::bench
