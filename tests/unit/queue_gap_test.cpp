// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Consumers that are stopped between their claim and the release of the cell: producers make gaps and go on, at most
// capacity() items are in the queue, nothing is lost, and everything comes out in order.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "queue_kinds.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;

namespace {

/// An item whose move out of the queue stops until the gate opens.
class gated : public counted {
 public:
  struct gate {
    std::latch reached{1};
    std::latch open{1};
  };
  explicit gated(std::uint64_t value, gate* g = nullptr) : counted(value), gate_(g) {}
  gated(gated&& other) noexcept : counted(std::move(other)), gate_(std::exchange(other.gate_, nullptr)) {
    if (gate_ == nullptr) return;
    gate* const g = std::exchange(gate_, nullptr);
    g->reached.count_down();
    g->open.wait();
  }

 private:
  gate* gate_;
};

template <class Kind>
class queue_gap : public ::testing::Test {
 public:
  using queue = typename Kind::template of<gated>;
};
using kinds_with_gaps =
    ::testing::Types<spmc<spin_then_park>, spmc<park>, spmc<spin>, spmc<park, muster::layout::rotated>,
                     mpmc<spin_then_park>, mpmc<park>, mpmc<spin>, mpmc<park, muster::layout::aligned_rotated>>;
TYPED_TEST_SUITE(queue_gap, kinds_with_gaps, kind_names);

TYPED_TEST(queue_gap, stopped_consumers_hold_their_cells_and_nothing_else) {
  for (const std::uint64_t start : start_ranks) {
    constexpr std::size_t capacity = 3;
    typename TestFixture::queue q(capacity, queue_options{.threads = 8, .first_rank = start});
    constexpr std::size_t stopped = 5;
    gated::gate gates[stopped];
    std::vector<std::thread> held;
    std::uint64_t next = 1;
    std::uint64_t expected = 1;
    for (gated::gate& gate : gates) {
      ASSERT_EQ(q.emplace(next, &gate), queue_status::success);
      held.emplace_back([&q, value = next] { EXPECT_EQ(q.pop()->value(), value); });
      gate.reached.wait();
      ++next;
      ++expected;
      // Many laps of the ring over the cells that are held.
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(q.try_emplace(next++), queue_status::success) << "start " << start << ", " << i;
        const auto item = i % 2 == 0 ? q.try_pop() : q.pop();
        ASSERT_TRUE(item);
        ASSERT_EQ(item->value(), expected++);
      }
    }
    for (gated::gate& gate : gates) gate.open.count_down();
    for (std::thread& thread : held) thread.join();
    // The gaps that are left do not count as items.
    for (std::size_t lap = 0; lap < 10; ++lap) {
      for (std::size_t i = 0; i < capacity; ++i) ASSERT_EQ(q.emplace(next++), queue_status::success);
      EXPECT_EQ(q.try_emplace(std::uint64_t{0}), queue_status::full);
      for (std::size_t i = 0; i < capacity; ++i) ASSERT_EQ(q.try_pop()->value(), expected++);
      EXPECT_EQ(q.try_pop().status(), queue_status::empty);
    }
    q.check();
  }
  EXPECT_EQ(counted::alive(), 0);
}

TYPED_TEST(queue_gap, bulk_pops_step_over_gaps) {
  typename TestFixture::queue q(8, queue_options{.threads = 8});
  gated::gate gate;
  ASSERT_EQ(q.emplace(1, &gate), queue_status::success);
  std::thread held([&q] { EXPECT_EQ(q.pop()->value(), 1U); });
  gate.reached.wait();
  std::uint64_t next = 2;
  std::uint64_t expected = 2;
  std::vector<counted> out(8);
  for (int lap = 0; lap < 40; ++lap) {
    for (int i = 0; i < 7; ++i) ASSERT_EQ(q.emplace(next++), queue_status::success);
    std::size_t got = 0;
    while (got < 7) {
      // counted can be assigned from gated without throwing, so several ranks are claimed at once.
      const std::size_t some = lap % 2 == 0 ? q.pop_n(out.begin(), 8) : q.try_pop_n(out.begin(), 3);
      ASSERT_GE(some, 1U);
      for (std::size_t i = 0; i < some; ++i) ASSERT_EQ(out[i].value(), expected++);
      got += some;
    }
  }
  gate.open.count_down();
  held.join();
  q.check();
}

TYPED_TEST(queue_gap, close_while_a_consumer_is_stopped_and_gaps_are_at_the_end) {
  typename TestFixture::queue q(1, queue_options{.threads = 4, .cells = 16});
  gated::gate gate;
  ASSERT_EQ(q.emplace(1, &gate), queue_status::success);
  std::thread held([&q] { EXPECT_EQ(q.pop()->value(), 1U); });
  gate.reached.wait();
  for (std::uint64_t i = 2; i <= 16; ++i) {
    ASSERT_EQ(q.emplace(i), queue_status::success);
    ASSERT_EQ(q.pop()->value(), i);
  }
  // The next rank's cell is the one that is held, so the item goes one rank further, behind a gap.
  ASSERT_EQ(q.emplace(17), queue_status::success);
  q.close();
  EXPECT_EQ(q.pop()->value(), 17U);
  EXPECT_EQ(q.pop().status(), queue_status::closed);
  EXPECT_EQ(q.try_pop().status(), queue_status::closed);
  gate.open.count_down();
  held.join();
}

TYPED_TEST(queue_gap, a_sleeping_producer_is_woken_by_the_claim_and_not_by_the_end_of_the_pop) {
  typename TestFixture::queue q(1, queue_options{.threads = 4});
  gated::gate gate;
  ASSERT_EQ(q.emplace(1, &gate), queue_status::success);
  std::thread producer([&q] { EXPECT_EQ(q.emplace(2), queue_status::success); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // probably asleep; no result depends on it
  std::thread consumer([&q] { EXPECT_EQ(q.pop()->value(), 1U); });
  gate.reached.wait();
  producer.join();  // hangs if only the end of the pop made room
  gate.open.count_down();
  consumer.join();
  EXPECT_EQ(q.pop()->value(), 2U);
}

}  // namespace
