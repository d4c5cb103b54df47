// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The algorithms have the results of the standard library's on random input of many sizes, call the function once for
// each element, need no copies, and throw what the serial algorithm throws.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster_test::scaled;

class algorithms : public muster_test::in_pools {
 protected:
  template <class F>
  void in_pool(const F& f) {
    workers_.run(f);
  }
};
INSTANTIATE_TEST_SUITE_P(on, algorithms, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

// Around the sizes of the first pieces of a loop, and of its blocks between two checks.
constexpr std::array<std::size_t, 10> sizes = {0, 1, 2, 3, 16, 17, 64, 81, 1000, 6000};

/// Few values, so that equal ones are next to each other; `id` tells them apart.
struct item {
  std::uint32_t key = 0;
  std::size_t id = 0;
  bool operator==(const item&) const = default;
};

std::vector<item> random_items(std::size_t many, std::uint32_t values) {
  std::mt19937 random(static_cast<unsigned>(many + values));
  std::vector<item> all(many);
  for (std::size_t i = 0; i < many; ++i) all[i] = {static_cast<std::uint32_t>(random()) % values, i};
  return all;
}
template <class F>
void for_random_items(const F& f) {
  for (const std::size_t size : sizes)
    for (const std::uint32_t values : {2U, 1000U}) f(random_items(size, values));
}

TEST_P(algorithms, call_a_function_of_every_element) {
  for_random_items([&](std::vector<item> all) {
    std::vector<item> expected = all;
    for (item& one : expected) one.key = one.key * 2 + 100;
    std::deque<std::uint32_t> keys(all.size());
    in_pool([&] {
      muster::parallel_for_each(all, [](item& one) { one.key *= 2; });
      muster::parallel_for_each(all.begin(), all.end(), [](std::uint32_t& key) { key += 100; }, &item::key);
      EXPECT_EQ(muster::parallel_transform(all, keys.begin(), [](const item& one) { return one.key; }), keys.end());
    });
    EXPECT_EQ(all, expected);
    EXPECT_TRUE(std::ranges::equal(all, keys, {}, &item::key));
    in_pool([&] {
      muster::parallel_transform(all.begin(), all.end(), keys.begin(), std::negate<>(), &item::key);
      muster::parallel_transform(all.begin(), all.end(), keys.begin(), keys.begin(),
                                 [](const item& a, std::uint32_t b) { return a.key + b; });
    });
    EXPECT_TRUE(std::ranges::all_of(keys, [](std::uint32_t key) { return key == 0; }));
  });
}

TEST_P(algorithms, add_up_what_they_compute) {
  for_random_items([&](const std::vector<item>& all) {
    const std::vector<std::uint32_t> ones(all.size(), 1);
    const auto key = [](const item& one) { return std::uint64_t{one.key}; };
    const auto expected = std::transform_reduce(all.begin(), all.end(), std::uint64_t{5}, std::plus<>(), key);
    const auto product = [](const item& a, std::uint32_t b) { return std::uint64_t{a.key} * b; };
    in_pool([&] {
      EXPECT_EQ(muster::parallel_transform_reduce(all, std::uint64_t{5}, std::plus<>(), key), expected);
      EXPECT_EQ(muster::parallel_transform_reduce(all.begin(), all.end(), std::uint64_t{5}, std::plus<>(), key,
                                                  {.fixed = true}),
                expected);
      EXPECT_EQ(muster::parallel_transform_reduce(all.begin(), all.end(), ones.begin(), std::uint64_t{5}, std::plus<>(),
                                                  product),
                expected);
      EXPECT_EQ(muster::parallel_transform_reduce(ones.begin(), ones.end(), ones.begin(), std::size_t{0}), all.size());
      EXPECT_EQ(muster::parallel_reduce(ones, std::size_t{0}, std::plus<>()), all.size());
      EXPECT_EQ(muster::parallel_reduce(all, std::uint64_t{5}, std::plus<>(), key, {.grain = 7}), expected);
    });
  });
}

TEST_P(algorithms, count_bins) {
  for_random_items([&](const std::vector<item>& all) {
    std::vector<std::size_t> expected(50);
    for (const item& one : all) ++expected[one.key % 50];
    in_pool([&] {
      EXPECT_EQ(muster::parallel_histogram(all, 50, [](const item& one) { return one.key % 50; }), expected);
      const auto many = muster::parallel_histogram(all, 10'000, [](const item& one) { return one.key % 50; });
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), many.begin()));
      EXPECT_EQ(many.size(), 10'000U);
      EXPECT_EQ(std::accumulate(many.begin(), many.end(), std::size_t{0}), all.size());
      if (!all.empty()) {
        EXPECT_THROW(muster::parallel_histogram(all, 1, [](const item&) { return 1; }), std::out_of_range);
      }
    });
  });
}

TEST_P(algorithms, find_the_first) {
  for_random_items([&](const std::vector<item>& all) {
    std::vector<std::size_t> places = {0, all.size() / 2, all.size()};
    if (!all.empty()) places.push_back(all.size() - 1);
    for (const std::size_t place : places) {
      const auto behind = [&](const item& one) { return one.id >= place; };  // all but the first may be found, too
      const auto is_it = [&](std::size_t id) { return id == place; };
      in_pool([&] {
        EXPECT_EQ(muster::parallel_find_if(all, behind) - all.begin(), static_cast<std::ptrdiff_t>(place));
        EXPECT_EQ(muster::parallel_find_if(all.begin(), all.end(), is_it, &item::id) - all.begin(),
                  static_cast<std::ptrdiff_t>(place));
        EXPECT_EQ(muster::parallel_any_of(all, is_it, &item::id), place != all.size());
        EXPECT_EQ(muster::parallel_none_of(all, behind), place == all.size());
        EXPECT_EQ(muster::parallel_all_of(all, behind), place == 0 || all.empty());
        EXPECT_EQ(muster::parallel_all_of(all.begin(), all.end(), std::not_fn(is_it), &item::id), place == all.size());
        EXPECT_EQ(muster::parallel_any_of(all.begin(), all.end(), is_it, &item::id, {.grain = 3}),
                  !muster::parallel_none_of(all.begin(), all.end(), is_it, &item::id));
      });
    }
  });
}

TEST_P(algorithms, read_what_has_no_address) {
  in_pool([&] {
    const auto numbers = std::views::iota(std::size_t{0}, scaled(20'000));
    EXPECT_EQ(*muster::parallel_find_if(numbers, [](std::size_t n) { return n * n > 1'000'000; }), 1001U);
    std::vector<bool> bits(numbers.size());
    EXPECT_FALSE(muster::parallel_any_of(bits, std::identity()));
    bits.back() = true;
    EXPECT_EQ(muster::parallel_find_if(bits, std::identity()), bits.end() - 1);
    EXPECT_EQ(muster::parallel_max_element(bits), bits.end() - 1);
    muster::parallel_copy_if(numbers, bits.begin(), [](std::size_t n) { return n % 2 != 0; });
    EXPECT_TRUE(std::all_of(bits.begin(), bits.begin() + bits.end()[-1], std::identity()));
    EXPECT_EQ(std::count(bits.begin(), bits.end(), true), static_cast<std::ptrdiff_t>(bits.size() / 2 + 1));
  });
}

TEST_P(algorithms, find_the_smallest_and_the_largest) {
  for_random_items([&](const std::vector<item>& all) {
    const auto expected = std::ranges::minmax_element(all, {}, &item::key);
    const auto reversed = std::ranges::minmax_element(all, std::greater<>(), &item::key);
    in_pool([&] {
      EXPECT_EQ(muster::parallel_min_element(all, {}, &item::key), std::ranges::min_element(all, {}, &item::key));
      EXPECT_EQ(muster::parallel_max_element(all.begin(), all.end(), {}, &item::key),
                std::ranges::max_element(all, {}, &item::key));
      const auto [least, largest] = muster::parallel_minmax_element(all, {}, &item::key);
      EXPECT_EQ(least, expected.min);
      EXPECT_EQ(largest, expected.max);
      const auto other =
          muster::parallel_minmax_element(all.begin(), all.end(), std::greater<>(), &item::key, {.grain = 5});
      EXPECT_EQ(other.min, reversed.min);
      EXPECT_EQ(other.max, reversed.max);
    });
  });
}

TEST_P(algorithms, select) {
  for_random_items([&](const std::vector<item>& all) {
    std::atomic<std::size_t> calls{0};
    const auto odd = [&](std::uint32_t key) { return ++calls, key % 2 != 0; };
    std::vector<item> expected, copies(all.size()), appended;
    std::ranges::copy_if(all, std::back_inserter(expected), odd, &item::key);
    std::vector<item> unique = all;
    unique.erase(std::ranges::unique(unique, {}, &item::key).begin(), unique.end());
    std::vector<item> found_unique = all, parts = all;
    std::deque<item> elsewhere(all.begin(), all.end());
    calls = 0;
    in_pool([&] {
      copies.erase(muster::parallel_copy_if(all, copies.begin(), odd, &item::key), copies.end());
      muster::parallel_copy_if(all.begin(), all.end(), std::back_inserter(appended), odd, &item::key);
      found_unique.erase(muster::parallel_unique(found_unique, {}, &item::key), found_unique.end());
      elsewhere.erase(muster::parallel_unique(elsewhere.begin(), elsewhere.end(),
                                              [](const item& a, const item& b) { return a.key == b.key; }),
                      elsewhere.end());
      const auto middle = muster::parallel_partition(parts, odd, &item::key);
      EXPECT_EQ(calls, 3 * all.size());
      EXPECT_EQ(static_cast<std::size_t>(middle - parts.begin()), expected.size());
      EXPECT_TRUE(std::all_of(parts.begin(), middle, [](const item& one) { return one.key % 2 != 0; }));
      EXPECT_TRUE(std::none_of(middle, parts.end(), [](const item& one) { return one.key % 2 != 0; }));
    });
    EXPECT_EQ(copies, expected);
    EXPECT_EQ(appended, expected);
    EXPECT_EQ(found_unique, unique);
    EXPECT_TRUE(std::ranges::equal(elsewhere, unique));
    std::ranges::sort(parts, {}, &item::id);
    EXPECT_EQ(parts, all);
  });
}

// Their iterators are input iterators for the algorithms of namespace std, although references are of elements.
TEST_P(algorithms, divide_elements_seen_through_a_view) {
  std::vector<std::uint32_t> all(scaled(10'000));
  std::iota(all.begin(), all.end(), 0U);
  const auto backwards =
      std::views::iota(std::size_t{0}, all.size()) |
      std::views::transform([&](std::size_t i) -> std::uint32_t& { return all[all.size() - 1 - i]; });
  in_pool([&] {
    const auto middle = muster::parallel_partition(backwards, [](std::uint32_t n) { return n % 3 == 0; });
    EXPECT_EQ(static_cast<std::size_t>(middle - backwards.begin()), (all.size() + 2) / 3);
    EXPECT_TRUE(std::ranges::all_of(backwards.begin(), middle, [](std::uint32_t n) { return n % 3 == 0; }));
  });
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
}

// Every fork is stolen where it can be, so that parts are merged everywhere.
TEST_P(algorithms, select_in_parts_that_are_divided) {
  for (const unsigned values : {1U, 2U, 10U}) {
    std::vector<unsigned> numbers(scaled(20'000));
    std::mt19937 random(values);
    for (unsigned& number : numbers) number = static_cast<unsigned>(random()) % values;
    std::vector<unsigned> unique = numbers, selected, copies(numbers.size());
    const auto want = [](unsigned n) { return n % 2 == 0; };
    // Some turns take long, so that others take the rest.
    std::atomic<unsigned> calls{0};
    const auto slowly = [&](unsigned n) {
      if (++calls % 512 == 0) muster::fork2([] {}, [] {});
      return want(n);
    };
    std::vector<unsigned> expected;
    std::ranges::copy_if(numbers, std::back_inserter(expected), want);
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    in_pool([&] {
      muster::parallel_copy_if(numbers, std::back_inserter(selected), slowly);
      copies.erase(muster::parallel_copy_if(numbers, copies.begin(), slowly), copies.end());
      EXPECT_EQ(muster::parallel_copy_if(numbers, std::vector<unsigned>::iterator(),
                                         [&](unsigned n) { return slowly(n) && n > values; }),
                std::vector<unsigned>::iterator())
          << "none is selected, so nothing is written";
      std::vector<unsigned> parts = numbers;
      const auto middle = muster::parallel_partition(parts, slowly);
      EXPECT_EQ(static_cast<std::size_t>(middle - parts.begin()), expected.size());
      EXPECT_TRUE(std::is_partitioned(parts.begin(), parts.end(), want));
      numbers.erase(muster::parallel_unique(numbers, [&](unsigned a, unsigned b) { return slowly(0), a == b; }),
                    numbers.end());
    });
    EXPECT_EQ(selected, expected);
    EXPECT_EQ(copies, expected);
    EXPECT_EQ(numbers, unique);
  }
}

TEST_P(algorithms, of_what_can_only_be_moved) {
  using pointers = std::vector<std::unique_ptr<int>>;
  const auto make = [] {
    pointers all(3000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::make_unique<int>(static_cast<int>(i / 3));
    return all;
  };
  const auto value = [](const std::unique_ptr<int>& of) { return *of; };
  pointers all = make();
  in_pool([&] {
    EXPECT_EQ(muster::parallel_max_element(all, {}, value) - all.begin(), 2997);
    EXPECT_TRUE(muster::parallel_all_of(all, [](const std::unique_ptr<int>& one) { return one != nullptr; }));
    muster::parallel_for_each(all, [](std::unique_ptr<int>& one) { ++*one; });
    all.erase(muster::parallel_unique(all, {}, value), all.end());
    EXPECT_EQ(all.size(), 1000U);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(*all[i], static_cast<int>(i) + 1);
    const auto middle = muster::parallel_partition(all, [](int n) { return n % 4 == 0; }, value);
    EXPECT_EQ(middle - all.begin(), 250);
    EXPECT_TRUE(std::ranges::is_partitioned(all, [](int n) { return n % 4 == 0; }, value));
    std::vector<int> numbers(all.size());
    muster::parallel_transform(
        all, numbers.begin(), [own = std::make_unique<int>(5)](int n) { return n + *own; }, value);
    EXPECT_EQ(*muster::parallel_min_element(numbers), 6);
  });
}

TEST_P(algorithms, throw_what_the_serial_algorithm_throws) {
  const std::size_t many = scaled(20'000);
  const auto numbers = std::views::iota(std::size_t{0}, many);
  for (const std::size_t first : {std::size_t{0}, std::size_t{20}, many / 2, many - 1}) {
    // One that throws and then matches, as far as they are to the right.
    const auto thrown = [&](const auto& call) {
      try {
        in_pool(call);
      } catch (const std::size_t n) {
        return n;
      }
      return many;
    };
    const auto throws = [&](std::size_t n) -> bool { return n >= first ? throw n : false; };
    std::vector<std::size_t> out(many);
    EXPECT_EQ(thrown([&] { muster::parallel_for_each(numbers, throws); }), first);
    EXPECT_EQ(thrown([&] { muster::parallel_transform(numbers, out.begin(), throws); }), first);
    EXPECT_EQ(thrown([&] { muster::parallel_find_if(numbers, throws); }), first);
    EXPECT_EQ(thrown([&] { muster::parallel_copy_if(numbers, std::back_inserter(out), throws); }), first);
    EXPECT_GE(thrown([&] { muster::parallel_any_of(numbers, throws); }), first);
    EXPECT_LT(thrown([&] { muster::parallel_none_of(numbers, throws); }), many);
    const auto finds = [&](std::size_t n) { return n > first ? throw n : n == first; };
    EXPECT_EQ(thrown([&] { EXPECT_EQ(*muster::parallel_find_if(numbers, finds), first); }), many);

    std::vector<std::size_t> parts(many);
    std::iota(parts.begin(), parts.end(), std::size_t{0});
    EXPECT_GE(thrown([&] { muster::parallel_partition(parts, throws); }), first);  // it begins at both ends
    std::ranges::sort(parts);
    EXPECT_TRUE(std::ranges::equal(parts, numbers)) << "an element is lost";
  }
}

TEST_P(algorithms, end_early_when_a_stop_is_requested) {
  const auto numbers = std::views::iota(0U, 4'000'000'000U);
  const auto stopped = [&](const auto& call) {
    muster_test::stop_at_call turn(100);
    in_pool([&] { call(turn); });
    EXPECT_GE(turn.calls(), 100U);
  };
  stopped(
      [&](auto& turn) { muster::parallel_for_each(numbers, [&](unsigned) { turn(); }, {}, {.stop = turn.token()}); });
  stopped([&](auto& turn) {
    const auto end =
        muster::parallel_find_if(numbers, [&](unsigned) { return turn(), false; }, {}, {.stop = turn.token()});
    EXPECT_EQ(end, numbers.end());
  });
  stopped([&](auto& turn) {
    EXPECT_TRUE(muster::parallel_all_of(numbers, [&](unsigned) { return turn(), true; }, {}, {.stop = turn.token()}));
  });
  stopped([&](auto& turn) {
    const auto counts = muster::parallel_histogram(numbers.begin(), numbers.end(), 1,
                                                   [&](unsigned) { return turn(), 0U; }, {.stop = turn.token()});
    EXPECT_EQ(counts[0], turn.calls());
  });
  stopped([&](auto& turn) {
    const auto less = [&](unsigned a, unsigned b) { return turn(), a < b; };
    EXPECT_EQ(*muster::parallel_min_element(numbers, less, {}, {.stop = turn.token()}), 0U);
  });
}

TEST_P(algorithms, count_in_steps) {
  in_pool([&] {
    for (const int step : {1, 2, 3, 7, 1000, 100'000})
      for (const int last : {-6, -5, -4, 0, 1, 999, 5000}) {
        std::vector<std::atomic<int>> turns(6000);
        muster::parallel_for(-5, last, step, [&](int i) { ++turns[static_cast<std::size_t>(i + 5)]; });
        int wrong = 0;
        for (int i = -5; i < 5995; ++i)
          wrong += turns[static_cast<std::size_t>(i + 5)] != (i < last && (i + 5) % step == 0 ? 1 : 0) ? 1 : 0;
        EXPECT_EQ(wrong, 0) << "step " << step << ", last " << last;
      }
    std::atomic<unsigned> turns{0};
    muster::parallel_for(std::uint8_t{0}, std::uint8_t{255}, 100, [&](std::uint8_t i) { turns += i; });
    EXPECT_EQ(turns, 300U);
    std::vector<std::atomic<int>> cells(1000);
    muster::parallel_for(0, cells.size(), [&](std::size_t i) { ++cells[i]; });
    muster::parallel_for(1, cells.size(), 2U, [&](std::size_t i) { ++cells[i]; }, {.grain = 4});
    for (std::size_t i = 0; i < cells.size(); ++i) EXPECT_EQ(cells[i], i % 2 == 0 ? 1 : 2);
    EXPECT_THROW(muster::parallel_for(0, 10, 0, [](int) {}), std::invalid_argument);
    EXPECT_THROW(muster::parallel_for(10, 0, -1, [](int) {}), std::invalid_argument);
    EXPECT_THROW(muster::parallel_for(-1, cells.size(), [](std::size_t) {}), std::invalid_argument);
  });
}

TEST_P(algorithms, scan_ranges) {
  std::vector<std::uint64_t> numbers(scaled(5000)), sums(numbers.size()), expected(numbers.size());
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{3});
  in_pool([&] {
    EXPECT_EQ(muster::parallel_scan(numbers, sums.begin()), sums.end());
    std::inclusive_scan(numbers.begin(), numbers.end(), expected.begin());
    EXPECT_EQ(sums, expected);
    muster::parallel_scan(numbers, sums.begin(), std::plus<>(), std::uint64_t{7});
    std::inclusive_scan(numbers.begin(), numbers.end(), expected.begin(), std::plus<>(), std::uint64_t{7});
    EXPECT_EQ(sums, expected);
    muster::parallel_exclusive_scan(numbers, numbers.begin(), std::uint64_t{7});
  });
  std::iota(expected.begin(), expected.end(), std::uint64_t{3});
  std::exclusive_scan(expected.begin(), expected.end(), expected.begin(), std::uint64_t{7});
  EXPECT_EQ(numbers, expected);
}

TEST(algorithms_outside, of_any_pool_run_in_the_shared_one) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  EXPECT_EQ(*muster::parallel_find_if(numbers, [](int n) { return n > 500; }), 501);
  EXPECT_EQ(muster::parallel_partition(numbers, [](int n) { return n < 10; }) - numbers.begin(), 10);
  muster::parallel_for_each(numbers, [](int& n) { n = 0; });
  EXPECT_EQ(muster::parallel_histogram(numbers, 1)[0], 1000U);
}

}  // namespace
