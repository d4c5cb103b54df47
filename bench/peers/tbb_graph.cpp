// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's flow graph, with continue_node for each task.
#include "driver/graph_run.hpp"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace muster::bench {
namespace {

class tbb_graph {
 public:
  static constexpr bool caller_works = true;
  explicit tbb_graph(unsigned workers)
      : limit_(tbb::global_control::max_allowed_parallelism, workers), arena_(static_cast<int>(workers)) {
    arena_.initialize();
    arena_.execute([this] { graph_.reset(); });  // to the arena in which the tasks run
  }

  template <class F>
  void build(std::uint32_t width, F node) {
    for (std::uint32_t i = 0; i < width; ++i)
      for (std::uint32_t j = 0; j < width; ++j) {
        node_type& added = nodes_.emplace_back(graph_, [node, i, j](const tbb::flow::continue_msg&) { node(i, j); });
        if (i != 0) tbb::flow::make_edge(nodes_[nodes_.size() - 1 - width], added);
        if (j != 0) tbb::flow::make_edge(nodes_[nodes_.size() - 2], added);
      }
  }
  template <class F>
  void build_fan(std::size_t many, F node) {
    const auto add = [&](std::size_t i) -> node_type& {
      return nodes_.emplace_back(graph_, [node, i](const tbb::flow::continue_msg&) { node(i); });
    };
    node_type& first = add(0);
    for (std::size_t i = 1; i <= many; ++i) tbb::flow::make_edge(first, add(i));
    node_type& last = add(many + 1);
    for (std::size_t i = 1; i <= many; ++i) tbb::flow::make_edge(nodes_[i], last);
  }
  template <class F>
  void build_levels(const level_edges& of, F node) {
    for (std::uint32_t i = 0; i < of.size(); ++i) {
      node_type& added = nodes_.emplace_back(graph_, [node, i](const tbb::flow::continue_msg&) { node(i); });
      for (const std::uint32_t one : of.before(i)) tbb::flow::make_edge(nodes_[one], added);
      if (of.before(i).empty()) first_.push_back(&added);
    }
  }
  void run() {
    arena_.execute([this] {
      if (first_.empty()) first_.push_back(&nodes_.front());
      for (node_type* one : first_) one->try_put(tbb::flow::continue_msg());
      graph_.wait_for_all();
    });
  }

 private:
  using node_type = tbb::flow::continue_node<tbb::flow::continue_msg>;
  tbb::global_control limit_;
  tbb::task_arena arena_;
  tbb::flow::graph graph_;
  std::deque<node_type> nodes_;
  std::vector<node_type*> first_;  // of levels; else the first node
};

}  // namespace

void add_tbb_graph(catalogue& to) {
  to.add({.name = "oneTBB",
          .family = "tbb",
          .role = "peer",
          .note = "flow::graph of continue_node",
          .graph = run_graph<tbb_graph>});
}

}  // namespace muster::bench
