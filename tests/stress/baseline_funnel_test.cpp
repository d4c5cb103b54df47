// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Counters to which threads add in batches: every number is given out once, in an order that agrees with time. Queues
// over them are tested with the other queues, in baseline_stacks_queues_test.cpp.

#include <gtest/gtest.h>

#include <muster/base/sync.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "../../bench/baselines/funnel.hpp"
#include "in_threads.hpp"
#include "scale.hpp"

using namespace muster_test;
using namespace muster::bench;

namespace {

using number = std::uint64_t;

struct addition {
  number before, by;
};

template <class Counters>
class baseline_counter : public ::testing::Test {
 protected:
  /// Every number up to the sum is given out once, to each thread in order. A result is not below one that was there
  /// when its operation began.
  template <class... Batch>
  static void add_in_turn(std::size_t threads, std::size_t lives, std::size_t each, Batch... batch) {
    typename Counters::group all(batch...);
    typename Counters::counter first(all, 1000), second(all, 1000);  // they share users
    std::atomic<number> finished{0};
    std::vector<std::vector<addition>> added(threads);
    in_threads(threads, [&](std::size_t i) {
      for (std::size_t life = 0; life < lives; ++life) {
        typename Counters::user own(all);
        small_random dice(muster::sync::new_object_id());
        for (std::size_t n = 0; n < each; ++n) {
          const number least = finished.load();
          const number by = 1 + dice.below(3);
          const number before = dice.below(16) == 0 ? first.fetch_add_direct(by) : first.fetch_add(own, by);
          ASSERT_GE(before, least);
          for (number seen = finished.load(); seen < before + by && !finished.compare_exchange_weak(seen, before + by);)
            continue;
          added[i].push_back({before, by});
          second.fetch_add(own, 1);
          if (dice.below(64) == 0) std::this_thread::yield();
        }
      }
    });
    std::vector<addition> in_order;
    for (const std::vector<addition>& by_one : added) {
      EXPECT_TRUE(std::is_sorted(by_one.begin(), by_one.end(),
                                 [](const addition& a, const addition& b) { return a.before < b.before; }));
      in_order.insert(in_order.end(), by_one.begin(), by_one.end());
    }
    std::sort(in_order.begin(), in_order.end(),
              [](const addition& a, const addition& b) { return a.before < b.before; });
    number next = 1000;
    for (const addition& one : in_order) {
      ASSERT_EQ(one.before, next);
      next += one.by;
    }
    EXPECT_EQ(first.load(), next);
    EXPECT_EQ(second.load(), 1000 + threads * lives * each);
  }
};
using ways = ::testing::Types<single_words, funnels<1, turns<yielding_turn>>, funnels<3, turns<yielding_turn>>>;
struct way_names {
  template <class Counters>
  static std::string GetName(int index) {
    return std::array<std::string, 3>{"word", "funnel_1", "funnel_3"}.at(static_cast<std::size_t>(index));
  }
};
TYPED_TEST_SUITE(baseline_counter, ways, way_names);

TYPED_TEST(baseline_counter, gives_every_number_once_and_in_order) {
  for (const std::size_t threads : {1U, 2U, 5U, 8U}) this->add_in_turn(threads, 1, scaled(30'000));
}
TYPED_TEST(baseline_counter, users_come_and_go) { this->add_in_turn(6, scaled(300), 50); }
TYPED_TEST(baseline_counter, uses_batches_again_at_once) {
  if constexpr (std::is_constructible_v<typename TypeParam::group, std::size_t>)
    this->add_in_turn(6, 1, scaled(10'000), std::size_t{1});
}

TEST(baseline_funnel, changes_its_word_by_the_other_operations) {
  using counting = funnels<2, turns<yielding_turn>>;
  counting::group all;
  counting::counter counter(all, 5);
  counting::user own(all), other(all);
  EXPECT_EQ(counter.fetch_add(own, 1), 5U);
  EXPECT_EQ(counter.fetch_or(64), 6U);
  EXPECT_EQ(counter.fetch_add(other, 2), 70U);
  number expected = 72;
  EXPECT_TRUE(counter.compare_exchange_strong(expected, 100));
  EXPECT_EQ(counter.fetch_add(own, 1), 100U);
  counter.store(7);
  EXPECT_EQ(counter.fetch_add(own, 1), 7U);
  EXPECT_EQ(counter.load(), 8U);
}

}  // namespace
