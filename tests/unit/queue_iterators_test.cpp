// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The promises of bulk operations to iterators of a single pass. They are moved, not copied. They are advanced only
// when the next item is wanted, because advancing reads it and may wait for its writer; sleepers are woken before that.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "queue_kinds.hpp"

using namespace muster_test;
using namespace std::chrono_literals;

namespace {

template <class Kind>
class queue_iterators : public ::testing::Test {
 public:
  using queue = typename Kind::template of<std::uint64_t>;
};
TYPED_TEST_SUITE(queue_iterators, varied_kinds, kind_names);

/// 1, 2, 3 …: an iterator that can be moved and not copied.
struct only_moved {
  std::uint64_t* value;

  explicit only_moved(std::uint64_t& next) : value(&next) {}
  only_moved(only_moved&&) = default;
  only_moved& operator=(only_moved&&) = default;
  std::uint64_t operator*() const noexcept { return *value; }
  only_moved& operator++() noexcept {
    ++*value;
    return *this;
  }
};

/// Of a single pass, as it says; the library would take its category for forward.
struct says_input {
  using iterator_concept = std::input_iterator_tag;
  using value_type = std::uint64_t;
  using difference_type = std::ptrdiff_t;

  const std::uint64_t& operator*() const;
  says_input& operator++();
  says_input operator++(int);
  bool operator==(const says_input&) const;
};

template <class It>
constexpr bool again = muster::detail::is_multipass<It> && muster::detail::is_multipass<std::move_iterator<It>>;
template <class It>
constexpr bool never_again = !muster::detail::is_multipass<It> && !muster::detail::is_multipass<std::move_iterator<It>>;

// Iterators of several passes push many items together.
static_assert(again<const std::uint64_t*> && again<std::vector<std::uint64_t>::iterator>);
static_assert(never_again<std::istream_iterator<std::uint64_t>> && never_again<says_input>);
static_assert(!muster::detail::is_multipass<only_moved>);

TYPED_TEST(queue_iterators, need_not_be_copied) {
  typename TestFixture::queue q(8);
  std::uint64_t next = 1;
  EXPECT_EQ(q.push_n(only_moved(next), 3), 3U);
  EXPECT_EQ(next++, 3U);
  EXPECT_EQ(q.try_push_n(only_moved(next), 2), 2U);
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_EQ(*q.try_pop(), i);
}

TYPED_TEST(queue_iterators, keep_items_without_room) {
  typename TestFixture::queue q(3);
  std::istringstream numbers("1 2 3 4 5 6");
  EXPECT_EQ(q.try_push_n(std::istream_iterator<std::uint64_t>(numbers), 5), 3U);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(*q.try_pop(), i);
  std::uint64_t next = 0;
  numbers >> next;
  // With several producers room is known only when an item has taken it.
  EXPECT_EQ(next, TypeParam::full_may_be_early ? 5U : 4U);
}

/// Counts what it is asked for. Of a single pass, or not.
template <class Category>
struct asked {
  using iterator_category = Category;
  using value_type = std::uint64_t;
  using difference_type = std::ptrdiff_t;
  using pointer = const std::uint64_t*;
  using reference = const std::uint64_t&;

  int *looks = nullptr, *moves = nullptr;
  std::uint64_t value = 1;

  reference operator*() const noexcept {
    ++*looks;
    return value;
  }
  asked& operator++() noexcept {
    ++*moves;
    ++value;
    return *this;
  }
  asked operator++(int) noexcept {
    asked before = *this;
    ++*this;
    return before;
  }
  bool operator==(const asked&) const = default;
};

template <class Category, class Queue>
void expect_to_be_asked_for_what_is_pushed(int too_early) {
  int looks = 0, moves = 0;
  const asked<Category> from{&looks, &moves};
  Queue q(3);
  EXPECT_EQ(q.push_n(from, 3), 3U);
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(moves, 2);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(*q.try_pop(), i);
  looks = moves = 0;
  EXPECT_EQ(q.try_push_n(from, 5), 3U);
  EXPECT_EQ(looks, 3 + too_early);
  EXPECT_EQ(moves, 2 + too_early);
  q.close();
  looks = moves = 0;
  EXPECT_EQ(q.push_n(from, 3), 0U);
  EXPECT_EQ(q.try_push_n(from, 3), 0U);
  EXPECT_EQ(looks, 2 * too_early);
  EXPECT_EQ(moves, 0);
}

TYPED_TEST(queue_iterators, are_asked_for_what_is_pushed) {
  constexpr int too_early = TypeParam::full_may_be_early ? 1 : 0;
  expect_to_be_asked_for_what_is_pushed<std::input_iterator_tag, typename TestFixture::queue>(too_early);
  expect_to_be_asked_for_what_is_pushed<std::forward_iterator_tag, typename TestFixture::queue>(too_early);
}

/// Closes a queue when it becomes 2.
struct last_but_one {
  static inline std::function<void()> close;
  std::uint64_t value;

  explicit(false) last_but_one(std::uint64_t number) : value(number) {
    if (value == 2) close();
  }
};

TYPED_TEST(queue_iterators, are_not_asked_for_more_once_the_queue_is_closed) {
  typename TypeParam::template of<last_but_one> q(8);
  last_but_one::close = [&q] { q.close(); };
  std::istringstream numbers("1 2 3 4 5 6");
  EXPECT_EQ(q.push_n(std::istream_iterator<std::uint64_t>(numbers), 5), 2U);
  std::uint64_t next = 0;
  numbers >> next;
  EXPECT_EQ(next, TypeParam::full_may_be_early ? 4U : 3U);
}

/// 1, 2, 3 …, each of them once the one before has been popped.
struct answered {
  const std::atomic<std::uint64_t>* popped;
  std::uint64_t value = 1;

  std::uint64_t operator*() const noexcept { return value; }
  answered& operator++() {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (popped->load() < value) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("the item before has not been popped");
      std::this_thread::yield();
    }
    ++value;
    return *this;
  }
};

// With and without room for the next item.
TYPED_TEST(queue_iterators, may_wait_for_the_pop_of_the_item_before) {
  for (const std::size_t capacity : {1U, 8U}) {
    SCOPED_TRACE(capacity);
    typename TestFixture::queue q(capacity);
    std::atomic<std::uint64_t> popped{0};
    std::thread consumer([&] {
      for (std::uint64_t i = 1; i <= 3; ++i) {
        EXPECT_EQ(*q.pop(), i);
        popped.store(i);
      }
    });
    std::this_thread::sleep_for(20ms);  // it sleeps, where the policy lets it
    std::size_t pushed = 0;
    EXPECT_NO_THROW(pushed = q.push_n(answered{&popped}, 3));
    EXPECT_EQ(pushed, 3U);
    for (std::uint64_t i = popped.load() + 1; pushed != 3 && i <= 3; ++i) q.push(i);
    consumer.join();
  }
}

/// 1, 2, 3 …, each but the first only after `on` is set.
struct held_up {
  const std::atomic<bool>* on;
  std::atomic<bool>* waits;
  std::uint64_t value = 1;

  std::uint64_t operator*() const noexcept { return value; }
  held_up& operator++() noexcept {
    waits->store(true);
    while (!on->load()) std::this_thread::yield();
    ++value;
    return *this;
  }
};

// No operation waits for an item that the iterator has not delivered.
TYPED_TEST(queue_iterators, may_wait_while_the_queue_is_closed_and_drained) {
  typename TestFixture::queue q(8);
  std::atomic<bool> on{false}, waits{false};
  std::thread producer([&] { EXPECT_EQ(q.push_n(held_up{&on, &waits}, 3), 1U); });
  while (!waits.load()) std::this_thread::yield();
  q.close();
  EXPECT_EQ(*q.pop(), 1U);
  EXPECT_EQ(q.try_pop().status(), muster::queue_status::closed);
  EXPECT_EQ(q.pop().status(), muster::queue_status::closed);
  on.store(true);
  producer.join();
}

/// Counts its moves, each of which might throw.
struct moved_about {
  int* moves;
  std::vector<std::uint64_t>* to;

  moved_about(int& count, std::vector<std::uint64_t>& out) : moves(&count), to(&out) {}
  moved_about(const moved_about& other) noexcept(false) : moves(other.moves), to(other.to) { ++*moves; }
  moved_about& operator=(const moved_about& other) noexcept(false) {
    to = other.to;
    ++*moves;
    return *this;
  }
  moved_about& operator*() noexcept { return *this; }
  moved_about& operator++() noexcept { return *this; }
  moved_about& operator=(std::uint64_t item) {
    to->push_back(item);
    return *this;
  }
};

// A consumer that has been woken for an item must not leave without one.
TYPED_TEST(queue_iterators, cannot_throw_between_a_wait_and_the_item) {
  typename TestFixture::queue q(4);
  std::vector<std::uint64_t> out;
  int at_once = 0, after_waiting = 0;
  ASSERT_EQ(q.push(1), muster::queue_status::success);
  EXPECT_EQ(q.pop_n(moved_about(at_once, out), 1), 1U);
  std::thread producer([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(q.push(2), muster::queue_status::success);
  });
  EXPECT_EQ(q.pop_n(moved_about(after_waiting, out), 1), 1U);
  producer.join();
  EXPECT_EQ(out, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(after_waiting, at_once);
}

// With several lanes, and a consumer whose own lane is another one: it looks behind the marks, which a run of items
// makes at its end.
TEST(lanes_iterators, may_wait_for_the_pop_of_an_item_before) {
  muster::lanes<std::uint64_t, muster::layout::packed, muster::wait::spin> q(4, {.producers = 3});
  std::atomic<std::uint64_t> popped{0};
  auto first = q.producer(), second = q.producer();
  ASSERT_EQ(second.push(100), muster::queue_status::success);
  auto consumer = q.consumer();
  ASSERT_EQ(*consumer.pop(), 100U);  // and stays there
  std::thread other([&] {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(*consumer.pop(), i);
      popped.store(i);
    }
  });
  std::this_thread::sleep_for(20ms);
  std::size_t pushed = 0;
  EXPECT_NO_THROW(pushed = first.push_n(answered{&popped}, 3));
  EXPECT_EQ(pushed, 3U);
  for (std::uint64_t i = popped.load() + 1; pushed != 3 && i <= 3; ++i) first.push(i);
  other.join();
}

}  // namespace
