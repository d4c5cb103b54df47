// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a queue after a process dies inside it: the columns "stops or dies" of docs/contracts/queue.md. The
// queue is in memory that a child of fork() shares. The child is killed before its n-th operation on shared memory, for
// every n until it survives. The parent uses the queue afterwards, and in some tests meanwhile.
#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dying_child.hpp"
#include "queue_kinds.hpp"
#include "shared_region.hpp"

namespace muster_test {
namespace {

using status = muster::queue_status;
template <class Wait>
using spsc = muster::spsc_queue<number, muster::layout::packed, Wait>;
template <class Wait>
using spmc = muster::spmc_queue<number, muster::layout::packed, Wait>;
template <class Wait>
using mpmc = muster::mpmc_queue<number, muster::layout::packed, Wait>;
template <class Wait>
using lane = one_lane<number, muster::layout::packed, Wait>;

template <class Queue>
class scene {
 public:
  explicit scene(std::size_t capacity)
      : queue(region_.make<Queue>(capacity, muster::queue_options{.threads = 4, .first_rank = ~muster::rank_t{0} - 2})),
        child(region_.make<diary>()) {}

  void child_pops(number most) {
    for (number i = 0; i < most; ++i)
      if (const auto item = queue.try_pop()) child.popped[child.pops++] = *item;
  }
  void child_pushes(number first, number count) {
    for (number i = 0; i < count; ++i) {
      child.tried = i + 1;
      if (queue.try_push(first + i) != status::success) return;
      child.pushed = i + 1;
    }
  }
  /// Pops until there is nothing to be had; `last` says why.
  std::vector<number> drain(status& last) {
    std::vector<number> items;
    for (;;) {
      const auto item = queue.try_pop();
      if (!item) return last = item.status(), items;
      items.push_back(*item);
    }
  }

  // Not destroyed: where the child has died, a destructor has no promise.
 private:
  shared_region region_;

 public:
  Queue& queue;
  diary& child;
};

/// 1 … n without at most `most` of them, each once, in the order of each consumer. Returns how many are missing.
std::size_t missing(const std::vector<number>& one, const std::vector<number>& other, number n, std::size_t most) {
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_TRUE(std::is_sorted(other.begin(), other.end()));
  std::vector<number> all = one;
  all.insert(all.end(), other.begin(), other.end());
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "an item is delivered twice";
  EXPECT_TRUE(all.empty() || all.back() <= n) << "an item that was never pushed";
  EXPECT_LE(all.size(), n);
  EXPECT_GE(all.size() + most, n) << "more items are lost than dead processes had claimed";
  return n - all.size();
}

template <class Queue>
inline constexpr bool has_many_producers = false;
template <class Wait>
inline constexpr bool has_many_producers<mpmc<Wait>> = true;

template <class Queue>
inline constexpr bool is_lanes = false;
template <class Wait>
inline constexpr bool is_lanes<lane<Wait>> = true;

/// The queue still works: every item passes through it, lap after lap. In mpmc_queue a gap takes a place, and each cell
/// that a dead process holds makes one.
template <class Queue>
void still_works(Queue& queue, std::size_t capacity, std::size_t held) {
  if (has_many_producers<Queue>) capacity -= held;
  number value = 1'000;
  for (std::size_t lap = 0; lap < 5; ++lap) {
    for (std::size_t i = 0; i < capacity; ++i) ASSERT_EQ(queue.try_push(value + i), status::success);
    for (std::size_t i = 0; i < capacity; ++i) {
      const auto item = queue.try_pop();
      ASSERT_TRUE(item);
      ASSERT_EQ(*item, value + i);
    }
    value += capacity;
  }
}

template <class Queue>
class death_of_a_consumer : public ::testing::Test {};
using many_consumers = ::testing::Types<spmc<muster::wait::park>, spmc<muster::wait::spin>, mpmc<muster::wait::park>,
                                        mpmc<muster::wait::spin>, lane<muster::wait::park>, lane<muster::wait::spin>>;
TYPED_TEST_SUITE(death_of_a_consumer, many_consumers);

TYPED_TEST(death_of_a_consumer, costs_one_item_and_one_cell) {
  std::size_t lost = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s(4);
    for (number i = 1; i <= 4; ++i) ASSERT_EQ(s.queue.try_push(i), status::success);
    died = child_dies(n, [&] { s.child_pops(3); });
    status last{};
    const std::vector<number> rest = s.drain(last);
    EXPECT_EQ(last, status::empty);
    lost += missing(s.child.items(), rest, 4, died ? 1 : 0);
    ASSERT_NO_FATAL_FAILURE(still_works(s.queue, 4, 1)) << "died at " << n;
  }
  EXPECT_GT(n, 10U);
  EXPECT_GT(lost, 2U);  // each pop has a moment at which its item is nowhere else
}

TYPED_TEST(death_of_a_consumer, in_a_bulk_pop_costs_the_claimed_items) {
  std::size_t lost = 0;
  for (number n = 1; n < 1'000; ++n) {
    scene<TypeParam> s(4);
    for (number i = 1; i <= 4; ++i) ASSERT_EQ(s.queue.try_push(i), status::success);
    const bool died = child_dies(n, [&] { s.child.pops = s.queue.try_pop_n(s.child.popped, 3); });
    status last{};
    const std::vector<number> rest = s.drain(last);
    EXPECT_EQ(last, status::empty);
    lost += missing(s.child.items(), rest, 4, died ? 3 : 0);
    ASSERT_NO_FATAL_FAILURE(still_works(s.queue, 4, 3)) << "died at " << n;
    if (!died) break;
  }
  EXPECT_GT(lost, 3U);
}

TYPED_TEST(death_of_a_consumer, does_not_disturb_others_meanwhile) {
  for (number n = 1; n < 400; n += 17) {
    scene<TypeParam> s(4);
    number pushed = 0;
    std::vector<number> own;
    const auto go_on = [&] {
      if (s.queue.try_push(pushed + 1) == status::success) ++pushed;
      if (pushed % 3 != 0) return;
      if (const auto item = s.queue.try_pop()) own.push_back(*item);
    };
    EXPECT_TRUE(child_dies(
        n,
        [&] {
          for (;;) s.child_pops(s.child.pops < 64 ? 1 : 0), muster_chaos::point();
        },
        go_on));
    for (int i = 0; i < 20; ++i) go_on();
    status last{};
    const std::vector<number> rest = s.drain(last);
    EXPECT_EQ(last, status::empty);
    own.insert(own.end(), rest.begin(), rest.end());
    missing(s.child.items(), own, pushed, 1);
  }
}

template <class Queue>
class death_of_a_producer : public ::testing::Test {};
using all_queues = ::testing::Types<spsc<muster::wait::park>, spmc<muster::wait::park>, mpmc<muster::wait::park>,
                                    lane<muster::wait::park>>;
TYPED_TEST_SUITE(death_of_a_producer, all_queues);

TYPED_TEST(death_of_a_producer, costs_its_item) {
  std::size_t lost = 0, blocked = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s(4);
    died = child_dies(n, [&] { s.child_pushes(1, 3); });
    status last{};
    const std::vector<number> got = s.drain(last);
    // Completed pushes are there; the one that was begun may be.
    EXPECT_GE(got.size(), s.child.pushed);
    EXPECT_LE(got.size(), s.child.tried);
    for (number i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i + 1);
    lost += s.child.tried - got.size();
    // Only the death of a producer of several leaves a place that later items must not pass.
    blocked += last == status::busy;
    const bool one_of_many = has_many_producers<TypeParam>;
    EXPECT_TRUE(last == status::empty || (one_of_many && died && last == status::busy)) << "died at " << n;
    if (one_of_many && last == status::empty) {
      ASSERT_NO_FATAL_FAILURE(still_works(s.queue, 4, 0)) << "died at " << n;
    }
  }
  EXPECT_GT(n, 10U);
  EXPECT_GT(lost, 2U);
  EXPECT_EQ(blocked > 0, has_many_producers<TypeParam>);
}

TEST(death_of_the_only_consumer, leaves_the_producer_its_room) {
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<spsc<muster::wait::park>> s(4);
    for (number i = 1; i <= 4; ++i) ASSERT_EQ(s.queue.try_push(i), status::success);
    died = child_dies(n, [&] { s.child_pops(3); });
    number room = 0;
    while (s.queue.try_push(10 + room) == status::success) ++room;
    EXPECT_GE(room, s.child.pops);
    EXPECT_LE(room, s.child.pops + 1);
    EXPECT_EQ(s.queue.try_push(99), status::full);
    missing(s.child.items(), {}, 4, 4);
  }
  EXPECT_GT(n, 10U);
}

TYPED_TEST(death_of_a_producer, or_of_the_closer_delays_no_other) {
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s(4);
    for (number i = 1; i <= 3; ++i) ASSERT_EQ(s.queue.try_push(i), status::success);
    died = child_dies(n, [&] { s.queue.close(); });
    const status push = s.queue.try_push(4);
    EXPECT_TRUE(push == status::success || push == status::closed);
    // A close() of lanes may die between two of them.
    EXPECT_EQ(push == status::closed, s.queue.is_closed() && !(died && is_lanes<TypeParam> && push == status::success));
    EXPECT_TRUE(died || push == status::closed);
    status last{};
    const std::vector<number> got = s.drain(last);
    EXPECT_EQ(got, push == status::success ? (std::vector<number>{1, 2, 3, 4}) : (std::vector<number>{1, 2, 3}));
    EXPECT_TRUE(last == status::empty || last == status::busy || last == status::closed);
    EXPECT_TRUE(died || last == status::closed);
  }
  EXPECT_GT(n, 5U);
}

}  // namespace
}  // namespace muster_test
