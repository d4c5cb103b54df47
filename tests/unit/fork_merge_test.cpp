// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Stable sorts and merges keep the order of equal elements, and sorts keep all elements whatever throws.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster_test::scaled;

class merges : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, merges, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

struct item {
  std::uint32_t key = 0;
  std::size_t id = 0;  // in the order of a stable sort
  auto operator<=>(const item&) const = default;
};

/// Random, sorted, reversed with equal keys, an organ pipe.
std::vector<std::vector<item>> sequences(std::size_t many, std::uint32_t values) {
  std::mt19937 random(static_cast<unsigned>(many + values));
  std::vector<std::vector<item>> all(5, std::vector<item>(many));
  for (std::size_t i = 0; i < many; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    all[0][i] = {static_cast<std::uint32_t>(random()) % values, i};
    all[1][i] = {n / values, i};
    all[2][i] = {static_cast<std::uint32_t>(many) - n, i};
    all[3][i] = {(static_cast<std::uint32_t>(many) - n) / 2, i};
    all[4][i] = {n < many / 2 ? n : static_cast<std::uint32_t>(many) - n, i};
  }
  return all;
}
constexpr std::size_t sizes[] = {0, 1, 2, 3, 24, 25, 49, 96, 97, 2048, 2049, 5000, 40'000};

TEST_P(merges, sort_and_keep_the_order_of_equal_elements) {
  for (const std::size_t size : sizes)
    for (const std::uint32_t values : {2U, 1000U})
      for (std::vector<item>& all : sequences(size > 10'000 ? scaled(size) : size, values)) {
        std::vector<item> expected = all;
        std::ranges::sort(expected);
        workers_.run([&] { muster::parallel_stable_sort(all, {}, &item::key); });
        EXPECT_EQ(all, expected);
      }
}

// Their iterators are input iterators for the algorithms of namespace std, although references are of elements.
TEST_P(merges, sort_elements_seen_through_a_view) {
  for (const std::size_t size : sizes)
    for (std::vector<item>& all : sequences(size > 10'000 ? scaled(size) : size, 1000)) {
      std::vector<item> expected = all;
      const auto view = std::views::iota(std::size_t{0}, all.size()) |
                        std::views::transform([&](std::size_t i) -> item& { return all[i]; });
      workers_.run([&] { muster::parallel_stable_sort(view, {}, &item::key); });
      std::ranges::sort(expected);
      EXPECT_EQ(all, expected);
    }
}

TEST_P(merges, sort_by_a_projection) {
  std::vector<item> all = sequences(scaled(10'000), 100).front();
  std::deque<item> elsewhere(all.begin(), all.end());
  workers_.run([&] {
    muster::parallel_stable_sort(elsewhere.begin(), elsewhere.end(), std::greater<>(), &item::key);
    muster::parallel_sort(all, std::greater<>(), &item::key);
  });
  EXPECT_TRUE(std::ranges::is_sorted(all, std::greater<>(), &item::key));
  EXPECT_TRUE(std::ranges::is_sorted(
      elsewhere, [](const item& a, const item& b) { return a.key > b.key || (a.key == b.key && a.id < b.id); }));
}

TEST_P(merges, put_elements_of_the_first_range_first) {
  std::mt19937 random(3);
  for (const std::size_t size : sizes)
    for (const std::size_t part : {std::size_t{0}, size / 50, size / 2, size - size / 3, size}) {
      std::vector<item> all(size), merged(size), expected(size);
      for (std::size_t i = 0; i < size; ++i) all[i] = {static_cast<std::uint32_t>(random()) % 500, i};
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(part);
      std::sort(all.begin(), middle);
      std::sort(middle, all.end());
      std::ranges::merge(all.begin(), middle, middle, all.end(), expected.begin(), {}, &item::key, &item::key);
      const std::deque<item> second(middle, all.end());
      workers_.run([&] {
        EXPECT_EQ(
            muster::parallel_merge(all.begin(), middle, middle, all.end(), merged.begin(), {}, &item::key, &item::key),
            merged.end());
        EXPECT_EQ(merged, expected);
        std::deque<item> elsewhere(size);
        EXPECT_EQ(muster::parallel_merge(std::ranges::subrange(all.begin(), middle), second, elsewhere.begin(),
                                         [](const item& a, const item& b) { return a.key < b.key; }),
                  elsewhere.end());
        EXPECT_TRUE(std::ranges::equal(elsewhere, expected));
      });
    }
}

TEST_P(merges, of_what_can_only_be_moved) {
  std::vector<std::unique_ptr<std::size_t>> all(scaled(6000));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::make_unique<std::size_t>(i * 7919 % all.size());
  workers_.run([&] { muster::parallel_stable_sort(all, {}, [](const auto& one) { return *one / 2; }); });
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, [](const auto& one) { return *one / 2; }));
}

/// Its move may throw, as the compiler sees it.
struct careless {
  explicit careless(item of = {}) : value(of) {}
  careless(const careless& from) : value(from.value) {}
  careless& operator=(const careless& from) {
    value = from.value;
    return *this;
  }
  ~careless() = default;
  item value;
};

TEST_P(merges, sort_what_may_throw_when_it_is_moved) {
  for (const std::size_t size : {std::size_t{2}, std::size_t{30}, scaled(5000)})
    for (const std::vector<item>& items : sequences(size, 20)) {
      std::vector<careless> all(items.begin(), items.end());
      workers_.run([&] {
        muster::parallel_stable_sort(all,
                                     [](const careless& a, const careless& b) { return a.value.key < b.value.key; });
      });
      EXPECT_TRUE(std::ranges::is_sorted(all, {}, &careless::value));
    }
}

TEST_P(merges, keep_all_elements_whichever_comparison_throws) {
  std::vector<std::string> all(scaled(9000));
  std::mt19937 random(11);
  for (std::string& text : all) text = "a text that is longer than a short one " + std::to_string(random());
  std::vector<std::string> sorted = all;
  std::ranges::sort(sorted);
  unsigned thrown = 0;
  for (unsigned at = 1; at < 100'000; at = at * 3 / 2 + 1) {
    std::vector<std::string> here = all;
    std::atomic<unsigned> calls{0};
    try {
      workers_.run([&] {
        muster::parallel_stable_sort(
            here, [&](const std::string& a, const std::string& b) { return ++calls == at ? throw at : a < b; });
      });
      EXPECT_EQ(here, sorted);
    } catch (const unsigned what) {
      EXPECT_EQ(what, at);
      ++thrown;
      std::ranges::sort(here);
      EXPECT_EQ(here, sorted);
    }
  }
  EXPECT_GT(thrown, 10U);
}

TEST_P(merges, throw_what_a_comparison_throws) {
  const auto numbers = std::views::iota(0, 20'000);
  std::vector<int> out(40'000);
  workers_.run([&] {
    for (const int first : {0, 3000, 19'999})
      EXPECT_THROW(muster::parallel_merge(numbers, numbers, out.begin(),
                                          [&](int a, int b) { return a >= first ? throw a : a < b; }),
                   int);
  });
}

TEST(merges_outside, of_any_pool_run_in_the_shared_one) {
  std::vector<int> numbers{3, 1, 2}, merged(6);
  muster::parallel_stable_sort(numbers);
  muster::parallel_merge(numbers, numbers, merged.begin());
  EXPECT_EQ(merged, (std::vector<int>{1, 1, 2, 2, 3, 3}));
}

}  // namespace
