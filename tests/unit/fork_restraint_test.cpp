// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// How an idle worker keeps away from functions that other threads execute faster: detail/restraint.hpp alone, and in a
// pool, where it must take a function nevertheless.
#include <gtest/gtest.h>
#include <muster/fork/detail/restraint.hpp>
#include <muster/fork/future.hpp>
#include <muster/fork/task_graph.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

using muster::detail::restraint;
using namespace std::chrono_literals;

/// The count of the others, which grows at each look or not at all.
struct others {
  std::size_t step = 0;
  std::size_t done = 0;
  void look(restraint& of, restraint::duration each) {
    of.executed(each, each, [this] { return done += step; });
  }
  bool look_idly(restraint& of) {
    return of.stays_away([this] { return done += step; });
  }
};
constexpr std::size_t fast = 1'000'000, stopped = 0;

TEST(restraint, is_on_while_others_are_faster) {
  restraint one;
  others all{.step = fast};
  EXPECT_FALSE(one.is_on());
  EXPECT_FALSE(all.look_idly(one)) << "stays away before it has executed anything";
  EXPECT_FALSE(one.is_on());
  for (int i = 0; i < 10; ++i) {
    all.look(one, 100ns);
    EXPECT_TRUE(one.is_on());
    EXPECT_TRUE(all.look_idly(one));
    EXPECT_TRUE(one.is_on());
  }
}

TEST(restraint, ends_soon_when_others_stop) {
  restraint one;
  others all{.step = fast};
  for (int i = 0; i < 10; ++i) all.look(one, 100ns);
  all.step = stopped;
  int looks = 0;
  for (; one.is_on() && looks < 10; ++looks) all.look_idly(one);
  EXPECT_LE(looks, 3);
  all.look(one, 100ns);
  EXPECT_FALSE(one.is_on());
}

TEST(restraint, is_off_for_functions_that_pay) {
  restraint one;
  others all{.step = fast};
  for (int i = 0; i < 10; ++i) all.look(one, 4us);
  EXPECT_FALSE(one.is_on());
  all.look(one, 100ns);
  EXPECT_TRUE(one.is_on());
  all.look(one, 4us);
  EXPECT_FALSE(one.is_on());
}

TEST(restraint, looks_again_after_a_while) {
  restraint one;
  others all{.step = stopped};
  all.look(one, 100ns);
  EXPECT_FALSE(one.is_on());
  all.step = fast;
  all.look(one, 100ns);
  EXPECT_FALSE(one.is_on()) << "looks at others after each function, though they have stopped";
  for (int i = 0; i < 100; ++i) all.look(one, 100ns);
  EXPECT_TRUE(one.is_on());
}

/// The caller and an idle worker would execute the same brief functions; the oldest one is executed only by the worker.
TEST(pool_restraint, executes_a_function_that_the_others_leave) {
  muster::pool pool(2);
  for (int i = 0; i < 1000; ++i) pool.submit([] {}).get();
  std::atomic<bool> executed{false};
  const auto left = pool.submit([&] { executed = true; });
  while (!executed) pool.submit([] {}).get();
  SUCCEED();
}

/// A node that waits for another one, which only another thread can execute, while the graph's nodes are brief.
TEST(pool_restraint, executes_a_node_that_another_one_waits_for) {
  muster::pool pool(2);
  muster::task_graph graph;
  std::atomic<unsigned> met{0}, run{0};
  const auto first = graph.add([&] { ++run; });
  for (int i = 0; i < 200; ++i) graph.add([] {}, muster::after(first));
  const auto meet = [&] {
    for (++met; met < 2 * run;) std::this_thread::yield();
  };
  graph.add(meet, muster::after(first));
  for (int i = 0; i < 200; ++i) graph.add([] {}, muster::after(first));
  graph.add(meet, muster::after(first));
  for (unsigned i = 1; i <= 200; ++i) {
    graph.run(pool);
    EXPECT_EQ(met, 2 * i);
  }
}

}  // namespace
