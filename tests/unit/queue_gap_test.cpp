// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Consumers that are stopped between their claim and the release of the cell: producers make gaps and continue, at most
// capacity() items are in the queue, none is lost, and all come out in order.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <latch>
#include <numeric>
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

/// An output for bulk pops that stops at its first item until the gate opens.
class stopping_output {
 public:
  stopping_output(std::vector<std::uint64_t>& values, gated::gate& gate) : values_(&values), gate_(&gate) {}
  stopping_output& operator*() noexcept { return *this; }
  stopping_output& operator++() noexcept { return *this; }
  stopping_output& operator=(gated&& item) noexcept {
    if (values_->empty()) {
      gate_->reached.count_down();
      gate_->open.wait();
    }
    values_->push_back(item.value());
    return *this;
  }

 private:
  std::vector<std::uint64_t>* values_;
  gated::gate* gate_;
};

/// An item whose constructor stops until the gate opens, and then may throw.
class slow_to_make : public counted {
 public:
  explicit slow_to_make(std::uint64_t value) : counted(value) {}
  explicit slow_to_make(const refusal& why) : counted(0) { throw why; }
  slow_to_make(std::uint64_t value, gated::gate& gate, bool throws) : counted(value) {
    gate.reached.count_down();
    gate.open.wait();
    if (throws) throw refusal(value);
  }
};

/// Long enough for a thread to have gone to sleep in nearly every run; no result depends on it.
void let_it_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

template <class Kind>
class queue_gap : public ::testing::Test {
 public:
  using queue = typename Kind::template of<gated>;
};
using kinds_with_gaps = kinds_to_test<::testing::Types<spmc<spin_then_park>, mpmc<spin_then_park>, spmc<park>,
                                                       spmc<spin>, spmc<park, muster::layout::rotated>, mpmc<park>,
                                                       mpmc<spin>, mpmc<park, muster::layout::aligned_rotated>>,
                                      ::testing::Types<spmc<spin_then_park>, mpmc<spin_then_park>>>;
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
  let_it_sleep();
  std::thread consumer([&q] { EXPECT_EQ(q.pop()->value(), 1U); });
  gate.reached.wait();
  producer.join();  // hangs if only the end of the pop made room
  gate.open.count_down();
  consumer.join();
  EXPECT_EQ(q.pop()->value(), 2U);
}

TYPED_TEST(queue_gap, when_stopped_bulk_pops_hold_every_cell_pushes_report_it_and_wait_and_close_returns) {
  for (const bool close_first : {false, true}) {
    typename TestFixture::queue q(8, queue_options{.threads = 8, .cells = 16});
    gated::gate gates[2];
    std::vector<std::uint64_t> taken[2];
    std::vector<std::thread> held;
    std::uint64_t next = 1;
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 8; ++k) ASSERT_EQ(q.emplace(next++), queue_status::success);
      held.emplace_back([&, i] { EXPECT_EQ(q.pop_n(stopping_output(taken[i], gates[i]), 8), 8U); });
      gates[i].reached.wait();
    }
    EXPECT_EQ(q.try_emplace(next), queue_status::busy);
    EXPECT_EQ(q.push_for(gated(next), std::chrono::milliseconds(3)), queue_status::busy);
    queue_status pushed = queue_status::empty;
    std::thread producer([&] { pushed = q.emplace(next); });
    let_it_sleep();
    if (close_first) {
      q.close();
      producer.join();
      EXPECT_EQ(pushed, queue_status::closed);
      EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    }
    for (gated::gate& gate : gates) gate.open.count_down();
    for (std::thread& thread : held) thread.join();
    if (!close_first) {
      producer.join();
      EXPECT_EQ(pushed, queue_status::success);
      EXPECT_EQ(q.pop()->value(), next);
    }
    for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(taken[i / 8].at(i % 8), i + 1);
    q.check();
  }
  EXPECT_EQ(counted::alive(), 0);
}

TYPED_TEST(queue_gap, a_bulk_push_to_more_waiting_consumers_than_declared_loses_nothing) {
  constexpr std::size_t waiting = 15;
  typename TestFixture::queue q(waiting, queue_options{.threads = 1});
  // So that the producer looks at the consumers' progress before its next push.
  for (std::uint64_t i = 0; i < waiting; ++i) ASSERT_EQ(q.emplace(i), queue_status::success);
  for (std::uint64_t i = 0; i < waiting; ++i) ASSERT_EQ(q.pop()->value(), i);
  std::vector<std::uint64_t> values(waiting);
  std::vector<std::thread> consumers;
  for (std::uint64_t& value : values) consumers.emplace_back([&] { value = q.pop()->value(); });
  let_it_sleep();
  // The consumers have claimed the first ranks, so there may be room for twice the ranks that the ring has.
  std::vector<std::uint64_t> sent(2 * waiting);
  std::iota(sent.begin(), sent.end(), 1);
  std::thread producer([&] { EXPECT_EQ(q.push_n(sent.begin(), sent.size()), sent.size()); });
  for (std::thread& consumer : consumers) consumer.join();
  for (std::size_t i = 0; i < waiting; ++i) values.push_back(q.pop()->value());
  producer.join();
  std::ranges::sort(values);
  EXPECT_EQ(values, sent);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  q.check();
}

template <class Kind>
class mpmc_gap : public ::testing::Test {
 public:
  using queue = typename Kind::template of<slow_to_make>;
};
using kinds_with_many_producers = kinds_to_test<::testing::Types<mpmc<spin_then_park>, mpmc<park>, mpmc<spin>>,
                                                ::testing::Types<mpmc<spin_then_park>>>;
TYPED_TEST_SUITE(mpmc_gap, kinds_with_many_producers, kind_names);

TYPED_TEST(mpmc_gap, a_producer_that_gives_up_leaves_its_room_to_another) {
  typename TypeParam::template of<gated> q(1, queue_options{.threads = 1, .cells = 2});
  gated::gate gates[2];
  const auto stop_in_pop = [&] { EXPECT_TRUE(q.pop()); };
  ASSERT_EQ(q.emplace(1, &gates[0]), queue_status::success);
  std::thread first(stop_in_pop);
  gates[0].reached.wait();
  ASSERT_EQ(q.emplace(2, &gates[1]), queue_status::success);
  // Both sleep, and the second pop signals room to the first; but stopped pops hold both cells.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
  queue_status given_up = queue_status::success;
  bool late = false;
  std::thread gives_up([&] {
    given_up = q.push_until(gated(3), deadline);
    late = std::chrono::steady_clock::now() > deadline + std::chrono::milliseconds(10);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::thread waits([&] { EXPECT_EQ(q.push_for(gated(4), std::chrono::seconds(10)), queue_status::success); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::thread second(stop_in_pop);
  gates[1].reached.wait();
  const bool in_time = std::chrono::steady_clock::now() < deadline;
  gives_up.join();
  // On a busy machine the second pop may come after the deadline, and the last look be long before it.
  EXPECT_TRUE(given_up == queue_status::busy || ((late || !in_time) && given_up == queue_status::full));
  for (gated::gate& gate : gates) gate.open.count_down();
  first.join();
  second.join();
  waits.join();
  const auto last = q.try_pop();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->value(), 4U);
}

TYPED_TEST(mpmc_gap, a_consumer_without_a_claim_gets_the_item_behind_one_that_is_still_being_made) {
  typename TestFixture::queue q(4);
  std::thread patient([&] { EXPECT_EQ(q.pop_for(std::chrono::hours(1))->value(), 2U); });
  let_it_sleep();
  gated::gate gate;
  std::thread slow([&] { EXPECT_EQ(q.emplace(1, gate, false), queue_status::success); });
  gate.reached.wait();
  std::thread first([&] { EXPECT_EQ(q.pop()->value(), 1U); });
  while (q.size_approx() != 0) std::this_thread::yield();  // until `first` has claimed the item
  EXPECT_EQ(q.emplace(2), queue_status::success);
  patient.join();
  gate.open.count_down();
  slow.join();
  first.join();
}

// The item has been there for a while when the one before it is claimed.
TYPED_TEST(mpmc_gap, a_consumer_without_a_claim_is_woken_by_the_claim_before_its_item) {
  typename TestFixture::queue q(4);
  gated::gate gate;
  std::thread slow([&] { EXPECT_EQ(q.emplace(1, gate, false), queue_status::success); });
  gate.reached.wait();
  EXPECT_EQ(q.emplace(2), queue_status::success);
  std::thread patient([&] { EXPECT_EQ(q.pop_for(std::chrono::hours(1))->value(), 2U); });
  let_it_sleep();
  std::thread first([&] { EXPECT_EQ(q.pop()->value(), 1U); });
  patient.join();
  gate.open.count_down();
  slow.join();
  first.join();
}

TYPED_TEST(mpmc_gap, a_constructor_that_throws_wakes_a_producer_that_waits_for_room) {
  typename TestFixture::queue q(1);
  gated::gate gate;
  std::thread slow([&] { EXPECT_THROW(q.emplace(1, gate, true), refusal); });
  gate.reached.wait();
  std::thread waiting([&] { EXPECT_EQ(q.emplace(2), queue_status::success); });
  let_it_sleep();
  gate.open.count_down();
  slow.join();
  waiting.join();
  EXPECT_EQ(q.pop()->value(), 2U);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
}

TYPED_TEST(mpmc_gap, a_gap_takes_no_place_behind_an_item) {
  typename TestFixture::queue q(3, queue_options{.threads = 2, .cells = 8, .first_rank = ~muster::rank_t{0} - 9});
  for (std::uint64_t lap = 0; lap < 20; ++lap) {
    ASSERT_EQ(q.try_emplace(3 * lap), queue_status::success);
    for (unsigned gaps = 0; gaps < 3; ++gaps) EXPECT_THROW(q.try_emplace(refusal(0)), refusal);
    ASSERT_EQ(q.emplace(3 * lap + 1), queue_status::success);
    EXPECT_THROW(q.try_emplace(refusal(0)), refusal);
    ASSERT_EQ(q.try_emplace(3 * lap + 2), queue_status::success);
    ASSERT_EQ(q.try_emplace(0), queue_status::full);
    q.check();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(q.pop()->value(), 3 * lap + i);
    ASSERT_EQ(q.try_pop().status(), queue_status::empty);
  }
}

TYPED_TEST(mpmc_gap, more_gaps_than_cells_wait_for_the_item_before_them) {
  typename TestFixture::queue q(2, queue_options{.threads = 2, .cells = 4});
  ASSERT_EQ(q.emplace(1), queue_status::success);
  for (unsigned gaps = 0; gaps < 3; ++gaps) EXPECT_THROW(q.try_emplace(refusal(0)), refusal);
  EXPECT_EQ(q.try_emplace(2), queue_status::full);
  EXPECT_EQ(q.pop()->value(), 1U);
  for (unsigned gaps = 0; gaps < 30; ++gaps) EXPECT_THROW(q.try_emplace(refusal(0)), refusal);
  EXPECT_EQ(q.try_emplace(3), queue_status::success);
  EXPECT_EQ(q.pop()->value(), 3U);
  q.check();
}

}  // namespace
