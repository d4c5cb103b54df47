// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Combining by threads alone, on every system that muster supports: this file uses neither fibers nor processes.

#include <gtest/gtest.h>
#include <muster/combine.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 4, operations = 5000;

void by_threads(auto each) {
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back([&each, t] { each(t); });
}

template <class Object>
class combining_threads : public ::testing::Test {};

struct counter {
  long count = 0;
};
using objects = ::testing::Types<muster::osci<counter>, muster::osci<counter, muster::wait::park>,
                                 muster::osci_shared<counter>, muster::cc_synch<counter>,
                                 muster::flat_combining<counter>, muster::flat_combining<counter, muster::wait::park>>;
TYPED_TEST_SUITE(combining_threads, objects);

// Each thread gets every number at most once, and all of them together get all.
TYPED_TEST(combining_threads, count_without_losing_an_operation) {
  TypeParam object;
  std::vector<std::vector<long>> got(threads);
  by_threads([&](int t) {
    auto& mine = got[static_cast<std::size_t>(t)];
    for (int i = 0; i < operations; ++i) mine.push_back(object.apply([](counter& c) { return ++c.count; }));
  });
  std::vector<long> all;
  for (const auto& mine : got) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), std::size_t{threads} * operations);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<long>(i) + 1);
}

TYPED_TEST(combining_threads, throw_to_the_thread_whose_operation_threw) {
  TypeParam object;
  std::vector<int> caught(threads);
  by_threads([&](int t) {
    for (int i = 0; i < operations / 10; ++i) try {
        object.apply([t](counter& c) {
          if (++c.count % 2 == 0) throw std::runtime_error(std::to_string(t));
        });
      } catch (const std::runtime_error& error) {
        if (error.what() == std::to_string(t)) ++caught[static_cast<std::size_t>(t)];
      }
  });
  int sum = 0;
  for (const int one : caught) sum += one;
  EXPECT_EQ(sum, threads * (operations / 10) / 2);
}

TYPED_TEST(combining_threads, refuse_an_operation_inside_another) {
  TypeParam object;
  EXPECT_THROW(object.apply([&](counter&) { object.apply([](counter& c) { ++c.count; }); }), std::logic_error);
  EXPECT_EQ(object.apply([](counter& c) { return c.count; }), 0);
}

TEST(psim_threads, count_without_losing_an_operation) {
  muster::psim<counter> object;
  by_threads([&](int) {
    for (int i = 0; i < operations; ++i) object.apply([](counter& c) noexcept { return ++c.count; });
  });
  EXPECT_EQ(object.apply([](counter& c) noexcept { return c.count; }), long{threads} * operations);
}

template <class Structure>
class structures_threads : public ::testing::Test {};
using structures = ::testing::Types<muster::combining_queue<int>, muster::combining_stack<int>, muster::psim_queue<int>,
                                    muster::psim_stack<int>>;
TYPED_TEST_SUITE(structures_threads, structures);

TYPED_TEST(structures_threads, return_every_item_once) {
  TypeParam all;
  std::vector<std::vector<int>> got(threads);
  by_threads([&](int t) {
    auto& mine = got[static_cast<std::size_t>(t)];
    for (int i = 0; i < operations; ++i) {
      all.push(t * operations + i);
      if (const std::optional<int> item = all.pop()) mine.push_back(*item);
    }
  });
  std::vector<int> items;
  for (const auto& mine : got) items.insert(items.end(), mine.begin(), mine.end());
  while (const std::optional<int> item = all.pop()) items.push_back(*item);
  std::sort(items.begin(), items.end());
  ASSERT_EQ(items.size(), std::size_t{threads} * operations);
  for (std::size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i], static_cast<int>(i));
}

}  // namespace
