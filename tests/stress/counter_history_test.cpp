// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole histories of a counter are linearizable: threads and fibers count and read, and the values agree with one order
// that has every operation between its call and its return.
//
// For a counter that only counts by 1, that is easy to decide: the values that the additions return are the order. An
// operation that ended before another began must not come after it. A read of v lies between the additions that return
// v - 1 and v.
#include <gtest/gtest.h>
#include <muster/combine/counter.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "scale.hpp"

namespace {

using muster::counter_options;
using muster_test::scaled;

struct counted {
  std::uint64_t place;  // twice the value that an addition has returned, plus 1; twice the value of a read
  std::uint64_t begin, end;
};

/// Returns the mistake in a history; empty if it is linearizable.
std::string violation(std::vector<counted> all) {
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.place < b.place; });
  std::uint64_t additions = 0;
  for (const counted& one : all)
    if (one.place % 2 != 0 && one.place != 2 * additions++ + 1)
      return "an addition has the value of another, or " + std::to_string(additions - 1) + " is missing";
  if (!all.empty() && all.back().place > 2 * additions) return "a read has a value that was never reached";
  std::uint64_t latest = 0;  // begin of the operations at earlier places
  for (std::size_t i = 0; i < all.size();) {
    std::size_t next = i;
    for (; next < all.size() && all[next].place == all[i].place; ++next)
      if (all[next].end < latest) return "an operation that ended before another began comes after it";
    for (; i < next; ++i) latest = std::max(latest, all[i].begin);
  }
  return {};
}

TEST(a_history, that_is_not_linearizable_is_noticed) {
  EXPECT_EQ(violation({{1, 10, 20}, {3, 15, 30}, {4, 31, 40}, {2, 12, 16}}), "");
  EXPECT_NE(violation({{1, 10, 20}, {1, 15, 30}}), "");              // the same value twice
  EXPECT_NE(violation({{1, 10, 20}, {5, 15, 30}}), "");              // a gap
  EXPECT_NE(violation({{3, 10, 20}, {1, 21, 30}}), "");              // the later one has the smaller value
  EXPECT_NE(violation({{1, 10, 20}, {0, 21, 30}}), "");              // a read misses an addition that has ended
  EXPECT_NE(violation({{1, 10, 20}, {4, 5, 30}}), "");               // a read of more than there was
  EXPECT_NE(violation({{1, 20, 30}, {2, 5, 10}, {3, 40, 50}}), "");  // a read of an addition that begins later
}

template <class Wait, class Clock>
std::string play(const counter_options& options, unsigned carriers, unsigned fibers, std::size_t operations) {
  muster::basic_counter<Wait> one(0, options);
  Clock clock;
  std::vector<std::vector<counted>> logs(std::size_t{carriers} * fibers);
  for (auto& own : logs) own.reserve(operations);
  muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
    auto& own = logs[std::size_t{carrier} * fibers + fiber];
    for (std::size_t i = 0; i < operations; ++i) {
      const bool reads = (i + carrier) % 5 == 0;
      const std::uint64_t begin = clock.begin();
      const auto value = static_cast<std::uint64_t>(reads ? one.load() : one.fetch_add(1));
      const std::uint64_t end = clock.end();
      own.push_back({2 * value + (reads ? 0 : 1), begin, end});
      if (i % 11 == 0) muster::this_fiber::yield();
    }
  });
  std::vector<counted> all;
  for (const auto& own : logs) all.insert(all.end(), own.begin(), own.end());
  return violation(std::move(all));
}

const std::vector<counter_options> ways = {
    {.gather_from = 0},
    {.gather_from = 0, .group = 2},
    {.gather_from = 2, .group = 3, .look_every = 2},
    {.gather_from = 1'000'000, .look_every = 3},
};

template <class Wait>
void expect_linearizable() {
  for (unsigned round = 0; round < scaled(24); ++round) {
    const counter_options& options = ways[round % ways.size()];
    const unsigned carriers = 2 + round % 3;
    const unsigned fibers = round % 2 == 0 ? 1 : 5;
    ASSERT_EQ((play<Wait, muster_test::exact_clock>(options, carriers, fibers, 800)), "") << "round " << round;
    ASSERT_EQ((play<Wait, muster_test::cheap_clock>(options, carriers, fibers, 800)), "") << "round " << round;
  }
}

TEST(a_counter, is_linearizable) { expect_linearizable<muster::wait::spin_then_park>(); }
TEST(a_counter, whose_threads_sleep_at_once_is_linearizable) { expect_linearizable<muster::wait::park>(); }
TEST(a_counter, is_linearizable_among_eight_times_as_many_threads) {
  for (const counter_options& options : ways)
    ASSERT_EQ((play<muster::wait::spin_then_park, muster_test::cheap_clock>(options, 16, 1, scaled(600))), "");
}

}  // namespace
