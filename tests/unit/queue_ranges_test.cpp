// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// push_range and pop_into: ranges of every kind, and what stays where when they end early or throw.

#include <gtest/gtest.h>
#include <muster/queue.hpp>
#include <muster/queue/shared.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <forward_list>
#include <iterator>
#include <list>
#include <memory>
#include <ranges>
#include <span>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "queue_kinds.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;

namespace {

using numbers = std::vector<std::uint64_t>;

numbers up_to(std::uint64_t last) {
  numbers all;
  for (std::uint64_t i = 1; i <= last; ++i) all.push_back(i);
  return all;
}

template <class Queue>
numbers drain(Queue& q) {
  numbers all;
  while (const auto item = q.try_pop()) all.push_back(*item);
  return all;
}

template <class Kind>
class queue_ranges : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(counted::alive(), 0); }
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "items were lost or destroyed twice"; }
};
TYPED_TEST_SUITE(queue_ranges, varied_kinds, kind_names);

/// An iterator of one pass that cannot be copied, as of a generator. It counts what it has read.
struct source {
  using difference_type = std::ptrdiff_t;
  using value_type = std::uint64_t;
  explicit source(std::uint64_t n, int& r) : left(n), reads(&r) {}
  source(source&&) = default;
  source& operator=(source&&) = default;
  std::uint64_t operator*() const {
    ++*reads;
    return value;
  }
  source& operator++() {
    ++value;
    --left;
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return left == 0; }
  std::uint64_t left;
  int* reads;
  std::uint64_t value = 1;
};
static_assert(std::input_iterator<source> && !std::copyable<source>);

TYPED_TEST(queue_ranges, pushes_ranges_of_every_kind) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<std::uint64_t> q(700, queue_options{.first_rank = start});
    const numbers five = up_to(5);
    const std::list<std::uint64_t> list(five.begin(), five.end());
    const std::forward_list<std::uint64_t> forward(five.begin(), five.end());
    const std::uint64_t array[] = {1, 2, 3, 4, 5};
    const auto pushed = [&](std::size_t n) {
      EXPECT_EQ(n, 5U);
      EXPECT_EQ(drain(q), five);
    };
    pushed(q.push_range(five));
    pushed(q.push_range(array));
    pushed(q.push_range(std::span(five)));
    pushed(q.push_range(five.begin(), five.end()));
    pushed(q.push_range(list));
    pushed(q.push_range(forward.begin(), forward.end()));
    pushed(q.push_range(std::views::iota(std::uint64_t{1}, std::uint64_t{6})));
    pushed(q.push_range(five | std::views::take_while([](std::uint64_t) { return true; })));
    pushed(q.push_range(std::counted_iterator(list.begin(), 5), std::default_sentinel));
    pushed(q.try_push_range(five));
    pushed(q.try_push_range(list.begin(), list.end()));
    std::istringstream text("1 2 3 4 5"), again("1 2 3 4 5");
    pushed(q.push_range(std::istream_iterator<std::uint64_t>(text), std::istream_iterator<std::uint64_t>()));
    pushed(q.push_range(std::views::istream<std::uint64_t>(again)));
    int reads = 0;
    pushed(q.push_range(source(5, reads), std::default_sentinel));
    pushed(q.push_range(std::counted_iterator(source(9, reads), 5), std::default_sentinel));
    pushed(q.try_push_range(source(5, reads), std::default_sentinel));
    EXPECT_EQ(reads, 15);
    EXPECT_EQ(q.push_range(numbers()), 0U);
    EXPECT_EQ(q.push_range(std::forward_list<std::uint64_t>()), 0U);
    EXPECT_EQ(q.push_range(source(0, reads), std::default_sentinel), 0U);
    // Around the number of items that are counted at once.
    for (const std::uint64_t size : {255U, 256U, 257U, 512U, 700U}) {
      const numbers many = up_to(size);
      const std::forward_list<std::uint64_t> uncounted(many.begin(), many.end());
      EXPECT_EQ(q.push_range(uncounted), size);
      EXPECT_EQ(drain(q), many);
    }
    q.check();
  }
}

TYPED_TEST(queue_ranges, moves_items_by_move_iterators) {
  typename TypeParam::template of<std::unique_ptr<std::uint64_t>> q(4);
  std::list<std::unique_ptr<std::uint64_t>> list;
  std::vector<std::unique_ptr<std::uint64_t>> vector;
  for (std::uint64_t i = 1; i <= 6; ++i) {
    list.push_back(std::make_unique<std::uint64_t>(i));
    vector.push_back(std::make_unique<std::uint64_t>(i));
  }
  const auto expect_four_of = [&q](auto& all) {
    EXPECT_EQ(q.try_push_range(std::move_iterator(all.begin()), std::move_iterator(all.end())), 4U);
    std::uint64_t i = 0;
    for (const auto& one : all) {
      ++i;
      EXPECT_EQ(one == nullptr, i <= 4) << "an item without a place is not moved from";
    }
    for (i = 1; i <= 4; ++i) EXPECT_EQ(**q.pop(), i);
  };
  expect_four_of(list);
  expect_four_of(vector);
  EXPECT_EQ(q.push_range(std::move_iterator(std::next(vector.begin(), 4)), std::move_iterator(vector.end())), 2U);
  std::vector<std::unique_ptr<std::uint64_t>> out(4);
  EXPECT_EQ(q.pop_into(out), 2U);
  EXPECT_EQ(*out[0], 5U);
  EXPECT_EQ(*out[1], 6U);
}

TYPED_TEST(queue_ranges, pushes_no_more_than_there_is_room_for) {
  typename TypeParam::template of<std::uint64_t> q(4);
  constexpr bool reads_one_more = TypeParam::producers > 1;  // see docs/contracts/queue.md
  int reads = 0;
  EXPECT_EQ(q.try_push_range(source(9, reads), std::default_sentinel), 4U);
  EXPECT_EQ(reads, reads_one_more ? 5 : 4);
  EXPECT_EQ(q.try_push_range(std::list<std::uint64_t>{7}), 0U);
  EXPECT_EQ(drain(q), up_to(4));
  EXPECT_EQ(q.try_push_range(std::views::iota(std::uint64_t{1})), 4U);  // never ends
  q.close();
  reads = 0;
  EXPECT_EQ(q.push_range(source(9, reads), std::default_sentinel), 0U);
  EXPECT_EQ(reads, reads_one_more ? 1 : 0);
  EXPECT_EQ(q.push_range(up_to(3)), 0U);
  EXPECT_EQ(q.try_push_range(std::list<std::uint64_t>{7}), 0U);
  EXPECT_EQ(drain(q), up_to(4));
}

TYPED_TEST(queue_ranges, an_endless_range_ends_with_the_queue) {
  typename TypeParam::template of<std::uint64_t> q(16);
  std::size_t pushed = 0;
  std::thread producer([&] { pushed = q.push_range(std::views::iota(std::uint64_t{1})); });
  std::uint64_t popped = 0;
  while (popped != 3000) ASSERT_EQ(*q.pop(), ++popped);
  q.close();
  producer.join();
  while (const auto item = q.pop()) ASSERT_EQ(*item, ++popped);
  EXPECT_EQ(pushed, popped);
}

TYPED_TEST(queue_ranges, waits_for_room_and_for_an_item) {
  typename TypeParam::template of<std::uint64_t> q(8);
  const numbers in = up_to(5000);
  const std::list<std::uint64_t> list(in.begin(), in.end());
  numbers out;
  std::thread consumer([&] {
    std::array<std::uint64_t, 300> some;
    std::forward_list<std::uint64_t> uncounted(300);
    for (bool open = true; open;) {
      std::size_t n = q.pop_into(some);
      out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
      if (n != 0) n = q.pop_into(uncounted.begin(), uncounted.end());
      std::copy_n(uncounted.begin(), n, std::back_inserter(out));
      if (n != 0) n = q.pop_into(std::back_inserter(out), 10);
      open = n != 0;
    }
  });
  EXPECT_EQ(q.push_range(in), in.size());
  EXPECT_EQ(q.push_range(list), in.size());
  int reads = 0;
  EXPECT_EQ(q.push_range(source(5000, reads), std::default_sentinel), in.size());
  q.close();
  consumer.join();
  numbers expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), in.begin(), in.end());
  EXPECT_TRUE(out == expected);
}

TYPED_TEST(queue_ranges, pops_into_ranges_of_every_kind) {
  typename TypeParam::template of<std::uint64_t> q(700);
  const auto fill = [&](std::uint64_t n) {
    drain(q);
    EXPECT_EQ(q.push_range(up_to(n)), n);
  };
  fill(3);
  numbers four(4), two(2);
  EXPECT_EQ(q.pop_into(two), 2U);
  EXPECT_EQ(two, up_to(2));
  EXPECT_EQ(q.try_pop_into(four), 1U);
  EXPECT_EQ(four, (numbers{3, 0, 0, 0}));
  EXPECT_EQ(q.try_pop_into(four), 0U);
  fill(3);
  std::uint64_t array[3] = {};
  EXPECT_EQ(q.pop_into(array), 3U);
  EXPECT_EQ(array[2], 3U);
  fill(3);
  EXPECT_EQ(q.pop_into(std::span(array).first(2)), 2U);
  EXPECT_EQ(q.pop_into(&array[0], &array[3]), 1U);
  EXPECT_EQ(array[0], 3U);
  fill(3);
  numbers appended;
  EXPECT_EQ(q.pop_into(std::back_inserter(appended), 2), 2U);
  EXPECT_EQ(q.try_pop_into(std::back_inserter(appended), 2), 1U);
  EXPECT_EQ(appended, up_to(3));
  fill(3);
  EXPECT_EQ(q.try_pop_into(four.begin(), std::unreachable_sentinel), 3U);
  numbers none;
  fill(1);
  EXPECT_EQ(q.pop_into(none), 0U);  // there is an item, and no place
  EXPECT_EQ(q.pop_into(none.begin(), none.end()), 0U);
  EXPECT_EQ(drain(q), up_to(1));
  // Around the number of places that are counted at once.
  for (const std::size_t size : {255U, 256U, 257U, 512U, 600U}) {
    for (const std::uint64_t items : {size - 1, size, size + 1}) {
      fill(items);
      std::forward_list<std::uint64_t> places(size);
      std::size_t got = q.try_pop_into(places);
      EXPECT_EQ(got, std::min<std::size_t>(size, items));
      EXPECT_TRUE(std::equal(places.begin(), std::next(places.begin(), static_cast<std::ptrdiff_t>(got)),
                             std::views::iota(std::uint64_t{1}).begin()));
      fill(items);
      got = q.pop_into(places.begin(), places.end());  // perhaps fewer than there are: see pop_n
      EXPECT_TRUE(got != 0 && got <= std::min<std::size_t>(size, items));
      EXPECT_TRUE(std::equal(places.begin(), std::next(places.begin(), static_cast<std::ptrdiff_t>(got)),
                             std::views::iota(std::uint64_t{1}).begin()));
    }
  }
  drain(q);
  q.close();
  EXPECT_EQ(q.pop_into(four), 0U);
}

TYPED_TEST(queue_ranges, a_constructor_that_throws_leaves_the_items_before_it) {
  for (const std::uint64_t bad : {1U, 2U, 255U, 256U, 257U, 300U}) {
    typename TypeParam::template of<touchy> q(400);
    std::forward_list<touchy> in;
    for (std::uint64_t i = 400; i != 0; --i)
      in.emplace_front(i, i == bad ? touchy::when::copied : touchy::when::not_at_all);
    EXPECT_THROW(q.push_range(in), refusal);
    ASSERT_EQ(q.emplace(std::uint64_t{1000}), queue_status::success);
    for (std::uint64_t i = 1; i != bad; ++i) ASSERT_EQ(q.try_pop()->value(), i);
    EXPECT_EQ(q.try_pop()->value(), 1000U);
    EXPECT_EQ(q.try_pop().status(), queue_status::empty);
    q.check();
  }
}

/// A source that throws when it reads, advances or is compared: at the third item.
struct failing : source {
  enum class when { read, advance, compare };
  failing(int& r, when w) : source(9, r), fails(w) {}
  void maybe(when w) const {
    if (value == 3 && w == fails) throw refusal(value);
  }
  std::uint64_t operator*() const {
    maybe(when::read);
    return source::operator*();
  }
  failing& operator++() {
    maybe(when::advance);
    source::operator++();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t end) const {
    maybe(when::compare);
    return static_cast<const source&>(*this) == end;
  }
  when fails;
};

TYPED_TEST(queue_ranges, a_range_that_throws_leaves_what_it_gave_before) {
  for (const auto when : {failing::when::read, failing::when::advance, failing::when::compare}) {
    typename TypeParam::template of<std::uint64_t> q(8);
    int reads = 0;
    EXPECT_THROW(q.push_range(failing(reads, when), std::default_sentinel), refusal);
    ASSERT_EQ(q.emplace(std::uint64_t{1000}), queue_status::success);
    EXPECT_EQ(drain(q), when == failing::when::advance ? (numbers{1, 2, 3, 1000}) : (numbers{1, 2, 1000}));
    q.close();
    EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    q.check();
  }
}

TYPED_TEST(queue_ranges, an_output_that_throws_loses_the_item_in_hand) {
  typename TypeParam::template of<touchy> q(10);
  for (std::uint64_t i = 1; i <= 6; ++i)
    ASSERT_EQ(q.emplace(i, i == 3 ? touchy::when::moved : touchy::when::not_at_all), queue_status::success);
  std::forward_list<touchy> out(6);
  EXPECT_THROW(q.pop_into(out), refusal);
  EXPECT_EQ(out.front().value(), 1U);
  EXPECT_EQ(std::next(out.begin())->value(), 2U);
  for (const std::uint64_t expected : {4U, 5U, 6U}) EXPECT_EQ(q.try_pop()->value(), expected);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  q.check();
}

TEST(queue_ranges_test, ports_of_shared_queues_take_them_too) {
  auto q = muster::shared_queue<std::uint64_t, muster::shape::mpmc>::create_anonymous(600);
  auto in = q.producer();
  auto out = q.consumer();
  const numbers many = up_to(600);
  EXPECT_EQ(in.push_range(std::list<std::uint64_t>(many.begin(), many.end())), 600U);
  EXPECT_EQ(in.try_push_range(many), 0U);
  std::list<std::uint64_t> back(700);
  EXPECT_EQ(out.pop_into(back), 600U);
  EXPECT_TRUE(std::equal(many.begin(), many.end(), back.begin()));
}

}  // namespace
