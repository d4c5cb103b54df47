// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts that only the wait-free queue has: requests for help, and an array that is freed behind its users. Its
// histories are tested with the others, in baseline_stacks_queues_test.cpp.

#include <gtest/gtest.h>

#include <muster/fiber/fiber.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../bench/baselines/wf_queue.hpp"
#include "fifo_monitor.hpp"
#include "history.hpp"
#include "in_threads.hpp"
#include "scale.hpp"

using namespace muster;
using namespace muster_test;
using namespace muster::bench;

namespace {

using number = std::uint64_t;

/// Never gives way in the middle of an operation.
using steady = yielding_turn;

/// Fibers of one thread give way between two steps of an operation, in a third of all places, for up to three rounds
/// and sometimes for a hundred: all that threads do to each other, more often.
struct restless {
  static void turn() { this_fiber::yield(); }
  static void between() {
    static thread_local small_random chance(muster::sync::new_object_id());
    if (chance.below(3) != 0) return;
    for (unsigned rounds = 1 + chance.below(chance.below(50) == 0 ? 100 : 3); rounds != 0; --rounds) turn();
  }
};

TEST(baseline_wf_queue, a_push_that_finds_its_cell_closed_asks_for_another) {
  wf_queue<number, steady, 4> queue({.patience = 0, .wait = 0});
  decltype(queue)::handle own(queue);
  number value = 0;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(own.pop(value));  // closes twenty cells
  own.push(1);
  EXPECT_EQ(own.slow_pushes(), 1U);
  own.push(2);
  EXPECT_EQ(own.slow_pushes(), 1U);  // behind the closed ones all is as ever
  for (number i = 1; i <= 2; ++i) {
    ASSERT_TRUE(own.pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(own.pop(value));
  EXPECT_EQ(own.slow_pops(), 0U);
}

TEST(baseline_wf_queue, patience_comes_before_a_request) {
  wf_queue<number, steady, 4> queue({.patience = 10, .wait = 0});
  decltype(queue)::handle own(queue);
  number value = 0;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(own.pop(value));
  own.push(1);
  EXPECT_EQ(own.slow_pushes(), 0U);
  ASSERT_TRUE(own.pop(value));
  for (int i = 0; i < 11; ++i) EXPECT_FALSE(own.pop(value));
  own.push(2);
  EXPECT_EQ(own.slow_pushes(), 1U);
}

TEST(baseline_wf_queue, refuses_the_reserved_values) {
  wf_queue<> queue;
  wf_queue<>::handle own(queue);
  number value = 0;
  own.push(wf_queue<>::greatest);
  ASSERT_TRUE(own.pop(value));
  EXPECT_EQ(value, wf_queue<>::greatest);
  EXPECT_DEATH(own.push(wf_queue<>::greatest + 1), "cannot hold");
}

struct requests {
  number pushes = 0;
  number pops = 0;

  /// The whole history of operations many of which ask for help, on segments of two cells.
  std::string among(std::size_t fibers, std::size_t operations, unsigned pushes_in_ten, unsigned patience) {
    wf_queue<number, restless, 2> queue({.patience = patience, .wait = 0});
    recording<exact_clock> record(fibers, operations);
    std::vector<fiber> all;
    for (std::size_t i = 0; i < fibers; ++i) {
      all.emplace_back([&, i] {
        thread_log<exact_clock>& log = record.log(i);
        decltype(queue)::handle own(queue);
        small_random dice(muster::sync::new_object_id());
        for (std::size_t n = 0; n < operations; ++n) {
          number value = i * operations + n + 1;
          if (dice.below(10) < pushes_in_ten) {
            log.invoke(op::push, value);
            own.push(value);
            log.respond(result::success);
          } else {
            log.invoke(op::pop);
            if (own.pop(value)) log.respond(result::success, value);
            else log.respond(result::empty);
          }
        }
        pushes += own.slow_pushes();
        pops += own.slow_pops();
      });
    }
    all.clear();  // joins
    return fifo_violation(record.history());
  }
};

void many_requests(std::size_t rounds) {
  requests made;
  for (unsigned round = 0; round < rounds; ++round) {
    ASSERT_EQ(made.among(2 + round % 9, 200, 3 + round % 4, round % 5 / 3), "") << "round " << round;
  }
  // Without requests for help, this would test nothing.
  EXPECT_GT(made.pushes, rounds);
  EXPECT_GT(made.pops, rounds);
}
TEST(baseline_wf_queue, requests_are_linearizable) { many_requests(scaled(1000)); }
TEST(baseline_wf_queue, requests_are_linearizable_for_long_nightly) { many_requests(scaled(30'000)); }

// ---------------------------------------------------------------------------------------------------------------------

/// A cell that is counted.
class cell {
 public:
  cell() { ++alive; }
  ~cell() { --alive; }
  cell(const cell&) = delete;
  cell& operator=(const cell&) = delete;
  void reset() noexcept { value = 0; }

  static inline std::atomic<int> alive{0};
  std::atomic<number> value{0};
};
constexpr int in_segment = 4;
using cells = endless_array<cell, in_segment>;

/// `n` operations that take one ticket of each counter, like a push and a pop.
void pass(cells& all, cells::visitor& visitor, std::pair<cells::position, cells::position>& own, unsigned n) {
  for (; n != 0; --n) {
    const number pushed = visitor.begin(own.first, all.tail);
    cell& in = visitor.find(own.first, pushed);
    EXPECT_EQ(in.value.load(), 0U) << "a cell of another ticket";
    in.value = pushed;
    visitor.end();
    const number popped = visitor.begin(own.second, all.head);
    EXPECT_EQ(visitor.find(own.second, popped).value.load(), popped);
    visitor.end();
    visitor.clean(own.second);
  }
}

TEST(baseline_endless_array, is_freed_behind_its_users) {
  {
    cells all;
    cells::visitor visitor(all);
    std::pair<cells::position, cells::position> own;
    pass(all, visitor, own, 1000);
    EXPECT_LE(cell::alive, 10 * in_segment);
  }
  EXPECT_EQ(cell::alive, 0);
}

TEST(baseline_endless_array, keeps_cells_that_an_operation_needs) {
  cells all;
  cells::visitor visitor(all), other(all);
  std::pair<cells::position, cells::position> own;
  cells::position late;
  pass(all, visitor, own, 100);
  const number ticket = other.begin(late, all.tail);
  cell& kept = other.find(late, ticket);
  kept.value = ticket;
  EXPECT_EQ(visitor.begin(own.second, all.head), ticket);
  visitor.end();
  pass(all, visitor, own, 1000);
  EXPECT_GE(cell::alive, 1000);
  EXPECT_EQ(kept.value, ticket);
  other.end();
  pass(all, visitor, own, 2 * in_segment);
  EXPECT_LE(cell::alive, 20 * in_segment);

  // Its place is of the past now, and its next operation starts at another.
  const number next = other.begin(late, all.tail);
  EXPECT_EQ(other.find(late, next).value, 0U);
  other.end();
}

TEST(baseline_endless_array, keeps_cells_that_a_helper_uses) {
  cells all;
  cells::visitor visitor(all), peer(all), helper(all);
  std::pair<cells::position, cells::position> own;
  cells::position of_peer, of_helper;
  pass(all, visitor, own, 100);
  const number ticket = peer.begin(of_peer, all.head);
  peer.find(of_peer, ticket).value = ticket;
  EXPECT_EQ(visitor.begin(own.first, all.tail), ticket);
  visitor.end();
  pass(all, visitor, own, 100);
  helper.begin(of_helper, all.head);
  helper.need_from(cells::segment_of(ticket));
  peer.end();
  EXPECT_EQ(visitor.begin(own.first, all.tail), ticket + 101);
  visitor.end();
  pass(all, visitor, own, 1000);
  EXPECT_GE(cell::alive, 1000);
  EXPECT_EQ(helper.find(of_peer, ticket).value, ticket);
  helper.end();
  pass(all, visitor, own, 2 * in_segment);
  EXPECT_LE(cell::alive, 20 * in_segment);
}

TEST(baseline_endless_array, gives_every_ticket_a_cell_of_its_own) {
  cells all;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&all] {
        cells::visitor visitor(all);
        std::pair<cells::position, cells::position> own;
        small_random chance(muster::sync::new_object_id());
        for (std::size_t n = scaled(50'000); n != 0; --n) {
          const number pushed = visitor.begin(own.first, all.tail);
          if (chance.below(16) == 0) std::this_thread::yield();
          ASSERT_EQ(visitor.find(own.first, pushed).value.exchange(pushed), 0U);
          visitor.end();
          const number popped = visitor.begin(own.second, all.head);
          if (chance.below(16) == 0) std::this_thread::yield();
          visitor.find(own.second, popped);
          visitor.end();
          visitor.clean(own.second);
        }
      });
    }
  }
  cells::visitor last(all);
  std::pair<cells::position, cells::position> own;
  pass(all, last, own, 100);
  EXPECT_LE(cell::alive, 40 * in_segment);
}

}  // namespace
