// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// SCQ and wCQ with as few places as they may have, so that their histories report full; and wCQ's requests for help.
// With room for all items they are tested with the other queues, in baseline_stacks_queues_test.cpp.

#include <gtest/gtest.h>

#include <muster/base/sync.hpp>

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "../../bench/baselines/scq.hpp"
#include "../../bench/baselines/wcq.hpp"
#include "fifo_monitor.hpp"
#include "history.hpp"
#include "in_threads.hpp"
#include "scale.hpp"

using namespace muster_test;
using namespace muster::bench;

namespace {

using number = std::uint64_t;

/// Yields between any two steps of an operation, too, so rare interleavings become frequent.
struct restless : yielding_turn {
  static void between() {
    static thread_local small_random chance(muster::sync::new_object_id());
    if (chance.below(8) == 0) turn();
  }
};

using some_scq = scq<number, yielding_turn>;
using some_wcq = wcq<number, yielding_turn>;
using slow_wcq = wcq<number, restless>;

std::atomic<number> asked{0};  // operations that have asked for help

/// The least capacity that the threads may have. `pushes` of ten operations push.
template <class Queue, class Clock>
std::string small_ring(std::size_t threads, std::size_t operations, unsigned pushes,
                       const typename Queue::limits& limits) {
  const std::size_t capacity = std::bit_ceil(threads);
  Queue queue(capacity, limits);
  recording<Clock> record(threads, operations);
  in_threads(threads, [&](std::size_t i) {
    thread_log<Clock>& log = record.log(i);
    typename Queue::handle own(queue);
    small_random dice(muster::sync::new_object_id());
    for (std::size_t n = 0; n < operations; ++n) {
      number value = i * operations + n + 1;
      if (dice.below(10) < pushes) {
        log.invoke(op::push, value);
        log.respond(own.try_push(value) ? result::success : result::full);
      } else {
        log.invoke(op::pop);
        if (own.pop(value)) log.respond(result::success, value);
        else log.respond(result::empty);
      }
      if (dice.below(32) == 0) std::this_thread::yield();
    }
    if constexpr (std::is_same_v<Queue, slow_wcq>) asked += own.slow();
  });
  // A pop that still has an index in hand makes a push find the queue full.
  return fifo_violation(record.history(), {capacity, true});
}

template <class Queue>
void small_rings(std::size_t rounds, const typename Queue::limits& limits) {
  if (!Queue::available) GTEST_SKIP() << "not on this machine";
  for (unsigned round = 0; round < rounds; ++round)
    for (const std::size_t threads : {2U, 3U, 4U, 8U}) {
      const unsigned pushes = 3 + round % 5;
      const std::string first = small_ring<Queue, exact_clock>(threads, 2000, pushes, limits);
      ASSERT_EQ(first, "") << threads << " threads, round " << round;
      const std::string second = small_ring<Queue, cheap_clock>(threads, 2000, pushes, limits);
      ASSERT_EQ(second, "") << threads << " threads, round " << round;
    }
}
void all_small_rings(std::size_t rounds) {
  small_rings<some_scq>(rounds, {.wait = 0});
  small_rings<some_scq>(rounds, {.wait = 4});
  small_rings<some_wcq>(rounds, {});
  small_rings<some_wcq>(rounds, {.pushes = 1, .pops = 1, .delay = 1, .wait = 0});
}
TEST(baseline_scq, is_linearizable_with_room_for_an_item_a_thread) { all_small_rings(scaled(15)); }
TEST(baseline_scq, is_linearizable_with_room_for_an_item_a_thread_for_long_nightly) { all_small_rings(scaled(300)); }

void requests(std::size_t rounds) {
  asked = 0;
  small_rings<slow_wcq>(rounds, {.pushes = 1, .pops = 1, .delay = 1, .wait = 0});
  small_rings<slow_wcq>(rounds, {.pushes = 2, .pops = 1, .delay = 3, .wait = 1});
  // Without requests for help, this would test nothing.
  if (slow_wcq::available) EXPECT_GT(asked, 100 * rounds);
}
TEST(baseline_wcq, requests_are_linearizable) { requests(scaled(15)); }
TEST(baseline_wcq, requests_are_linearizable_for_long_nightly) { requests(scaled(300)); }

template <class Queue>
void refuses_pushes_without_room() {
  if (!Queue::available) GTEST_SKIP() << "not on this machine";
  Queue queue(3);  // that is four
  typename Queue::handle own(queue);
  number value = 0;
  for (number round = 0; round < 100; ++round) {
    for (number i = 0; i < 4; ++i) EXPECT_TRUE(own.try_push(value = 10 * round + i));
    EXPECT_FALSE(own.try_push(value = 99));
    for (number i = 0; i < 4; ++i) {
      ASSERT_TRUE(own.pop(value));
      ASSERT_EQ(value, 10 * round + i);
    }
    EXPECT_FALSE(own.pop(value));
  }
}
TEST(baseline_scq, refuses_pushes_without_room) { refuses_pushes_without_room<some_scq>(); }
TEST(baseline_wcq, refuses_pushes_without_room) { refuses_pushes_without_room<some_wcq>(); }

}  // namespace
