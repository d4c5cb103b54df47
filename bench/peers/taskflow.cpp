// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Taskflow: a Taskflow of static tasks, run by an executor with so many threads beside the caller, which sleeps; its
// futures, asynchronous tasks and pipelines.
#include "driver/graph_run.hpp"
#include "driver/task_run.hpp"

#include <taskflow/algorithm/pipeline.hpp>
#include <taskflow/taskflow.hpp>

#include <cstddef>
#include <cstdint>
#include <future>
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
  template <class F>
  void build_levels(const level_edges& of, F node) {
    std::vector<tf::Task> nodes;
    nodes.reserve(of.size());
    for (std::uint32_t i = 0; i < of.size(); ++i) nodes.push_back(graph_.emplace([node, i] { node(i); }));
    for (std::uint32_t i = 0; i < of.size(); ++i)
      for (const std::uint32_t next : of.after(i)) nodes[i].precede(nodes[next]);
  }
  void run() { executor_.run(graph_).wait(); }

 private:
  tf::Executor executor_;
  tf::Taskflow graph_;
};

class taskflow_tasks {
 public:
  static constexpr bool caller_works = false;
  explicit taskflow_tasks(unsigned workers) : workers_(workers), executor_(workers) {}

  template <class F>
  auto one(F f) {
    return executor_.async(f).get();
  }
  template <class F>
  void in_flight(std::size_t many, F f) {
    std::vector<std::future<unsigned>> all;
    all.reserve(many);
    for (std::size_t i = 0; i < many; ++i) all.push_back(executor_.async([f, i]() -> unsigned { return f(i); }));
    for (auto& each : all) each.get();
  }
  template <class F>
  void group(std::size_t many, F f) {
    for (std::size_t i = 0; i < many; ++i) executor_.silent_async([f, i] { f(i); });
    executor_.wait_for_all();
  }
  template <class F>
  void tree(std::size_t many, F f) {
    grow(1, many, f);
    executor_.wait_for_all();
  }
  template <class F, class G>
  void pipeline(std::size_t many, F f, G g) {
    tf::Pipeline line(std::size_t{4} * workers_,
                      tf::Pipe{tf::PipeType::SERIAL,
                               [many](tf::Pipeflow& at) {
                                 if (at.token() == many) at.stop();
                               }},
                      tf::Pipe{tf::PipeType::PARALLEL, [f](tf::Pipeflow& at) { f(at.token()); }},
                      tf::Pipe{tf::PipeType::SERIAL, [g](tf::Pipeflow& at) { g(at.token()); }});
    tf::Taskflow flow;
    flow.composed_of(line);
    executor_.run(flow).wait();
  }

 private:
  template <class F>
  void grow(std::size_t i, std::size_t many, F f) {
    executor_.silent_async([this, i, many, f] {
      f(i);
      for (const std::size_t child : {2 * i, 2 * i + 1})
        if (child < many) grow(child, many, f);
    });
  }

  unsigned workers_;
  tf::Executor executor_;
};

}  // namespace

void add_taskflow(catalogue& to) {
  to.add({.name = "Taskflow",
          .family = "Taskflow",
          .role = "peer",
          .note = fmt::format("version {}, an executor with a thread for each worker", tf::version()),
          .graph = run_graph<taskflow_graph>,
          .tasks = run_tasks<taskflow_tasks>});
}

}  // namespace muster::bench
