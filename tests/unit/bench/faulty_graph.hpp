// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// faulty_graph.hpp: graphs of tasks that are executed in a wrong way on purpose. For tests.
#pragma once

#include "driver/graph_run.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace muster::bench {

enum class graph_fault { none, loses, repeats, swaps };

/// Plain calls in an order of the nodes, but in the third run the last one is not executed, or twice, or before one
/// that it follows.
template <graph_fault Fault>
class faulty_graph {
 public:
  static constexpr bool caller_works = true;
  explicit faulty_graph(unsigned) {}

  template <class F>
  void build(std::uint32_t width, F node) {
    for (std::uint32_t i = 0; i < width; ++i)
      for (std::uint32_t j = 0; j < width; ++j) nodes_.emplace_back([node, i, j] { node(i, j); });
    before_last_ = nodes_.size() - 2;
  }
  template <class F>
  void build_fan(std::size_t many, F node) {
    for (std::size_t i = 0; i <= many + 1; ++i) nodes_.emplace_back([node, i] { node(i); });
    before_last_ = 1;
  }
  template <class F>
  void build_levels(const level_edges& of, F node) {
    for (std::uint32_t i = 0; i < of.size(); ++i) nodes_.emplace_back([node, i] { node(i); });
    std::uint32_t last = of.size() - 1;
    while (of.before(last).empty()) --last;
    std::swap(nodes_[last], nodes_.back());  // of the same level
    before_last_ = of.before(last).front();
  }
  void run() {
    const bool now = ++runs_ == 3;
    const std::size_t last = nodes_.size() - 1;
    if (now && Fault == graph_fault::swaps) std::swap(nodes_[before_last_], nodes_[last]);
    for (std::size_t i = 0; i != last; ++i) nodes_[i]();
    if (!now || Fault != graph_fault::loses) nodes_[last]();
    if (now && Fault == graph_fault::repeats) nodes_[last]();
  }

 private:
  std::vector<std::function<void()>> nodes_;
  std::size_t before_last_ = 0;
  unsigned runs_ = 0;
};

}  // namespace muster::bench
