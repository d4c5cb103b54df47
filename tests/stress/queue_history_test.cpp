// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole histories of every operation at once, checked for linearizability: 2 to 16 threads, small capacities, ranks
// that start near every wrap, close at the end and in the middle.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "queue_kinds.hpp"
#include "queue_storm.hpp"
#include "scale.hpp"

using namespace muster_test;

namespace {

constexpr std::size_t sizes[] = {1, 2, 4, 8, 3};

/// Every capacity with every start; the numbers of threads change from storm to storm.
template <class Queue>
void play_storms(std::size_t items, bool early_close, bool producers, bool consumers, bool full_may_be_early) {
  std::size_t number = 0;
  for (const std::size_t capacity : {1U, 2U, 3U, 64U}) {
    for (const std::uint64_t first_rank : start_ranks) {
      storm plan;
      plan.capacity = capacity;
      plan.first_rank = first_rank;
      plan.producers = producers ? sizes[number % 5] : 1;
      plan.consumers = consumers ? sizes[(number / 2 + 1) % 5] : 1;
      plan.items = items;
      plan.early_close = early_close;
      plan.full_may_be_early = full_may_be_early;
      const std::string wrong =
          number % 3 == 0 ? queue_storm<Queue, exact_clock>(plan).play() : queue_storm<Queue, cheap_clock>(plan).play();
      ASSERT_EQ(wrong, "") << plan.producers << " to " << plan.consumers << ", capacity " << capacity << ", start "
                           << first_rank;
      ++number;
    }
  }
}

template <class Kind>
class queue_history : public ::testing::Test {
 protected:
  using queue = one_order<typename Kind::template of<std::uint64_t>>;

  static void play(std::size_t items, bool early_close) {
    play_storms<queue>(items, early_close, Kind::producers > 1, Kind::consumers > 1, Kind::full_may_be_early);
  }
};
TYPED_TEST_SUITE(queue_history, varied_kinds, kind_names);

TYPED_TEST(queue_history, is_linearizable) { this->play(scaled(3000), false); }
TYPED_TEST(queue_history, is_linearizable_when_closed_in_the_middle) { this->play(scaled(1000), true); }
TYPED_TEST(queue_history, is_linearizable_for_long_nightly) { this->play(scaled(30'000), false); }
TYPED_TEST(queue_history, is_linearizable_when_closed_early_often_nightly) {
  for (int round = 0; round < 200; ++round) this->play(scaled(300), true);
}

template <class Wait>
class lanes_history : public ::testing::Test {
 protected:
  static void play(std::size_t items, bool early_close) {
    using queue = order_per_producer<muster::lanes<std::uint64_t, muster::layout::packed, Wait>>;
    play_storms<queue>(items, early_close, true, true, false);
  }
};
using all_waits = ::testing::Types<spin_then_park, park, spin>;
TYPED_TEST_SUITE(lanes_history, all_waits);

TYPED_TEST(lanes_history, is_linearizable_for_each_producer) { this->play(scaled(3000), false); }
TYPED_TEST(lanes_history, is_linearizable_when_closed_in_the_middle) { this->play(scaled(1000), true); }
TYPED_TEST(lanes_history, is_linearizable_when_closed_early_often_nightly) {
  for (int round = 0; round < 50; ++round) this->play(scaled(300), true);
}

}  // namespace
