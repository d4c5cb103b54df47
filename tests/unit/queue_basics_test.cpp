// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The promises of every queue to one thread: order, exact capacity, statuses, closing, bulk, and the wrap of ranks.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "queue_kinds.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;

namespace {

template <class Kind>
class queue_basics : public ::testing::Test {
 public:
  using queue = typename Kind::template of<std::uint64_t>;
};
TYPED_TEST_SUITE(queue_basics, all_kinds, kind_names);

TYPED_TEST(queue_basics, holds_exactly_its_capacity_at_every_start) {
  for (const std::uint64_t start : start_ranks) {
    for (const std::size_t capacity : {1U, 2U, 3U, 5U, 16U, 64U, 1000U}) {
      typename TestFixture::queue q(capacity, queue_options{.first_rank = start});
      EXPECT_EQ(q.capacity(), capacity);
      std::uint64_t pushed = 0;
      std::uint64_t popped = 0;
      for (int lap = 0; lap < 5; ++lap) {
        for (std::size_t i = 0; i < capacity; ++i) ASSERT_EQ(q.try_push(++pushed), queue_status::success);
        ASSERT_EQ(q.try_push(0), queue_status::full) << "capacity " << capacity << ", start " << start;
        ASSERT_EQ(q.size_approx(), capacity);
        q.check();
        for (std::size_t i = 0; i < capacity; ++i) {
          const auto item = q.try_pop();
          ASSERT_TRUE(item);
          ASSERT_EQ(*item, ++popped);
        }
        ASSERT_EQ(q.try_pop().status(), queue_status::empty);
        ASSERT_EQ(q.size_approx(), 0U);
        q.check();
      }
    }
  }
}

TYPED_TEST(queue_basics, pop_and_try_pop_mix) {
  typename TestFixture::queue q(4);
  for (std::uint64_t i = 1; i <= 40; i += 4) {
    for (std::uint64_t k = 0; k < 4; ++k) ASSERT_EQ(q.push(i + k), queue_status::success);
    EXPECT_EQ(*q.pop(), i);
    EXPECT_EQ(*q.try_pop(), i + 1);
    EXPECT_EQ(*q.pop_for(std::chrono::hours(1)), i + 2);
    EXPECT_EQ(*q.pop(std::stop_token{}), i + 3);
  }
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
}

TYPED_TEST(queue_basics, close_refuses_pushes_and_drains) {
  for (const std::uint64_t start : start_ranks) {
    typename TestFixture::queue q(3, queue_options{.first_rank = start});
    ASSERT_EQ(q.push(1), queue_status::success);
    ASSERT_EQ(q.push(2), queue_status::success);
    EXPECT_FALSE(q.is_closed());
    q.close();
    q.close();
    EXPECT_TRUE(q.is_closed());
    EXPECT_EQ(q.push(3), queue_status::closed);
    EXPECT_EQ(q.try_push(3), queue_status::closed);
    EXPECT_EQ(q.push_for(3, std::chrono::hours(1)), queue_status::closed);
    const std::vector<std::uint64_t> more{3, 4};
    EXPECT_EQ(q.push_n(more.begin(), more.size()), 0U);
    EXPECT_EQ(q.try_push_n(more.begin(), more.size()), 0U);
    EXPECT_EQ(*q.pop(), 1U);
    EXPECT_EQ(*q.try_pop(), 2U);
    EXPECT_EQ(q.pop().status(), queue_status::closed);
    EXPECT_EQ(q.try_pop().status(), queue_status::closed);
    EXPECT_EQ(q.pop_for(std::chrono::hours(1)).status(), queue_status::closed);
    std::uint64_t out[2] = {};
    EXPECT_EQ(q.pop_n(out, 2), 0U);
    EXPECT_EQ(q.try_pop_n(out, 2), 0U);
    EXPECT_EQ(q.pop().status(), queue_status::closed);
    q.check();
  }
}

TYPED_TEST(queue_basics, closed_is_reported_even_when_full) {
  typename TestFixture::queue q(1);
  ASSERT_EQ(q.push(1), queue_status::success);
  q.close();
  EXPECT_EQ(q.try_push(2), queue_status::closed);
  EXPECT_EQ(q.push(2), queue_status::closed);
  EXPECT_EQ(*q.pop(), 1U);
}

TYPED_TEST(queue_basics, bulk_keeps_the_order_and_the_capacity) {
  for (const std::uint64_t start : start_ranks) {
    typename TestFixture::queue q(10, queue_options{.first_rank = start});
    std::vector<std::uint64_t> in(25);
    std::iota(in.begin(), in.end(), 1);
    std::size_t at = q.try_push_n(in.begin(), in.size());
    EXPECT_EQ(at, 10U);
    std::vector<std::uint64_t> out(25);
    std::size_t got = 0;
    while (got < in.size()) {
      const std::size_t some = q.pop_n(out.begin() + static_cast<std::ptrdiff_t>(got), 4);
      ASSERT_GE(some, 1U);
      ASSERT_LE(some, 4U);
      got += some;
      at += q.try_push_n(in.begin() + static_cast<std::ptrdiff_t>(at), in.size() - at);
    }
    EXPECT_EQ(out, in);
    EXPECT_EQ(q.try_pop_n(out.begin(), 4), 0U);
    q.check();
  }
}

// Pops of one item, where some were pushed one by one and some in bulk, and few or many are in the queue.
TYPED_TEST(queue_basics, pops_one_by_one_what_was_pushed_in_any_way) {
  for (const std::uint64_t start : start_ranks)
    for (std::size_t kept = 0; kept <= 5; ++kept) {
      typename TestFixture::queue q(10, queue_options{.first_rank = start});
      std::uint64_t pushed = 0, popped = 0;
      const auto pop_all_but = [&](std::size_t left) {
        while (pushed - popped > left) {
          const auto item = popped % 3 == 0 ? q.try_pop() : q.pop();
          ASSERT_TRUE(item);
          EXPECT_EQ(*item, ++popped);
        }
      };
      for (std::size_t run = 1; run <= 24; ++run) {
        std::vector<std::uint64_t> items(run % 5);
        std::iota(items.begin(), items.end(), pushed + 1);
        EXPECT_EQ(q.push_n(items.begin(), items.size()), items.size());
        pushed += items.size();
        pop_all_but(kept);
        EXPECT_EQ(q.push(pushed + 1), queue_status::success);
        ++pushed;
        pop_all_but(kept);
      }
      pop_all_but(0);
      EXPECT_FALSE(q.try_pop());
      q.check();
    }
}

TYPED_TEST(queue_basics, bulk_push_reads_no_more_than_it_was_asked_to) {
  typename TestFixture::queue q(8);
  std::istringstream numbers("1 2 3 4 5 6 7");
  EXPECT_EQ(q.push_n(std::istream_iterator<std::uint64_t>(numbers), 3), 3U);
  EXPECT_EQ(q.try_push_n(std::istream_iterator<std::uint64_t>(numbers), 3), 3U);
  for (std::uint64_t i = 1; i <= 6; ++i) EXPECT_EQ(*q.try_pop(), i);
  std::uint64_t next = 0;
  numbers >> next;
  EXPECT_EQ(next, 7U);
}

TYPED_TEST(queue_basics, the_size_of_a_closed_queue_counts_the_items_left) {
  typename TestFixture::queue q(8);
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(q.push(i), queue_status::success);
  q.close();
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(q.push(i), queue_status::closed);
  EXPECT_EQ(q.size_approx(), 3U);
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(*q.pop(), i);
  EXPECT_EQ(q.size_approx(), 0U);
  q.check();
}

TYPED_TEST(queue_basics, bulk_of_nothing_does_nothing) {
  typename TestFixture::queue q(2);
  std::uint64_t none = 7;
  EXPECT_EQ(q.push_n(&none, 0), 0U);
  EXPECT_EQ(q.try_push_n(&none, 0), 0U);
  EXPECT_EQ(q.pop_n(&none, 0), 0U);
  EXPECT_EQ(q.try_pop_n(&none, 0), 0U);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
}

TYPED_TEST(queue_basics, try_pop_n_takes_everything_there_is) {
  typename TestFixture::queue q(100);
  for (std::uint64_t i = 0; i < 77; ++i) ASSERT_EQ(q.push(i), queue_status::success);
  std::vector<std::uint64_t> out;
  EXPECT_EQ(q.try_pop_n(std::back_inserter(out), 50), 50U);
  EXPECT_EQ(q.try_pop_n(std::back_inserter(out), 50), 27U);
  for (std::uint64_t i = 0; i < 77; ++i) EXPECT_EQ(out[i], i);
}

TYPED_TEST(queue_basics, takes_items_that_can_only_be_moved) {
  using owned = std::unique_ptr<std::uint64_t>;
  typename TypeParam::template of<owned> q(2);
  ASSERT_EQ(q.push(std::make_unique<std::uint64_t>(1)), queue_status::success);
  ASSERT_EQ(q.emplace(new std::uint64_t(2)), queue_status::success);
  owned third = std::make_unique<std::uint64_t>(3);
  EXPECT_EQ(q.try_push(std::move(third)), queue_status::full);
  EXPECT_EQ(q.push_for(std::move(third), std::chrono::milliseconds(1)), queue_status::full);
  EXPECT_EQ(q.push_until(std::move(third), std::chrono::system_clock::now()), queue_status::full);
  ASSERT_TRUE(third) << "an item that was not taken must be untouched";
  EXPECT_EQ(**q.pop(), 1U);
  owned second = *q.pop();
  EXPECT_EQ(*second, 2U);
  ASSERT_EQ(q.try_push(std::move(third)), queue_status::success);
  EXPECT_FALSE(third);
  std::vector<owned> out(1);
  EXPECT_EQ(q.pop_n(out.begin(), 1), 1U);
  EXPECT_EQ(*out[0], 3U);
}

TYPED_TEST(queue_basics, large_and_overaligned_items_are_stored_correctly) {
  struct alignas(64) wide {
    std::uint64_t words[9];
  };
  typename TypeParam::template of<wide> q(3);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(q.push(wide{{i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8}}), queue_status::success);
    const auto item = q.pop();
    ASSERT_TRUE(item);
    for (std::uint64_t k = 0; k < 9; ++k) ASSERT_EQ(item->words[k], i + k);
  }
}

TYPED_TEST(queue_basics, items_of_many_lines_come_whole_from_another_thread) {
  struct page {
    std::uint64_t words[32];
  };
  constexpr std::uint64_t items = 2000;
  typename TypeParam::template of<page> q(7);
  std::thread producer([&q] {
    for (std::uint64_t i = 0; i < items; ++i) {
      page p{};
      for (std::uint64_t k = 0; k < std::size(p.words); ++k) p.words[k] = i * std::size(p.words) + k;
      EXPECT_EQ(q.push(p), queue_status::success);
    }
    q.close();
  });
  std::uint64_t next = 0;
  std::vector<page> some(3);
  while (const std::size_t count = q.pop_n(some.begin(), next % 2 + 2))
    for (std::size_t i = 0; i < count; ++i)
      for (const std::uint64_t word : some[i].words) ASSERT_EQ(word, next++);
  EXPECT_EQ(next, items * std::size(page{}.words));
  producer.join();
}

// A line for each item does not fit, though the items alone would.
TEST(queue_memory, is_that_of_the_layout) {
  using in_lines = muster::layout::aligned;
  constexpr std::size_t most = (std::size_t{1} << 57U) + 1;
  EXPECT_THROW((muster::spsc_queue<char, in_lines>(most)), std::invalid_argument);
  EXPECT_THROW((muster::spmc_queue<char, in_lines>(most)), std::invalid_argument);
  EXPECT_THROW((muster::mpmc_queue<char, in_lines>(most)), std::invalid_argument);
  EXPECT_THROW((muster::lanes<char, in_lines>(most)), std::invalid_argument);
}

TYPED_TEST(queue_basics, refuses_impossible_requests_and_says_what_to_do) {
  const auto message = [](std::size_t capacity, queue_options options) -> std::string {
    try {
      typename TestFixture::queue q(capacity, options);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const auto says = [&](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(message(0, {}), "capacity is 0; it must be at least 1"));
  EXPECT_TRUE(says(message(4, {.threads = 0}), "threads"));
  EXPECT_TRUE(says(message(std::numeric_limits<std::size_t>::max(), {}), "the sum must be at most"));
  EXPECT_TRUE(says(message(4, {.threads = std::numeric_limits<std::size_t>::max()}), "the sum must be at most"));
  EXPECT_TRUE(says(message(100, {.threads = 8, .cells = 64}), "must be between 128 and"));
  EXPECT_TRUE(says(message(4, {.threads = 8, .cells = 100}), "power of two, such as 128"));
  EXPECT_EQ(message(100, {.threads = 8, .cells = 128}), "");
}

TEST(queue_options_test, too_few_cells_for_the_threads_declared_are_refused) {
  EXPECT_THROW(muster::spmc_queue<int>(4, {.threads = 64, .cells = 32}), std::invalid_argument);
  EXPECT_THROW(muster::mpmc_queue<int>(4, {.threads = 64, .cells = 32}), std::invalid_argument);
  EXPECT_THROW(muster::spmc_queue<int>(4, {.threads = 32, .cells = 32}), std::invalid_argument);
  EXPECT_NO_THROW(muster::spmc_queue<int>(4, {.threads = 28, .cells = 32}));
}

TEST(queue_status_test, has_a_name_for_each) {
  EXPECT_STREQ(to_string(queue_status::success), "success");
  EXPECT_STREQ(to_string(queue_status::empty), "empty");
  EXPECT_STREQ(to_string(queue_status::full), "full");
  EXPECT_STREQ(to_string(queue_status::closed), "closed");
  EXPECT_STREQ(to_string(queue_status::busy), "busy");
}

TEST(queue_result_test, behaves_like_expected) {
  muster::queue_result<std::string> none(queue_status::empty);
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(none.error(), queue_status::empty);
  EXPECT_EQ(std::move(none).value_or("other"), "other");
  try {
    none.value();
    FAIL() << "value() without a value must throw";
  } catch (const muster::bad_queue_access& e) {
    EXPECT_EQ(e.status(), queue_status::empty);
    EXPECT_NE(std::string(e.what()).find("'empty'"), std::string::npos);
  }
  muster::queue_result<std::string> one(std::in_place, 3, 'x');
  EXPECT_TRUE(one);
  EXPECT_EQ(one.status(), queue_status::success);
  EXPECT_EQ(one->size(), 3U);
  EXPECT_EQ(one.value(), "xxx");
  EXPECT_EQ(*std::move(one), "xxx");
}

}  // namespace
