// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads that wait: for items, for room, for the end; and what ends their waiting. A lost wake-up hangs the test.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

#include "queue_kinds.hpp"
#include "scale.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;
using namespace std::chrono_literals;

namespace {

template <class Kind>
class queue_waiting : public ::testing::Test {
 public:
  using queue = typename Kind::template of<std::uint64_t>;
  static constexpr std::size_t consumers = Kind::consumers > 1 ? 32 : 1;
  static constexpr std::size_t producers = Kind::producers > 1 ? 8 : 1;
};
TYPED_TEST_SUITE(queue_waiting, all_kinds, kind_names);

/// Long enough for the threads of a test to have gone to sleep in nearly every run; no result depends on it.
void let_them_sleep() { std::this_thread::sleep_for(2ms); }

TYPED_TEST(queue_waiting, every_blocked_consumer_returns_when_the_queue_is_closed) {
  for (std::size_t round = 0; round < scaled(10); ++round) {
    typename TestFixture::queue q(4);
    std::atomic<std::size_t> items{0};
    std::atomic<std::size_t> ends{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < TestFixture::consumers; ++i) {
      threads.emplace_back([&, i] {
        for (;;) {
          const auto item = i % 3 == 0 ? q.pop() : i % 3 == 1 ? q.pop_for(1h) : q.pop(std::stop_token{});
          if (!item) {
            EXPECT_EQ(item.status(), queue_status::closed);
            ends.fetch_add(1);
            return;
          }
          items.fetch_add(1);
        }
      });
    }
    if (round % 2 == 0) let_them_sleep();
    for (std::uint64_t i = 0; i < round; ++i) ASSERT_EQ(q.push(i), queue_status::success);
    q.close();
    threads.clear();
    EXPECT_EQ(ends.load(), TestFixture::consumers);
    EXPECT_EQ(items.load(), round) << "items pushed before close() must come out";
  }
}

TYPED_TEST(queue_waiting, every_blocked_producer_returns_when_the_queue_is_closed) {
  for (std::size_t round = 0; round < scaled(10); ++round) {
    typename TestFixture::queue q(2);
    std::atomic<std::uint64_t> pushed{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < TestFixture::producers; ++i) {
      threads.emplace_back([&, i] {
        for (;;) {
          const queue_status status = i % 3 == 0   ? q.push(1)
                                      : i % 3 == 1 ? q.push_for(1, 1h)
                                                   : q.push(1, std::stop_token{});
          if (status == queue_status::closed) return;
          ASSERT_EQ(status, queue_status::success);
          pushed.fetch_add(1);
        }
      });
    }
    if (round % 2 == 0) let_them_sleep();
    std::uint64_t popped = 0;
    for (std::size_t i = 0; i < round; ++i) popped += q.pop().has_value();
    q.close();
    threads.clear();
    while (q.pop()) ++popped;
    EXPECT_EQ(popped, pushed.load()) << "what push reported as pushed must come out";
  }
}

TYPED_TEST(queue_waiting, a_waiting_consumer_gets_the_item) {
  for (std::size_t round = 0; round < scaled(200); ++round) {
    typename TestFixture::queue q(1, queue_options{.first_rank = round * 1000});
    std::jthread consumer([&] {
      EXPECT_EQ(*q.pop(), 1U);
      EXPECT_EQ(*q.pop_for(1h), 2U);
      EXPECT_EQ(*q.pop(std::stop_token{}), 3U);
      std::uint64_t out = 0;
      EXPECT_EQ(q.pop_n(&out, 1), 1U);
      EXPECT_EQ(out, 4U);
    });
    for (std::uint64_t i = 1; i <= 4; ++i) {
      if (round % 50 == 0) let_them_sleep();
      ASSERT_EQ(q.push(i), queue_status::success);
    }
  }
}

TYPED_TEST(queue_waiting, a_waiting_producer_gets_the_room) {
  for (std::size_t round = 0; round < scaled(200); ++round) {
    typename TestFixture::queue q(1);
    std::jthread producer([&] {
      EXPECT_EQ(q.push(1), queue_status::success);
      EXPECT_EQ(q.push(2), queue_status::success);
      EXPECT_EQ(q.push_for(3, 1h), queue_status::success);
      EXPECT_EQ(q.push(4, std::stop_token{}), queue_status::success);
      const std::uint64_t more[2] = {5, 6};
      EXPECT_EQ(q.push_n(more, 2), 2U);
    });
    for (std::uint64_t i = 1; i <= 6; ++i) {
      if (round % 50 == 0) let_them_sleep();
      ASSERT_EQ(*q.pop(), i);
    }
  }
}

TYPED_TEST(queue_waiting, time_ends_the_waiting_and_nothing_is_lost) {
  typename TestFixture::queue q(1);
  EXPECT_EQ(q.pop_for(0s).status(), queue_status::empty);
  EXPECT_EQ(q.pop_for(-1h).status(), queue_status::empty);
  EXPECT_EQ(q.pop_for(3ms).status(), queue_status::empty);
  EXPECT_EQ(q.pop_until(std::chrono::system_clock::now() + 3ms).status(), queue_status::empty);
  EXPECT_EQ(q.pop_until(std::chrono::steady_clock::now() - 1h).status(), queue_status::empty);
  ASSERT_EQ(q.push(1), queue_status::success);
  EXPECT_EQ(q.push_for(2, 0s), queue_status::full);
  EXPECT_EQ(q.push_for(2, 3ms), queue_status::full);
  EXPECT_EQ(q.push_until(2, std::chrono::system_clock::now() + 3ms), queue_status::full);
  EXPECT_EQ(*q.pop_for(std::chrono::duration<double>(1e300)), 1U);
  EXPECT_EQ(q.push_for(3, std::chrono::hours::max()), queue_status::success);
  EXPECT_EQ(*q.pop_until(std::chrono::steady_clock::time_point::max()), 3U);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  q.check();
}

TYPED_TEST(queue_waiting, every_time_can_be_asked_for) {
  using clock = std::chrono::system_clock;
  using hours = std::chrono::duration<long, std::ratio<3600>>;
  typename TestFixture::queue q(1);
  EXPECT_EQ(q.pop_until(clock::time_point::min()).status(), queue_status::empty);
  EXPECT_EQ(q.pop_until(std::chrono::steady_clock::time_point::min()).status(), queue_status::empty);
  EXPECT_EQ(q.pop_for(-1h).status(), queue_status::empty);
  EXPECT_EQ(q.pop_for(std::chrono::nanoseconds::min()).status(), queue_status::empty);
  EXPECT_EQ(q.pop_for(std::chrono::duration<double>(std::nan(""))).status(), queue_status::empty);
  std::thread producer([&] {
    let_them_sleep();
    for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(q.push_for(i, std::chrono::hours::max()), queue_status::success);
  });
  EXPECT_EQ(*q.pop_until(clock::time_point::max()), 1U);
  EXPECT_EQ(*q.pop_until(std::chrono::time_point<clock, hours>::max()), 2U);
  EXPECT_EQ(*q.pop_for(std::chrono::duration<double>(1e300)), 3U);
  producer.join();
  EXPECT_EQ(q.push_until(5, clock::time_point::min()), queue_status::full);
  EXPECT_EQ(*q.pop_for(std::chrono::nanoseconds::max()), 4U);
}

TYPED_TEST(queue_waiting, a_stop_request_ends_the_waiting) {
  for (std::size_t round = 0; round < scaled(100); ++round) {
    typename TestFixture::queue q(1);
    {
      std::jthread consumer([&](std::stop_token stop) { EXPECT_EQ(q.pop(stop).status(), queue_status::empty); });
      if (round % 20 == 0) let_them_sleep();
    }  // requests the stop and joins
    ASSERT_EQ(q.push(1), queue_status::success);
    {
      std::jthread producer([&](std::stop_token stop) { EXPECT_EQ(q.push(2, stop), queue_status::full); });
      if (round % 20 == 0) let_them_sleep();
    }
    EXPECT_EQ(*q.pop(), 1U);
    EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  }
}

// Each consumer gives up after a moment and comes back, so that every kind of wait ends by time, by stop, and by item.
TYPED_TEST(queue_waiting, waits_that_are_given_up_lose_no_item_and_no_wake_up) {
  typename TestFixture::queue q(2);
  const std::uint64_t count = scaled(3000);
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::jthread> takers;
  const std::size_t some = std::min<std::size_t>(TestFixture::consumers, 4);
  for (std::size_t i = 0; i < some; ++i) {
    takers.emplace_back([&, i] {
      for (std::uint64_t turn = i;; ++turn) {
        const auto item = turn % 2 == 0 ? q.pop_for(50us) : q.pop();
        if (item) sum.fetch_add(*item);
        if (item.status() == queue_status::closed) return;
      }
    });
  }
  for (std::uint64_t i = 1; i <= count; ++i) {
    if (i % 500 == 0) let_them_sleep();
    if (i % 2 == 0) {
      ASSERT_EQ(q.push(i), queue_status::success);
    } else {
      while (q.push_for(i, 50us) != queue_status::success) {
      }
    }
  }
  q.close();
  takers.clear();
  EXPECT_EQ(sum.load(), count * (count + 1) / 2);
}

}  // namespace
