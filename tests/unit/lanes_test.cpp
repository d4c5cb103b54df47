// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The promises of lanes beyond those of a single queue (`lane` in queue_kinds.hpp): producers that join and leave,
// order and capacity of each lane, consumers that reach every lane, and one end for all.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "queue_kinds.hpp"
#include "scale.hpp"

using muster::lanes;
using muster::queue_status;
using namespace muster_test;
using namespace std::chrono_literals;

namespace {

using numbers = lanes<std::uint64_t>;

/// Which session pushed it, and the how-manieth of that session it is.
constexpr std::uint64_t made(std::uint64_t session, std::uint64_t n) { return session << 32 | n; }

TEST(lanes_test, each_producer_has_a_lane_of_exactly_the_capacity) {
  for (const std::uint64_t start : start_ranks) {
    numbers q(3, {.producers = 2, .first_rank = start});
    EXPECT_EQ(q.capacity(), 3U);
    EXPECT_EQ(q.producers(), 2U);
    auto one = q.producer();
    auto other = q.producer();
    EXPECT_NE(one.lane(), other.lane());
    for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(one.try_push(made(1, i)), queue_status::success);
    EXPECT_EQ(one.try_push(0), queue_status::full);
    for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(other.push(made(2, i)), queue_status::success);
    EXPECT_EQ(other.push_for(0, 1ms), queue_status::full);
    EXPECT_EQ(q.size_approx(), 6U);
    q.check();
    std::uint64_t next[3] = {0, 1, 1};
    for (int i = 0; i < 6; ++i) {
      const std::uint64_t item = *q.try_pop();
      EXPECT_EQ(item, made(item >> 32, next[item >> 32]++));
    }
    EXPECT_EQ(q.try_pop().status(), queue_status::empty);
    EXPECT_EQ(q.size_approx(), 0U);
    q.check();
  }
}

TEST(lanes_test, without_a_producer_there_is_nothing_and_then_the_end) {
  numbers q(4);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
  EXPECT_EQ(q.consumer().pop_for(1ms).status(), queue_status::empty);
  q.close();
  EXPECT_EQ(q.pop().status(), queue_status::closed);
  auto late = q.producer();
  EXPECT_EQ(late.push(1), queue_status::closed);
  EXPECT_EQ(q.try_pop().status(), queue_status::closed);
  q.check();
}

TEST(lanes_test, all_taken_is_an_error_that_says_what_to_do) {
  numbers q(4, {.producers = 2});
  auto one = q.producer();
  {
    auto two = q.try_producer();
    ASSERT_TRUE(two);
    EXPECT_FALSE(q.try_producer());
    try {
      q.producer();
      FAIL() << "a third producer of two must be refused";
    } catch (const std::length_error& e) {
      EXPECT_NE(std::string(e.what()).find("more producers"), std::string::npos);
    }
  }
  EXPECT_TRUE(q.try_producer()) << "a lane that was left can be taken again";
}

TEST(lanes_test, refuses_impossible_requests_in_its_own_name) {
  const auto message = [](std::size_t capacity, muster::lanes_options options) -> std::string {
    try {
      numbers q(capacity, options);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message(0, {}).find("lanes: "), 0U);
  EXPECT_NE(message(4, {.producers = 0}).find("producers is 0; it must be at least 1"), std::string::npos);
  EXPECT_NE(message(4, {.threads = 0}).find("threads"), std::string::npos);
  EXPECT_NE(message(4, {.producers = ~std::size_t{0}}).find("it must be at most 16777216"), std::string::npos);
  EXPECT_NE(message(100, {.threads = 8, .cells = 64}).find("must be between 128 and"), std::string::npos);
}

TEST(lanes_test, a_handle_moves_with_its_lane) {
  numbers q(4, {.producers = 1});
  numbers other(4, {.producers = 1});
  std::optional<numbers::producer_handle> kept;  // after both queues, so that it ends before them
  {
    auto first = q.producer();
    ASSERT_EQ(first.push(1), queue_status::success);
    kept.emplace(std::move(first));
  }
  EXPECT_FALSE(q.try_producer()) << "the lane is still taken";
  ASSERT_EQ(kept->push(2), queue_status::success);
  *kept = other.producer();
  EXPECT_TRUE(q.try_producer()) << "assignment leaves the old lane";
  EXPECT_FALSE(other.try_producer());
  EXPECT_EQ(*q.pop(), 1U);
  EXPECT_EQ(*q.pop(), 2U);
}

TEST(lanes_test, items_left_in_a_lane_come_before_those_of_its_next_producer) {
  numbers q(8, {.producers = 1});
  for (std::uint64_t session = 1; session <= 4; ++session) {
    auto p = q.producer();
    ASSERT_EQ(p.push(made(session, 1)), queue_status::success);
    ASSERT_EQ(p.push(made(session, 2)), queue_status::success);
  }
  for (std::uint64_t session = 1; session <= 4; ++session) {
    EXPECT_EQ(*q.pop(), made(session, 1));
    EXPECT_EQ(*q.pop(), made(session, 2));
  }
}

TEST(lanes_test, a_lane_is_not_starved_by_one_that_is_never_empty) {
  numbers q(64, {.producers = 3});
  auto busy = q.producer();
  auto idle = q.producer();
  auto rare = q.producer();
  auto c = q.consumer();
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(busy.push(made(1, i)), queue_status::success);
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(rare.push(made(2, 0)), queue_status::success);
    std::size_t pops = 1;
    for (; *c.pop() >> 32 != 2; ++pops) ASSERT_EQ(busy.push(made(1, pops)), queue_status::success);
    EXPECT_LE(pops, 3 * 256U);
  }
}

/// A member that is not for users, for the next test: explicit instantiations may name it.
template <auto Member>
struct marks_of {
  friend auto& get_marks(numbers& q) { return q.*Member; }
};
auto& get_marks(numbers& q);
template struct marks_of<&numbers::marked_>;

// A consumer that is about to sleep clears the marks of empty lanes, and then checks the lanes again. If it stops in
// between, and a push came just before it cleared the mark, a lane has an item and no mark.
TEST(lanes_test, a_lane_without_its_mark_is_found_by_consumers_that_always_have_items) {
  static constexpr std::uint64_t lanes_in_all = 5, quota = 256;
  for (std::uint64_t hidden = 0; hidden != lanes_in_all; ++hidden)
    for (std::uint64_t full = 0; full != lanes_in_all; ++full) {
      if (full == hidden) continue;
      numbers q(8, {.producers = lanes_in_all});
      std::vector<numbers::producer_handle> in;
      for (std::uint64_t i = 0; i != lanes_in_all; ++i) in.push_back(q.producer());
      ASSERT_EQ(in[hidden].push(1), queue_status::success);
      get_marks(q).clear_empty([&](std::size_t lane) { return lane == hidden; });
      std::uint64_t pops = 0;
      do {
        ASSERT_LT(pops++, lanes_in_all * quota) << "lane " << hidden << " is not found beside lane " << full;
        ASSERT_EQ(in[full].push(2), queue_status::success);
      } while (*q.try_pop() != 1);
    }
}

// And the others have their turns as without it: the one whose turn comes last is not passed over.
TEST(lanes_test, a_lane_without_its_mark_costs_the_others_one_pop) {
  static constexpr std::uint64_t lanes_in_all = 10, quota = 256, last = 5, hidden = 6, pops_before = 8 * quota;
  numbers q(8, {.producers = lanes_in_all});
  std::vector<numbers::producer_handle> in;
  for (std::uint64_t i = 0; i != lanes_in_all; ++i) in.push_back(q.producer());
  auto out = q.consumer();
  for (int i = 0; i != 2; ++i) ASSERT_EQ(in[last].push(last), queue_status::success);
  for (std::uint64_t i = 0; i != pops_before; ++i) {
    ASSERT_EQ(*out.try_pop(), last);
    ASSERT_EQ(in[last].push(last), queue_status::success);
  }
  for (std::uint64_t i = 0; i != lanes_in_all; ++i)
    if (i != last) {
      ASSERT_EQ(in[i].push(i), queue_status::success);
    }
  get_marks(q).clear_empty([](std::size_t lane) { return lane == hidden; });
  std::vector<std::uint64_t> popped(lanes_in_all);
  for (std::uint64_t lane = *out.try_pop(); lane != last; lane = *out.try_pop()) {
    ASSERT_LE(++popped[lane], quota + 1) << "lane " << lane;
    if (lane != hidden) {
      ASSERT_EQ(in[lane].push(lane), queue_status::success);
    }
  }
  EXPECT_EQ(popped[hidden], 1U);
}

TEST(lanes_test, more_lanes_than_a_word_has_bits) {
  numbers q(2, {.producers = 150, .threads = 4});
  std::vector<numbers::producer_handle> all;
  for (int i = 0; i < 150; ++i) all.push_back(q.producer());
  for (std::size_t i = 150; i-- > 0;) {
    ASSERT_EQ(all[i].push(i), queue_status::success);
    EXPECT_EQ(*q.pop(), i);
  }
  for (std::size_t i = 0; i < 150; i += 3) ASSERT_EQ(all[i].push(i), queue_status::success);
  q.check();
  std::vector<bool> seen(150);
  for (std::size_t i = 0; i < 150; i += 3) seen[*q.try_pop()] = true;
  for (std::size_t i = 0; i < 150; ++i) EXPECT_EQ(seen[i], i % 3 == 0);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty);
}

TEST(lanes_test, a_bulk_pop_takes_from_one_lane_and_a_bulk_try_pop_from_all) {
  numbers q(8, {.producers = 2});
  auto one = q.producer();
  auto other = q.producer();
  const std::uint64_t items[3] = {made(1, 1), made(1, 2), made(1, 3)};
  ASSERT_EQ(one.push_n(items, 3), 3U);
  ASSERT_EQ(other.push(made(2, 1)), queue_status::success);
  std::uint64_t out[8] = {};
  auto c = q.consumer();
  EXPECT_EQ(c.try_pop_n(out, 8), 4U);
  ASSERT_EQ(one.try_push_n(items, 3), 3U);
  EXPECT_EQ(c.pop_n(out, 2), 2U);
  EXPECT_EQ(out[0], made(1, 1));
  EXPECT_EQ(out[1], made(1, 2));
  EXPECT_EQ(q.pop_n(out, 8), 1U);
  EXPECT_EQ(out[0], made(1, 3));
}

// Producers come and go while consumers, with handles and without, wait and are woken.
TEST(lanes_test, sessions_of_producers_lose_nothing_and_keep_their_order) {
  const std::uint64_t sessions = scaled(400), items = 20;
  numbers q(4, {.producers = 3, .threads = 16});
  std::vector<std::vector<std::uint64_t>> taken(5);
  std::vector<std::jthread> takers;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    takers.emplace_back([&q, &mine = taken[i], i] {
      auto c = q.consumer();
      for (std::size_t turn = i;; ++turn) {
        const auto item = turn % 3 == 0 ? c.pop() : turn % 3 == 1 ? q.pop() : c.pop_for(100us);
        if (item) mine.push_back(*item);
        if (item.status() == queue_status::closed) return;
      }
    });
  }
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> givers;
  for (int i = 0; i < 6; ++i) {
    givers.emplace_back([&] {
      for (std::uint64_t session; (session = next.fetch_add(1)) < sessions;) {
        std::optional<numbers::producer_handle> p;
        while (!(p = q.try_producer())) std::this_thread::yield();
        for (std::uint64_t n = 0; n < items; ++n) ASSERT_EQ(p->push(made(session, n)), queue_status::success);
      }
    });
  }
  givers.clear();
  q.close();
  takers.clear();
  q.check();
  std::vector<std::uint64_t> count(sessions, 0);
  for (const auto& mine : taken) {
    std::vector<std::uint64_t> least(sessions, 0);
    for (const std::uint64_t item : mine) {
      const std::uint64_t session = item >> 32, n = item & 0xffffffff;
      ASSERT_LT(session, sessions);
      ASSERT_GE(n, least[session]) << "out of order";
      least[session] = n + 1;
      ++count[session];
    }
  }
  for (const std::uint64_t n : count) EXPECT_EQ(n, items);
}

TEST(lanes_test, every_waiter_returns_when_it_is_closed) {
  for (std::size_t round = 0; round < scaled(20); ++round) {
    numbers q(2, {.producers = 4, .threads = 40});
    std::atomic<std::uint64_t> pushed{0}, popped{0}, ends{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 32; ++i) {
      threads.emplace_back([&, i] {
        auto c = q.consumer();
        std::uint64_t out[3];
        for (;;) {
          std::size_t got = 0;
          if (i % 4 == 0) got = c.pop_n(out, 3);
          else if (i % 4 == 1) got = q.pop().has_value();
          else if (i % 4 == 2) got = c.pop_for(1h).has_value();
          else got = c.pop(std::stop_token{}).has_value();
          if (got == 0) break;
          popped += got;
        }
        ++ends;
      });
    }
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        auto p = q.producer();
        while ((i % 2 == 0 ? p.push(i) : p.push_for(i, 1h)) == queue_status::success) ++pushed;
      });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    q.close();
    threads.clear();
    EXPECT_EQ(ends.load(), 32U);
    EXPECT_EQ(popped.load(), pushed.load());
    EXPECT_TRUE(q.is_closed());
    q.check();
  }
}

// One item at a time: every push must wake a consumer, under whatever key it sleeps.
TEST(lanes_test, answers_come_back_through_sleeping_threads) {
  lanes<std::uint64_t, muster::layout::packed, muster::wait::park> there(1, {.producers = 2}),
      back(1, {.producers = 3});
  std::vector<std::jthread> servers;
  for (int i = 0; i < 3; ++i) {
    servers.emplace_back([&] {
      auto from = there.consumer();
      auto to = back.producer();
      while (auto item = from.pop()) ASSERT_EQ(to.push(*item + 1), queue_status::success);
    });
  }
  auto p = there.producer();
  for (std::uint64_t i = 0; i < scaled(2000); ++i) {
    ASSERT_EQ(p.push(2 * i), queue_status::success);
    ASSERT_EQ(*back.pop(), 2 * i + 1);
  }
  there.close();
}

}  // namespace
