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

template <class Kind>
class queue_history : public ::testing::Test {
 protected:
  using queue = typename Kind::template of<std::uint64_t>;

  // Every capacity with every start; the numbers of threads change from storm to storm.
  static void play(std::size_t items, bool early_close) {
    std::size_t number = 0;
    for (const std::size_t capacity : {1U, 2U, 3U, 64U}) {
      for (const std::uint64_t first_rank : start_ranks) {
        storm plan;
        plan.capacity = capacity;
        plan.first_rank = first_rank;
        plan.producers = Kind::producers > 1 ? sizes[number % 5] : 1;
        plan.consumers = Kind::consumers > 1 ? sizes[(number / 2 + 1) % 5] : 1;
        plan.items = items;
        plan.early_close = early_close;
        plan.full_may_be_early = Kind::full_may_be_early;
        const std::string wrong = number % 3 == 0 ? queue_storm<queue, exact_clock>(plan).play()
                                                  : queue_storm<queue, cheap_clock>(plan).play();
        ASSERT_EQ(wrong, "") << plan.producers << " to " << plan.consumers << ", capacity " << capacity << ", start "
                             << first_rank;
        ++number;
      }
    }
  }

  static constexpr std::size_t sizes[] = {1, 2, 4, 8, 3};
};
TYPED_TEST_SUITE(queue_history, all_kinds, kind_names);

TYPED_TEST(queue_history, is_linearizable) { this->play(scaled(3000), false); }
TYPED_TEST(queue_history, is_linearizable_when_closed_in_the_middle) { this->play(scaled(1000), true); }
TYPED_TEST(queue_history, is_linearizable_for_long_nightly) { this->play(scaled(30'000), false); }
TYPED_TEST(queue_history, is_linearizable_when_closed_early_often_nightly) {
  for (int round = 0; round < 200; ++round) this->play(scaled(300), true);
}

}  // namespace
