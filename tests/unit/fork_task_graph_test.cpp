// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Task graphs: every node is executed once in each run, after its predecessors; runs allocate nothing; a cycle is an
// error with names; what follows a failed node is skipped, and the exception of the first node arrives.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counting_allocator.hpp"
#include "fork_settings.hpp"
#include "gate.hpp"
#include "message_of.hpp"
#include "scale.hpp"

namespace {

using muster::after;
using muster::pool;
using muster::task_graph;
using muster_test::allocates_nothing;
using muster_test::gate;
using muster_test::message_of;
using muster_test::scaled;

class graphs : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, graphs, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

/// A graph whose nodes note in which order they are executed.
struct noted_graph {
  task_graph graph;
  std::vector<task_graph::node> nodes;
  std::vector<std::vector<std::size_t>> before;
  std::vector<std::atomic<int>> executions;
  std::atomic<int> too_early{0};

  explicit noted_graph(std::size_t most) : executions(most) {}
  void add(std::vector<std::size_t> predecessors) {
    std::vector<task_graph::node> those;
    for (const std::size_t p : predecessors) those.push_back(nodes[p]);
    before.push_back(std::move(predecessors));
    nodes.push_back(graph.add(
        [this, me = nodes.size()] {
          const int run = ++executions[me];
          for (const std::size_t p : before[me])
            if (executions[p].load(std::memory_order_relaxed) != run) ++too_early;
        },
        after(those)));
  }
  void expect_executed(int times) const {
    EXPECT_EQ(too_early, 0);
    for (std::size_t i = 0; i < nodes.size(); ++i) ASSERT_EQ(executions[i], times) << "node " << i;
  }
};

TEST_P(graphs, execute_each_node_once_in_each_run_after_its_predecessors) {
  std::mt19937 random(1);
  for (const std::size_t many : {1U, 2U, 5U, 40U, 1000U}) {
    for (const unsigned most : {0U, 1U, 2U, 5U}) {
      noted_graph one(many);
      for (std::size_t i = 0; i < many; ++i) {
        std::vector<std::size_t> predecessors;
        for (auto k = random() % (most + 1); k != 0 && i != 0; --k) predecessors.push_back(random() % i);
        one.add(std::move(predecessors));
      }
      one.graph.run(workers_);
      one.expect_executed(1);
      workers_.run([&] { one.graph.run(workers_); });
      one.expect_executed(2);
      workers_.submit([&] { one.graph.run(workers_); }).get();
      one.expect_executed(3);
    }
  }
}

TEST_P(graphs, hold_wavefronts) {
  const std::size_t width = 40;
  noted_graph one(width * width);
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t k = 0; k < width; ++k) {
      std::vector<std::size_t> predecessors;
      if (i != 0) predecessors.push_back((i - 1) * width + k);
      if (k != 0) predecessors.push_back(i * width + k - 1);
      one.add(std::move(predecessors));
    }
  const int runs = static_cast<int>(scaled(50));
  for (int run = 1; run <= runs; ++run) {
    one.graph.run(workers_);
    one.expect_executed(run);
  }
}

TEST_P(graphs, show_nodes_the_effects_of_their_predecessors) {
  task_graph graph;
  long a = 0, b = 0, c = 0, sum = 0;
  const auto first = graph.add([&] { ++a; });
  const auto left = graph.add([&] { b += a; }, after(first));
  const auto right = graph.add([&](muster::context here) { here.fork2([&] { c += a; }, [] {}); }, after(first));
  graph.add([&] { sum = b + c; }, after(left, right));
  long expected = 0;
  for (long run = 1; run <= 200; ++run) {
    graph.run(workers_);
    expected += 2 * run;
    ASSERT_EQ(sum, expected);
  }
}

TEST_P(graphs, run_again_without_allocating) {
  std::atomic<int> executed{0};
  task_graph graph;
  std::vector<task_graph::node> row;
  for (int i = 0; i < 10; ++i) row.push_back(graph.add([&] { ++executed; }));
  for (int level = 0; level < 20; ++level) {
    std::vector<task_graph::node> next;
    for (std::size_t i = 0; i < row.size(); ++i)
      next.push_back(graph.add([&] { ++executed; }, after(row[i], row[(i + 1) % row.size()])));
    row = next;
  }
  int runs = 0;
  EXPECT_TRUE(allocates_nothing([&] {
    graph.run(workers_);
    ++runs;
  }));
  EXPECT_EQ(executed, runs * 210);
}

TEST_P(graphs, hold_chains_and_fans_of_any_size) {
  const std::size_t many = scaled(200'000);
  std::size_t steps = 0;
  task_graph chain;
  task_graph::node last = chain.add([&] { ++steps; });
  for (std::size_t i = 1; i < many; ++i) last = chain.add([&] { ++steps; }, after(last));
  chain.run(workers_);
  EXPECT_EQ(steps, many);

  std::atomic<std::size_t> sum{0};
  task_graph fan;
  const auto root = fan.add([&] { ++sum; });
  const auto end = fan.add([&] { EXPECT_EQ(sum, many + 1); });
  for (std::size_t i = 0; i < many; ++i) fan.add([&] { ++sum; }, after(root)).precede(end);
  fan.run(workers_);
  EXPECT_EQ(sum, many + 1);
}

TEST_P(graphs, may_be_empty_and_grow) {
  task_graph graph;
  EXPECT_TRUE(graph.empty());
  graph.run(workers_);
  std::vector<int> order;
  const auto a = graph.add([&] { order.push_back(0); });
  graph.run(workers_);
  const auto b = graph.add([&] { order.push_back(1); });
  b.precede(a);
  graph.run(workers_);
  const auto c = graph.add("last", [&] { order.push_back(2); });
  c.succeed(a, std::vector{b});
  graph.run(workers_);
  EXPECT_EQ(order, (std::vector{0, 1, 0, 1, 0, 2}));
  EXPECT_EQ(graph.size(), 3U);
}

TEST_P(graphs, nest) {
  std::atomic<int> executed{0};
  std::function<void(int)> nested = [&](int depth) {
    task_graph graph;
    const auto first = graph.add([&] { ++executed; });
    for (int i = 0; i < 3; ++i)
      graph.add(
          [&, depth] {
            if (depth > 0) nested(depth - 1);
          },
          after(first));
    graph.run(workers_);
  };
  nested(4);
  EXPECT_EQ(executed, 121);

  pool other({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
  task_graph outer;
  task_graph inner;
  for (int i = 0; i < 10; ++i) inner.add([&] { ++executed; });
  outer.add([&] { inner.run(other); });
  outer.add([&] { workers_.submit([&] { ++executed; }).get(); });
  outer.run(workers_);
  EXPECT_EQ(executed, 132);
}

TEST_P(graphs, may_run_while_a_mutex_is_held) {
  std::mutex one;
  int locked = 0;
  task_graph inner;
  for (int i = 0; i < 4; ++i) inner.add([] {});
  task_graph outer;
  for (int i = 0; i < 50; ++i)
    outer.add([&] {
      const std::lock_guard holds(one);
      inner.run(workers_);
      ++locked;
    });
  outer.run(workers_);
  EXPECT_EQ(locked, 50);
}

TEST_P(graphs, skip_what_follows_a_failed_node) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::atomic<int>> executions(7);
    bool fails = true;
    task_graph graph;
    const auto node = [&](std::size_t i) { return [&executions, i] { ++executions[i]; }; };
    const auto late = graph.add(node(0));
    const auto bad = graph.add([&] {
      ++executions[1];
      if (fails) throw std::runtime_error("bad");
    });
    const auto worse = graph.add([&] {
      ++executions[2];
      if (fails) throw std::runtime_error("worse");
    });
    const auto good = graph.add(node(3));
    const auto both = graph.add(node(4), after(good, bad));
    graph.add(node(5), after(both));
    graph.add(node(6), after(good));
    late.succeed(worse);
    EXPECT_EQ(message_of([&] { graph.run(workers_); }), "bad");  // it was added before the other one that fails
    const std::vector<int> expected{0, 1, 1, 1, 0, 0, 1};
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(executions[i], expected[i]) << i;
    fails = false;  // the next run is as if nothing had failed
    graph.run(workers_);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(executions[i], expected[i] + 1) << i;
  }
}

TEST_P(graphs, skip_long_chains_and_wide_fans) {
  const std::size_t many = scaled(50'000);
  task_graph graph;
  std::atomic<std::size_t> executed{0};
  const auto bad = graph.add([] { throw std::runtime_error("bad"); });
  task_graph::node last = bad;
  for (std::size_t i = 0; i < many; ++i) {
    last = graph.add([&] { ++executed; }, after(last));
    graph.add([&] { ++executed; }, after(bad));
  }
  EXPECT_EQ(message_of([&] { graph.run(workers_); }), "bad");
  EXPECT_EQ(message_of([&] { graph.run(workers_); }), "bad");
  EXPECT_EQ(executed, 0U);
}

TEST_P(graphs, begin_no_node_after_a_stop) {
  std::stop_source stop;
  std::atomic<int> executed{0};
  task_graph graph;
  auto last = graph.add([&] { ++executed; });
  for (int i = 0; i < 100; ++i)
    last = graph.add(
        [&, i] {
          ++executed;
          if (i == 49) stop.request_stop();
        },
        after(last));
  graph.run(workers_, stop.get_token());
  EXPECT_EQ(executed, 51);
  graph.run(workers_, stop.get_token());  // stopped already
  EXPECT_EQ(executed, 51);
  graph.run(workers_);
  EXPECT_EQ(executed, 152);
}

TEST_P(graphs, are_run_by_one_thread_at_a_time) {
  gate closed;
  int executed = 0;
  task_graph graph;
  graph.add([&] {
    ++executed;
    closed.pass();
  });
  std::jthread runs([&] { graph.run(workers_); });
  closed.await_arrivals(1);
  EXPECT_NE(message_of([&] { graph.run(workers_); }).find("the graph is running already"), std::string::npos);
  EXPECT_NE(message_of([&] { graph.add([] {}); }).find("the graph is running"), std::string::npos);
  closed.open();
  runs.join();
  graph.run(workers_);
  EXPECT_EQ(executed, 2);

  task_graph itself;
  itself.add([&] { itself.run(workers_); });
  EXPECT_NE(message_of([&] { itself.run(workers_); }).find("the graph is running already"), std::string::npos);
}

TEST_P(graphs, are_run_by_fibers) {
  std::atomic<int> executed{0};
  std::vector<std::unique_ptr<task_graph>> all;
  for (int i = 0; i < 8; ++i) {
    task_graph& one = *all.emplace_back(std::make_unique<task_graph>());
    const auto first = one.add([&] { ++executed; });
    for (int k = 0; k < 10; ++k) one.add([&] { ++executed; }, after(first));
  }
  const auto team = [&] {
    std::vector<muster::fiber> fibers;
    for (auto& each : all)
      fibers.emplace_back([&] {
        for (int i = 0; i < 3; ++i) each->run(workers_);
      });
    for (auto& each : fibers) each.join();
  };
  team();
  workers_.run(team);
  EXPECT_EQ(executed, 2 * 8 * 3 * 11);
}

TEST_P(graphs, of_a_pool_that_ends_are_executed_or_broken) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> kept{0}, broken{0}, runs{0};
    {
      pool short_lived({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
      for (int i = 0; i < 8; ++i)
        static_cast<void>(short_lived.submit([&] {
          std::atomic<int> executed{0};
          task_graph own;
          for (int k = 0; k < 3; ++k) {
            const auto first = own.add([&] { ++executed; });
            for (int n = 0; n < 3; ++n) own.add([&] { ++executed; }, after(first));
          }
          for (int k = 0; k < 20; ++k) {
            ++runs;
            executed = 0;
            try {
              own.run(short_lived);
              kept += executed == 12 ? 1 : 0;
            } catch (const muster::broken_promise&) {
              broken += executed < 12 ? 1 : 0;
            }
          }
        }));
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    }
    EXPECT_EQ(kept + broken, runs);
  }
}

TEST(a_graph, of_a_pool_that_is_ending_runs_nodes_on_one_thread_or_is_broken) {
  int executed = 0;
  int last = 0;
  task_graph wide;
  const auto root = wide.add([&] { ++executed; });
  const auto end = wide.add([&] { last = executed; });
  for (int i = 0; i < 200; ++i) wide.add([&] { ++executed; }, after(root)).precede(end);
  gate closed;
  muster::future<void> queued;
  {
    pool ending({.workers = 1, .stack_bytes = muster_test::small_stack});
    static_cast<void>(ending.submit([&] {
      closed.pass();
      while (!queued.is_ready()) std::this_thread::yield();  // until the pool ends
      task_graph late;
      const auto first = late.add([&] { ++executed; });
      late.add([&] { ++executed; }, after(first));
      late.run(ending);  // a chain
      EXPECT_EQ(executed, 2);
      late.add([&] { ++executed; }, after(late.add([&] { ++executed; }, after(first))));
      EXPECT_THROW(late.run(ending), muster::broken_promise);
      EXPECT_EQ(executed, 4);
      EXPECT_THROW(wide.run(ending), muster::broken_promise);
      EXPECT_EQ(executed, 6);
    }));
    closed.await_arrivals(1);
    queued = ending.submit([] {});  // the only thread is busy
    closed.open();
  }
  EXPECT_THROW(queued.get(), muster::broken_promise);
  EXPECT_EQ(executed, 6);
  EXPECT_EQ(last, 0);
  pool other({.workers = 1, .stack_bytes = muster_test::small_stack});
  wide.run(other);  // as if it had not been broken
  EXPECT_EQ(executed, 6 + 201);
  EXPECT_EQ(last, executed);
}

TEST(a_graph, of_one_worker_uses_one_thread) {
  pool one({.workers = 1, .stack_bytes = muster_test::small_stack});
  std::atomic<int> elsewhere{0};
  task_graph graph;
  const auto first = graph.add([] {});
  for (int i = 0; i < 1000; ++i)
    graph.add([&, caller = std::this_thread::get_id()] { elsewhere += std::this_thread::get_id() == caller ? 0 : 1; },
              after(first));
  for (int i = 0; i < 100; ++i) graph.run(one);
  EXPECT_EQ(elsewhere, 0);
}

TEST(a_graph, names_the_nodes_of_a_cycle) {
  pool one({.workers = 1, .stack_bytes = muster_test::small_stack});
  int executed = 0;
  task_graph graph;
  const auto read = graph.add("read", [&] { ++executed; });
  const auto parse = graph.add("parse", [&] { ++executed; }, after(read));
  const auto check = graph.add([&] { ++executed; }, after(parse));
  graph.add("write", [&] { ++executed; }, after(check));
  graph.run(one);
  parse.succeed(check);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(message_of([&] { graph.run(one); }),
              "task_graph::run: there is a cycle: 'node 2', then 'parse', then 'node 2'; leave one of these edges out");
  EXPECT_EQ(executed, 4);

  task_graph itself;
  const auto node = itself.add([] {});
  node.name("me").precede(node);
  EXPECT_NE(message_of([&] { itself.run(one); }).find("'me', then 'me'"), std::string::npos);

  task_graph large;
  std::vector<task_graph::node> ring;
  for (int i = 0; i < 1000; ++i) ring.push_back(large.add([] {}));
  for (std::size_t i = 0; i < ring.size(); ++i) ring[i].precede(ring[(i + 1) % ring.size()]);
  const std::string text = message_of([&] { large.run(one); });
  EXPECT_NE(text.find("'node 999', then 'node 0'"), std::string::npos) << text;
  EXPECT_NE(text.find("then 980 others"), std::string::npos) << text;
}

TEST(a_graph, is_shown_in_the_language_of_graphviz) {
  task_graph graph;
  const auto a = graph.add("say \"a\"", [] {});
  graph.add([] {}, after(a));
  EXPECT_EQ(graph.dot(), "digraph {\n  n0 [label=\"say \\\"a\\\"\"]\n  n1 [label=\"node 1\"]\n  n0 -> n1\n}\n");
  EXPECT_EQ(a.name(), "say \"a\"");
}

TEST(a_graph, refuses_nodes_of_others) {
  task_graph one, other;
  const auto a = one.add([] {});
  const auto b = other.add("theirs", [] {});
  EXPECT_NE(message_of([&] { one.add([] {}, after(b)); }).find("'theirs' is a node of another graph"),
            std::string::npos);
  EXPECT_NE(message_of([&] { a.precede(b); }).find("another graph"), std::string::npos);
  EXPECT_NE(message_of([&] { a.succeed(task_graph::node()); }).find("of no graph"), std::string::npos);
  EXPECT_NE(message_of([&] { static_cast<void>(task_graph::node().name()); }).find("of no graph"), std::string::npos);
  EXPECT_EQ(one.size(), 1U);
}

TEST(a_graph, adds_no_edge_if_a_range_of_nodes_throws) {
  task_graph graph;
  std::vector<task_graph::node> nodes;
  for (int i = 0; i < 4; ++i) nodes.push_back(graph.add([] {}));
  const std::string before = graph.dot();
  int reads = 0;
  const auto throws = std::views::iota(0, 3) | std::views::transform([&](int i) {
                        if (++reads % 6 == 0) throw std::runtime_error("the last, when it is read again");
                        return nodes[static_cast<std::size_t>(i)];
                      });
  EXPECT_THROW(nodes[3].precede(throws), std::runtime_error);
  EXPECT_THROW(nodes[3].succeed(throws), std::runtime_error);
  EXPECT_THROW(graph.add([] {}, after(throws)), std::runtime_error);
  EXPECT_EQ(graph.dot(), before);
  const auto adds = std::views::iota(0, 2) | std::views::transform([&](int) { return graph.add([] {}); });
  EXPECT_NE(message_of([&] { graph.add([] {}, after(adds)); }).find("put them into a vector"), std::string::npos);
  EXPECT_EQ(graph.size(), 6U);
}

TEST(a_graph, destroys_its_functions) {
  const auto owned = std::make_shared<int>(1);
  {
    task_graph graph;
    for (int i = 0; i < 1000; ++i) graph.add([owned] {});
    graph.add([owned, large = std::array<char, 5000>()] { static_cast<void>(large); });
    /// Cannot be copied into a node.
    struct refuses {
      std::shared_ptr<int> own;
      explicit refuses(std::shared_ptr<int> of) : own(std::move(of)) {}
      refuses(const refuses&) { throw std::runtime_error("no copy"); }
      refuses& operator=(const refuses&) = delete;
      void operator()() const {}
    };
    const refuses bad(owned);
    EXPECT_EQ(message_of([&] { graph.add("bad", bad, after(graph.add([] {}))); }), "no copy");
    EXPECT_EQ(graph.size(), 1002U);
    EXPECT_EQ(graph.dot().find("bad"), std::string::npos);
    EXPECT_EQ(graph.dot().find("->"), std::string::npos);
    EXPECT_EQ(owned.use_count(), 1003);
  }
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(a_graph, that_ends_while_it_runs_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool one({.workers = 1});
        auto graph = std::make_unique<task_graph>();
        graph->add([&] { graph.reset(); });
        graph->run(one);
      },
      "task_graph::~task_graph: the graph is running");
}

TEST(a_graph, in_a_child_process_is_refused) {
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  auto graph = std::make_unique<task_graph>();
  gate closed;
  graph->add([&] { closed.pass(); });
  std::jthread runs([&] { graph->run(two); });
  closed.await_arrivals(1);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = message_of([&] { graph->run(two); }).find("parent of this process") != std::string::npos;
    graph = nullptr;  // does not fail
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  closed.open();
}

}  // namespace
