// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests that answer each other before they leave their thread (muster/combine/batch.hpp): the results are those of
// one after another, and eliminated requests never reach the object.
#include <gtest/gtest.h>
#include <muster/combine/combining_stack.hpp>
#include <muster/combine/osci.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

using muster::osci;

/// A stack of numbers. 0 is a pop, and a pop of nothing gives -1; a push gives 0.
struct pile {
  std::vector<int> numbers;
  int executed = 0;

  struct change {
    int pushed;
    int operator()(pile& p) const noexcept {
      ++p.executed;
      if (pushed != 0) {
        p.numbers.push_back(pushed);
        return 0;
      }
      if (p.numbers.empty()) return -1;
      const int last = p.numbers.back();
      p.numbers.pop_back();
      return last;
    }
  };
  static void eliminate(muster::outgoing_batch<pile> all, std::span<std::uint32_t> notes) noexcept {
    constexpr std::uint32_t none = all.eliminated - 1;
    std::uint32_t last = none;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (!all[i].is<change>()) {
        notes[i] = last = none;  // it might see what was there before it
      } else if (all[i].function<change>().pushed != 0) {
        notes[i] = std::exchange(last, i);
      } else if (last == none) {
        notes[i] = none;
      } else {
        const std::uint32_t met = std::exchange(last, notes[last]);
        all[i].result<change>(all[met].function<change>().pushed);
        all[met].result<change>(0);
        notes[i] = notes[met] = all.eliminated;
      }
    }
  }
};

int executed_by(osci<pile>& shared) {
  return shared.apply([](pile& p) { return p.executed; });
}

TEST(elimination, gives_the_results_of_one_after_another) {
  std::mt19937 random(7);
  for (const unsigned batch : {1U, 2U, 3U, 7U, 64U}) {
    osci<pile> shared({.batch = batch});
    pile plain;
    int next = 1;
    int operations = 0;
    for (int round = 0; round < 300; ++round) {
      std::vector<pile::change> changes(random() % 20);
      std::vector<int> expected;
      for (pile::change& c : changes) {
        c.pushed = random() % 2 == 0 ? 0 : next++;
        expected.push_back(c(plain));
      }
      operations += static_cast<int>(changes.size());
      std::vector<int> results(changes.size());
      shared.apply_batch(std::span(changes), results.begin());
      ASSERT_EQ(results, expected) << "batches of " << batch << ", round " << round;
    }
    EXPECT_EQ(shared.apply([](pile& p) { return p.numbers; }), plain.numbers);
    if (batch == 1) {
      EXPECT_EQ(executed_by(shared), operations);
    } else {
      EXPECT_LT(executed_by(shared), operations);
    }
  }
}

TEST(elimination, keeps_eliminated_requests_from_the_object) {
  osci<pile> shared;
  std::vector<pile::change> changes{{1}, {2}, {0}, {3}, {0}, {0}};
  std::vector<int> results(changes.size());
  shared.apply_batch(std::span(changes), results.begin());
  EXPECT_EQ(results, (std::vector<int>{0, 0, 2, 0, 3, 1}));
  EXPECT_EQ(executed_by(shared), 0);
  // A pop first, and two pushes at the end, are left.
  changes = {{0}, {4}, {0}, {5}, {6}};
  results.resize(changes.size());
  shared.apply_batch(std::span(changes), results.begin());
  EXPECT_EQ(results, (std::vector<int>{-1, 0, 4, 0, 0}));
  EXPECT_EQ(executed_by(shared), 3);
  EXPECT_EQ(shared.apply([](pile& p) { return p.numbers; }), (std::vector<int>{5, 6}));
}

TEST(elimination, does_not_reach_across_requests_of_another_kind) {
  osci<pile> shared({.detached = true});
  auto first = shared.submit(pile::change{1});
  auto other = shared.submit([](pile& p) noexcept { return static_cast<int>(p.numbers.size()); });
  auto second = shared.submit(pile::change{2});
  auto pop = shared.submit(pile::change{0});
  auto again = shared.submit(pile::change{0});
  EXPECT_EQ(pop.get(), 2);
  EXPECT_EQ(again.get(), 1);
  EXPECT_EQ(first.get(), 0);
  EXPECT_EQ(second.get(), 0);
  EXPECT_EQ(other.get(), 1);
  EXPECT_EQ(executed_by(shared), 2);
}

TEST(elimination, serves_tickets_and_posts) {
  osci<pile> shared({.batch = 4, .detached = true});
  for (int round = 0; round < 100; ++round) {
    auto push = shared.submit(pile::change{round + 1});
    auto pop = shared.submit(pile::change{0});
    if (round % 2 == 0) shared.flush();
    EXPECT_EQ(pop.get(), round + 1);
    EXPECT_TRUE(push.ready());
    EXPECT_EQ(push.get(), 0);
    shared.post(pile::change{round + 1});  // the results of these are not fetched
    shared.post(pile::change{0});
    shared.flush();
  }
  EXPECT_EQ(executed_by(shared), 0);
  shared.check();
}

TEST(elimination, loses_nothing_between_fibers_of_a_stack) {
  constexpr int fibers = 20;
  constexpr int rounds = 500;
  muster::combining_stack<int> stack;
  std::vector<int> seen;
  {
    std::vector<muster::fiber> all;
    for (int f = 0; f < fibers; ++f) {
      all.emplace_back([&, f] {
        for (int round = 0; round < rounds; ++round) {
          if (f % 2 == 0) stack.push(f * rounds + round);
          if (const auto item = stack.pop()) seen.push_back(*item);
          if (f % 2 != 0) stack.push(f * rounds + round);
        }
      });
    }
  }
  while (const auto item = stack.pop()) seen.push_back(*item);
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), std::size_t{fibers} * rounds);
  for (int i = 0; i < fibers * rounds; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

}  // namespace
