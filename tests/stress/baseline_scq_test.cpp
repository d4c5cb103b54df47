// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// SCQ with as few places as it may have, so that its histories report full. With room for all items it is tested with
// the other queues, in baseline_stacks_queues_test.cpp.

#include <gtest/gtest.h>

#include <muster/base/sync.hpp>

#include <bit>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "../../bench/baselines/scq.hpp"
#include "fifo_monitor.hpp"
#include "history.hpp"
#include "scale.hpp"

using namespace muster_test;
using namespace muster::bench;

namespace {

using number = std::uint64_t;

struct yielding_turn {
  static void turn() { std::this_thread::yield(); }
};

template <class Body>
void in_threads(std::size_t threads, Body body) {
  std::vector<std::jthread> all;
  for (std::size_t i = 0; i < threads; ++i) all.emplace_back([&body, i] { body(i); });
}

/// The least capacity that the threads may have. `pushes` of ten operations push.
template <class Clock>
std::string small_ring(std::size_t threads, std::size_t operations, unsigned pushes, unsigned wait) {
  const std::size_t capacity = std::bit_ceil(threads);
  scq<number, yielding_turn> queue(capacity, wait);
  recording<Clock> record(threads, operations);
  in_threads(threads, [&](std::size_t i) {
    thread_log<Clock>& log = record.log(i);
    small_random dice(muster::sync::new_object_id());
    for (std::size_t n = 0; n < operations; ++n) {
      number value = i * operations + n + 1;
      if (dice.below(10) < pushes) {
        log.invoke(op::push, value);
        log.respond(queue.try_push(value) ? result::success : result::full);
      } else {
        log.invoke(op::pop);
        if (queue.try_pop(value)) log.respond(result::success, value);
        else log.respond(result::empty);
      }
      if (dice.below(32) == 0) std::this_thread::yield();
    }
  });
  // A pop that still has an index in hand makes a push find the queue full.
  return fifo_violation(record.history(), {capacity, true});
}

void small_rings(std::size_t rounds) {
  for (unsigned round = 0; round < rounds; ++round)
    for (const std::size_t threads : {2U, 3U, 4U, 8U}) {
      const unsigned pushes = 3 + round % 5, wait = round % 2 * 4;
      ASSERT_EQ(small_ring<exact_clock>(threads, 2000, pushes, wait), "") << threads << " threads, round " << round;
      ASSERT_EQ(small_ring<cheap_clock>(threads, 2000, pushes, wait), "") << threads << " threads, round " << round;
    }
}
TEST(baseline_scq, is_linearizable_with_room_for_an_item_a_thread) { small_rings(scaled(30)); }
TEST(baseline_scq, is_linearizable_with_room_for_an_item_a_thread_for_long_nightly) { small_rings(scaled(300)); }

TEST(baseline_scq, refuses_pushes_without_room) {
  scq<number> queue(3);  // that is four
  number value = 0;
  for (number round = 0; round < 100; ++round) {
    for (number i = 0; i < 4; ++i) EXPECT_TRUE(queue.try_push(value = 10 * round + i));
    EXPECT_FALSE(queue.try_push(value = 99));
    for (number i = 0; i < 4; ++i) {
      ASSERT_TRUE(queue.try_pop(value));
      ASSERT_EQ(value, 10 * round + i);
    }
    EXPECT_FALSE(queue.try_pop(value));
  }
}

}  // namespace
