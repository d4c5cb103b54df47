// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: graphs of functions that depend on each other, and pipelines.

#include "expect.hpp"

#include <muster/fork.hpp>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

int main() {
  muster::pool pool(2);
  int orders = 0, prices = 0, total = 0, reports = 0;
  // [graph]
  muster::task_graph graph;
  auto load_orders = graph.add("load orders", [&] { orders = 3; });
  auto load_prices = graph.add("load prices", [&] { prices = 14; });
  auto join = graph.add("join", [&] { total = orders * prices; }, muster::after(load_orders, load_prices));
  graph.add("report", [&] { ++reports; }, muster::after(join));
  for (int day = 0; day < 7; ++day) graph.run(pool);  // allocates nothing after the first run
  // [/graph]
  expect(total == 42 && reports == 7);
  expect(graph.dot().find("label=\"load prices\"") != std::string::npos);

  join.precede(load_orders);
  try {
    graph.run(pool);
    expect(false);
  } catch (const std::logic_error& error) {
    expect(std::string(error.what()).find("'join', then 'load orders'") != std::string::npos);
  }
  std::istringstream in("muster\nthe\nthreads\n");
  std::ostringstream out;
  // [pipeline]
  muster::pipeline line(pool, {.in_flight = 16},
                        muster::serial([&]() -> std::optional<std::string> {  // empty: the end of the stream
                          std::string text;
                          if (!std::getline(in, text)) return std::nullopt;
                          return text;
                        }),
                        muster::parallel([](std::string text) {
                          std::ranges::reverse(text);
                          return text;
                        }),
                        muster::serial([&](const std::string& text) { out << text << '\n'; }));  // in the same order
  line.run();
  // [/pipeline]
  expect(out.str() == "retsum\neht\nsdaerht\n");
}
