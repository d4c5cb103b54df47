// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Combining objects by the numbers: what they make is destroyed once, requests travel in batches of the size that was
// asked for, and each is answered once.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include "counted.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::fiber;
using muster_test::counted;
using number = std::uint64_t;

/// A result that does not fit where small ones do.
struct large_result {
  counted one;
  std::array<char, 100> filler{};
};

template <class Object>
void expect_nothing_left() {
  const auto before = counted::alive();
  {
    Object object(muster::combine_options{}, number{3});
    EXPECT_EQ(counted::alive(), before + 1) << "one state";
    std::vector<fiber> fibers;
    for (number i = 0; i < 5; ++i)
      fibers.emplace_back([&object, i] {
        const auto result = object.apply([i](counted&) { return large_result{counted(i)}; });
        EXPECT_EQ(result.one.value(), i);
      });
    fibers.clear();
    EXPECT_EQ(counted::alive(), before + 1) << "results are left";
  }
  EXPECT_EQ(counted::alive(), before) << "the state is left";
}

TEST(combining, destroys_states_and_results) {
  expect_nothing_left<muster::osci<counted>>();
  expect_nothing_left<muster::osci_shared<counted>>();
  expect_nothing_left<muster::cc_synch<counted>>();
  expect_nothing_left<muster::dsm_synch<counted>>();
  expect_nothing_left<muster::h_synch<counted>>();
  expect_nothing_left<muster::flat_combining<counted>>();
  expect_nothing_left<muster::oyama<counted>>();
  expect_nothing_left<muster::clh<counted>>();
  expect_nothing_left<muster::mcs<counted>>();
}

/// Notes how many additions come together, and how many of all have been done.
struct grouped {
  struct add {
    int operator()(grouped&) const noexcept { return -1; }
  };
  void execute(muster::batch<grouped, add, int> all) noexcept {
    largest = std::max(largest, all.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].result(++added);
  }
  std::size_t largest = 0;
  int added = 0;
};

template <class Object>
void expect_batches_of(unsigned most) {
  Object object(muster::combine_options{.batch = most});
  std::vector<fiber> fibers;
  std::set<int> results;
  for (int i = 0; i < 20; ++i) fibers.emplace_back([&] { results.insert(object.apply(grouped::add{})); });
  fibers.clear();
  EXPECT_EQ(results.size(), 20U);
  EXPECT_EQ(*results.begin(), 1);
  EXPECT_EQ(object.apply([](grouped& s) { return s.largest; }), most);
}

TEST(combining, sends_batches_of_the_size_that_was_asked_for) {
  for (const unsigned most : {2U, 5U}) {
    expect_batches_of<muster::osci<grouped>>(most);
    expect_batches_of<muster::osci_shared<grouped>>(most);
  }
}

TEST(combining, gives_a_state_only_its_own_kind_of_requests) {
  muster::osci<grouped> object({.detached = true});
  int between = 0;
  auto first = object.submit(grouped::add{});
  auto other = object.submit([&between](grouped& s) {
    between = s.added;
    return 40;
  });
  auto second = object.submit(grouped::add{});
  auto third = object.submit(grouped::add{});
  EXPECT_EQ(third.get(), 3);
  EXPECT_EQ(first.get(), 1);
  EXPECT_EQ(second.get(), 2);
  EXPECT_EQ(other.get(), 40);
  EXPECT_EQ(between, 1);
  EXPECT_EQ(object.apply([](grouped& s) { return s.largest; }), 2U);
}

TEST(tickets, can_be_assigned) {
  muster::osci<int> object({.detached = true});
  const auto add = [&object](int n) { return object.submit([n](int& s) { return s += n; }); };
  auto first = add(1);
  auto second = add(10);
  first = std::move(second);  // what it was before, nobody asks for any more
  EXPECT_FALSE(second.valid());
  auto third = add(100);
  EXPECT_EQ(third.get(), 111);
  EXPECT_EQ(first.get(), 11);
}

TEST(combining, asks_for_the_cluster_of_each_thread) {
  static std::atomic<int> asked;
  asked = 0;
  muster::h_synch<int> object(muster::h_synch_options{{}, 2, [](unsigned) {
                                                        ++asked;
                                                        return 1U;
                                                      }});
  object.apply([](int& s) { ++s; });
  EXPECT_GE(asked, 1);
}

TEST(retry, begins_anew_with_the_state_of_the_one_that_was_faster) {
  muster::retry<number> object;
  std::atomic<int> stage{0};
  std::jthread faster([&] {
    stage.wait(0);
    object.apply([](number& s) noexcept { s += 10; });
    stage = 2;
    stage.notify_all();
  });
  int runs = 0;
  const number result = object.apply([&](number& s) noexcept {
    if (++runs == 1) {
      stage = 1;
      stage.notify_all();
      stage.wait(1);
    }
    return s += 1;
  });
  EXPECT_EQ(result, 11U);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(object.apply([](number& s) noexcept { return s; }), 11U);
}

// All three travel together, so that the stack itself never sees the pair.
TEST(a_stack, gives_an_item_to_one_of_two) {
  muster::combining_stack<int> stack;
  std::vector<std::optional<int>> popped;
  {
    fiber push([&] { stack.push(7); });
    fiber pop([&] { popped.push_back(stack.pop()); });
    fiber pop_too([&] { popped.push_back(stack.pop()); });
  }
  ASSERT_EQ(popped.size(), 2U);
  EXPECT_NE(popped[0].has_value(), popped[1].has_value());
  EXPECT_EQ(popped[0].value_or(0) + popped[1].value_or(0), 7);
  EXPECT_EQ(stack.pop(), std::nullopt);
}

// Segments are used again, and none is left half full.
TEST(a_queue, of_segments_that_are_filled_to_the_end) {
  muster::combining_queue<number, muster::cc_synch, 3> queue;
  for (number round = 0; round < 5; ++round) {
    for (number i = 0; i < 3; ++i) queue.push(3 * round + i);
    for (number i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), 3 * round + i);
    EXPECT_EQ(queue.pop(), std::nullopt);
  }
}

template <class Structure>
void expect_items_destroyed() {
  const auto before = counted::alive();
  {
    Structure object;
    for (number i = 0; i < 100; ++i) object.push(counted(i));
    for (number i = 0; i < 30; ++i) EXPECT_TRUE(object.pop());
    EXPECT_EQ(counted::alive(), before + 70);
  }
  EXPECT_EQ(counted::alive(), before);
}

TEST(structures, destroy_the_items_that_are_left) {
  expect_items_destroyed<muster::combining_queue<counted>>();
  expect_items_destroyed<muster::combining_stack<counted>>();
  expect_items_destroyed<muster::psim_queue<counted>>();
  expect_items_destroyed<muster::psim_stack<counted>>();
}

// The thread that has made the queue uses it.
TEST(structures, destroy_an_item_that_is_refused) {
  const auto before = counted::alive();
  {
    muster::combining_queue<counted> queue({.threads = 1});
    queue.push(counted(1));
    std::jthread([&] { EXPECT_THROW(queue.push(counted(2)), std::length_error); }).join();
    EXPECT_EQ(counted::alive(), before + 1);
    EXPECT_EQ(queue.pop()->value(), 1U);
    EXPECT_EQ(queue.pop(), std::nullopt);
  }
  EXPECT_EQ(counted::alive(), before);
}

// Pushes and pops meet in one execution.
TEST(a_wait_free_stack, whose_pushes_and_pops_meet_keeps_its_nodes) {
  muster::psim_stack<number> stack({.threads = 8}, {.alone_first = false});
  std::atomic<number> sum{0}, popped{0};
  constexpr number each = 500;
  muster::run_team({.carriers = 2, .fibers = 4}, [&](unsigned carrier, unsigned f) {
    for (number i = 1; i <= each; ++i) {
      stack.push((carrier * 4 + f) * each + i);
      if (const auto one = stack.pop()) {
        sum += *one;
        ++popped;
      }
    }
  });
  while (const auto one = stack.pop()) {
    sum += *one;
    ++popped;
  }
  constexpr number all = 8 * each;
  EXPECT_EQ(popped, all);
  EXPECT_EQ(sum, all * (all + 1) / 2);
  stack.check();
}

}  // namespace
