// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Items that throw, and the count of items: what was constructed has been destroyed, whatever happened in between.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <cstdint>
#include <iterator>
#include <vector>

#include "counted.hpp"
#include "queue_kinds.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;

namespace {

template <class Kind>
class queue_lifetime : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(counted::alive(), 0); }
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "items were lost or destroyed twice"; }
};
TYPED_TEST_SUITE(queue_lifetime, varied_kinds, kind_names);

TYPED_TEST(queue_lifetime, items_left_are_destroyed_with_the_queue) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<counted> q(7, queue_options{.first_rank = start});
    for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(q.emplace(i), queue_status::success);
    EXPECT_EQ(counted::alive(), 5);
    EXPECT_EQ(q.pop()->value(), 1U);
    EXPECT_EQ(counted::alive(), 4);
  }
}

TYPED_TEST(queue_lifetime, a_constructor_that_throws_leaves_the_queue_as_it_was) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<touchy> q(2, queue_options{.first_rank = start});
    const touchy bad(9, touchy::when::copied);
    for (std::uint64_t i = 1; i <= 50; ++i) {
      EXPECT_THROW(q.push(bad), refusal);
      EXPECT_EQ(q.size_approx() > 1, false);
      EXPECT_THROW(q.try_push(bad), refusal);
      EXPECT_THROW(q.push_for(bad, std::chrono::hours(1)), refusal);
      ASSERT_EQ(q.emplace(i), queue_status::success);
      ASSERT_EQ(q.pop()->value(), i);
    }
    EXPECT_EQ(q.try_pop().status(), queue_status::empty);
    // The last push before the end has thrown, behind an item.
    ASSERT_EQ(q.emplace(std::uint64_t{51}), queue_status::success);
    EXPECT_THROW(q.push(bad), refusal);
    q.close();
    EXPECT_EQ(q.pop()->value(), 51U);
    EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    EXPECT_EQ(q.pop().status(), queue_status::closed);
    q.check();
  }
}

TYPED_TEST(queue_lifetime, a_move_that_throws_in_pop_removes_that_item_only) {
  typename TypeParam::template of<touchy> q(4);
  for (std::uint64_t i = 1; i <= 40; i += 2) {
    ASSERT_EQ(q.emplace(i, touchy::when::moved), queue_status::success);
    ASSERT_EQ(q.emplace(i + 1), queue_status::success);
    try {
      q.pop();
      FAIL() << "the exception of the item must reach the caller of pop";
    } catch (const refusal& r) {
      EXPECT_EQ(r.value, i);
    }
    ASSERT_EQ(q.pop()->value(), i + 1);
  }
  q.check();
}

TYPED_TEST(queue_lifetime, bulk_push_keeps_the_items_before_the_one_that_throws) {
  typename TypeParam::template of<touchy> q(10);
  std::vector<touchy> in;
  in.reserve(5);
  for (std::uint64_t i = 1; i <= 5; ++i) in.emplace_back(i, i == 4 ? touchy::when::copied : touchy::when::not_at_all);
  EXPECT_THROW(q.push_n(in.begin(), in.size()), refusal);
  EXPECT_THROW(q.try_push_n(in.begin() + 3, 2), refusal);
  ASSERT_EQ(q.emplace(std::uint64_t{6}), queue_status::success);
  for (const std::uint64_t expected : {1U, 2U, 3U, 6U}) EXPECT_EQ(q.try_pop()->value(), expected);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  q.check();
}

// Nothing is pushed after the one that throws: what has been announced must not be waited for.
TYPED_TEST(queue_lifetime, a_bulk_push_that_throws_leaves_nothing_to_wait_for) {
  typename TypeParam::template of<touchy> q(10);
  std::vector<touchy> in;
  in.reserve(5);
  for (std::uint64_t i = 1; i <= 5; ++i) in.emplace_back(i, i == 3 ? touchy::when::copied : touchy::when::not_at_all);
  EXPECT_THROW(q.push_n(in.begin(), in.size()), refusal);
  q.close();
  for (const std::uint64_t expected : {1U, 2U}) EXPECT_EQ(q.pop()->value(), expected);
  EXPECT_EQ(q.try_pop().status(), queue_status::closed);
  EXPECT_EQ(q.pop().status(), queue_status::closed);
  q.check();
}

/// Closes the queue before the fourth item, and throws instead of it. A single pass, and not more.
template <class Queue>
struct closing_input {
  Queue* q;
  std::uint64_t value = 1;
  std::uint64_t operator*() const {
    if (value == 4) {
      q->close();
      throw refusal(value);
    }
    return value;
  }
  closing_input& operator++() {
    ++value;
    return *this;
  }
};
/// The same with as many passes as one likes: pushes claim room for all at once.
template <class Queue>
struct closing_forward_input {
  using value_type = std::uint64_t;
  using difference_type = std::ptrdiff_t;
  using reference = std::uint64_t;
  using pointer = void;
  using iterator_category = std::forward_iterator_tag;
  closing_input<Queue> at{nullptr};
  std::uint64_t operator*() const { return *at; }
  closing_forward_input& operator++() {
    ++at;
    return *this;
  }
  closing_forward_input operator++(int) {
    closing_forward_input before = *this;
    ++at;
    return before;
  }
  bool operator==(const closing_forward_input& other) const { return at.value == other.at.value; }
};

template <class Queue, class Input>
void expect_to_be_drained_when_closed_by_a_bulk_push_that_throws() {
  static_assert(std::forward_iterator<closing_forward_input<Queue>>);
  for (const std::uint64_t start : start_ranks) {
    Queue q(16, queue_options{.first_rank = start});
    EXPECT_THROW(q.push_n(Input{&q}, 10), refusal);
    EXPECT_EQ(q.emplace(std::uint64_t{11}), queue_status::closed);
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const auto got = q.try_pop();
      ASSERT_TRUE(got);
      EXPECT_EQ(got->value(), i);
    }
    EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    q.check();
  }
}
TYPED_TEST(queue_lifetime, a_queue_that_is_closed_while_a_bulk_push_throws_is_drained) {
  using queue = typename TypeParam::template of<counted>;
  expect_to_be_drained_when_closed_by_a_bulk_push_that_throws<queue, closing_input<queue>>();
  expect_to_be_drained_when_closed_by_a_bulk_push_that_throws<queue, closing_forward_input<queue>>();
}

TYPED_TEST(queue_lifetime, bulk_pop_into_an_output_that_throws_loses_at_most_the_item_in_hand) {
  typename TypeParam::template of<touchy> q(10);
  for (std::uint64_t i = 1; i <= 6; ++i)
    ASSERT_EQ(q.emplace(i, i == 3 ? touchy::when::moved : touchy::when::not_at_all), queue_status::success);
  std::vector<touchy> out(6);
  EXPECT_THROW(q.pop_n(out.begin(), 6), refusal);
  EXPECT_EQ(out[0].value(), 1U);
  EXPECT_EQ(out[1].value(), 2U);
  for (const std::uint64_t expected : {4U, 5U, 6U}) EXPECT_EQ(q.try_pop()->value(), expected);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  q.check();
}

/// An iterator of which a copy throws: that before which `left` is 0. It reads 1, 2, 3 …, and writes to `written`.
struct fragile_iterator {
  int* left;
  std::vector<std::uint64_t>* written;
  std::uint64_t value = 1;

  fragile_iterator(int& copies, std::vector<std::uint64_t>& to) : left(&copies), written(&to) {}
  fragile_iterator(const fragile_iterator& other) : left(other.left), written(other.written), value(other.value) {
    copied();
  }
  fragile_iterator& operator=(const fragile_iterator& other) {
    value = other.value;
    copied();
    return *this;
  }
  void copied() const {
    if ((*left)-- == 0) throw refusal(value);
  }

  struct place {
    std::vector<std::uint64_t>* written;
    std::uint64_t value;
    operator std::uint64_t() const noexcept { return value; }
    const place& operator=(std::uint64_t item) const noexcept {
      written->push_back(item);
      return *this;
    }
  };
  place operator*() const noexcept { return {written, value}; }
  fragile_iterator& operator++() noexcept {
    ++value;
    return *this;
  }
};

TYPED_TEST(queue_lifetime, an_input_iterator_that_cannot_be_copied_leaves_no_item_half_pushed) {
  for (int left = 0; left < 8; ++left) {
    typename TypeParam::template of<std::uint64_t> q(8);
    std::vector<std::uint64_t> nothing;
    int copies = 1000;
    const fragile_iterator numbers(copies, nothing);
    copies = left;
    try {
      EXPECT_EQ(q.push_n(numbers, 3), 3U);
    } catch (const refusal&) {
    }
    q.close();
    std::uint64_t last = 0;
    while (const auto item = q.try_pop()) EXPECT_EQ(*item, ++last);
    EXPECT_LE(last, 3U);
    EXPECT_EQ(q.try_pop().status(), queue_status::closed) << "a copy after " << left;
    q.check();
  }
}

TYPED_TEST(queue_lifetime, an_output_iterator_that_cannot_be_copied_loses_nothing) {
  for (int left = 0; left < 8; ++left) {
    typename TypeParam::template of<std::uint64_t> q(8);
    for (std::uint64_t i = 1; i <= 6; ++i) ASSERT_EQ(q.try_push(i), queue_status::success);
    std::vector<std::uint64_t> got;
    int copies = 1000;
    const fragile_iterator out(copies, got);
    copies = left;
    try {
      EXPECT_EQ(q.pop_n(out, 4), 4U);
    } catch (const refusal&) {
    }
    while (const auto item = q.try_pop()) got.push_back(*item);
    EXPECT_EQ(got, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6})) << "a copy after " << left;
    for (std::uint64_t lap = 0; lap < 20; ++lap) {  // each cell is used again
      for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(q.try_push(i), queue_status::success);
      for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(*q.try_pop(), i);
    }
    q.check();
  }
}

TYPED_TEST(queue_lifetime, results_own_their_item) {
  typename TypeParam::template of<counted> q(2);
  ASSERT_EQ(q.emplace(std::uint64_t{1}), queue_status::success);
  {
    auto item = q.pop();
    EXPECT_EQ(counted::alive(), 1);
    const counted moved = *std::move(item);
    EXPECT_EQ(moved.value(), 1U);
  }
  EXPECT_EQ(counted::alive(), 0);
}

}  // namespace
