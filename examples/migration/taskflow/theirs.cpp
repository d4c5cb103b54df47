// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: a graph of tasks, and a loop, in Taskflow.

#include <taskflow/algorithm/for_each.hpp>
#include <taskflow/taskflow.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  // [theirs]
  tf::Executor executor(4);
  tf::Taskflow flow("orders");
  int orders = 0, prices = 0, total = 0, days = 0;
  tf::Task load_orders = flow.emplace([&] { orders = 3; }).name("load orders");
  tf::Task load_prices = flow.emplace([&] { prices = 14; }).name("load prices");
  tf::Task join = flow.emplace([&] { total += orders * prices; }).name("join");
  tf::Task report = flow.emplace([&] { ++days; }).name("report");
  join.succeed(load_orders, load_prices);
  join.precede(report);
  executor.run_n(flow, 7).wait();

  std::vector<int> squares(100);
  tf::Taskflow loop;
  loop.for_each_index(0, 100, 1, [&](int i) { squares[static_cast<unsigned>(i)] = i * i; });
  executor.run(loop).wait();

  std::atomic<int> done = 0;
  tf::Taskflow nested;
  nested.emplace([&](tf::Subflow& children) {
    for (int i = 0; i < 5; ++i) children.emplace([&] { ++done; });
  });
  executor.run(nested).wait();

  const int answer = executor.async([] { return 42; }).get();
  const std::string picture = flow.dump();  // for Graphviz
  // [/theirs]
  std::printf("%d in %d days\n%d %d %d\n%s\n", total, days, squares[99], done.load(), answer,
              picture.starts_with("digraph") ? "a picture" : "no picture");
}
