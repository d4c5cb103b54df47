// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same graph and loop in muster.

#include <muster/fork.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  // [ours]
  muster::pool pool(4);
  muster::task_graph graph;
  int orders = 0, prices = 0, total = 0, days = 0;
  auto load_orders = graph.add("load orders", [&] { orders = 3; });
  auto load_prices = graph.add("load prices", [&] { prices = 14; });
  auto join = graph.add("join", [&] { total += orders * prices; }, muster::after(load_orders, load_prices));
  graph.add("report", [&] { ++days; }, muster::after(join));
  for (int i = 0; i < 7; ++i) graph.run(pool);  // this thread works, too

  std::vector<int> squares(100);
  pool.run([&] { muster::parallel_for(0, 100, [&](int i) { squares[static_cast<unsigned>(i)] = i * i; }); });

  std::atomic<int> done = 0;
  muster::task_graph nested;
  nested.add([&] {
    muster::finish([&](muster::async_scope& children) {
      for (int i = 0; i < 5; ++i) children.async([&] { ++done; });
    });
  });
  nested.run(pool);

  const int answer = pool.submit([] { return 42; }).get();
  const std::string picture = graph.dot();  // for Graphviz
  // [/ours]
  std::printf("%d in %d days\n%d %d %d\n%s\n", total, days, squares[99], done.load(), answer,
              picture.starts_with("digraph") ? "a picture" : "no picture");
}
