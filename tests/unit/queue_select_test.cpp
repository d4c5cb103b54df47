// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// select: which queue it takes from, and what ends its waiting. A lost wake-up hangs the test.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/queue/lanes.hpp>
#include <muster/queue/mpmc.hpp>
#include <muster/queue/select.hpp>
#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <variant>
#include <vector>

#include "scale.hpp"

namespace {

using namespace std::chrono_literals;
using muster::queue_status;
using muster::select;
using muster::select_for;
using muster::select_until;
using muster::try_select;
using muster_test::scaled;
using packed = muster::layout::packed;

/// Long enough for a thread to have gone to sleep in nearly every run; no result depends on it.
void let_it_sleep() { std::this_thread::sleep_for(2ms); }

TEST(queue_select, returns_the_item_and_the_index_of_its_queue) {
  muster::spsc_queue<int> numbers(4);
  muster::mpmc_queue<std::string> names(4);
  muster::spmc_queue<int> others(4);
  ASSERT_EQ(try_select(numbers, names, others).status(), queue_status::empty);
  ASSERT_EQ(names.push("seven"), queue_status::success);
  auto found = select(numbers, names, others);
  static_assert(std::is_same_v<decltype(found), muster::queue_result<std::variant<int, std::string, int>>>);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index(), 1U);
  EXPECT_EQ(std::get<1>(*found), "seven");
  ASSERT_EQ(others.push(8), queue_status::success);
  found = select(numbers, names, others);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index(), 2U);
  EXPECT_EQ(std::get<2>(*found), 8);
}

TEST(queue_select, takes_items_that_can_only_be_moved) {
  muster::spsc_queue<std::unique_ptr<int>> one(1);
  muster::spmc_queue<std::unique_ptr<int>> two(1);
  ASSERT_EQ(two.push(std::make_unique<int>(5)), queue_status::success);
  auto found = try_select(one, two);
  ASSERT_TRUE(found);
  EXPECT_EQ(*std::get<1>(*std::move(found)), 5);
}

TEST(queue_select, serves_every_queue_that_has_items) {
  muster::spsc_queue<int> a(4096), b(4096), c(4096);
  for (int i = 0; i < 4096; ++i) {
    ASSERT_EQ(a.push(i), queue_status::success);
    ASSERT_EQ(c.push(i), queue_status::success);
  }
  std::array<unsigned, 3> taken{};
  std::array<int, 3> next{};
  for (int i = 0; i < 4096; ++i) {
    const auto found = select(a, b, c);
    ASSERT_TRUE(found);
    std::visit([&](int item) { EXPECT_EQ(item, next[found->index()]++); }, *found);
    ++taken[found->index()];
    // Between two of these, another select of the thread must not disturb the choice.
    if (i % 2 == 0) static_cast<void>(try_select(b, b));
  }
  EXPECT_GT(taken[0], 4096U / 8);
  EXPECT_EQ(taken[1], 0U);
  EXPECT_GT(taken[2], 4096U / 8);
}

TEST(queue_select, leaves_closed_queues_out_and_ends_with_the_last) {
  muster::spsc_queue<int> a(4);
  muster::mpmc_queue<int> b(4);
  muster::lanes<int> c(4, {.producers = 2});
  ASSERT_EQ(a.push(1), queue_status::success);
  a.close();
  std::jthread other([&] {
    let_it_sleep();
    EXPECT_EQ(b.push(2), queue_status::success);
    let_it_sleep();
    b.close();
    let_it_sleep();
    EXPECT_EQ(c.producer().push(3), queue_status::success);
    let_it_sleep();
    c.close();
  });
  for (std::size_t i = 0; i < 3; ++i) {
    const auto found = select(a, b, c);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->index(), i);
  }
  EXPECT_EQ(select(a, b, c).status(), queue_status::closed);
  EXPECT_EQ(try_select(a, b, c).status(), queue_status::closed);
  EXPECT_EQ(select_for(1h, a, b).status(), queue_status::closed);
}

TEST(queue_select, gives_up_at_its_limit) {
  muster::spsc_queue<int> a(4);
  muster::mpmc_queue<int> b(4);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(select_for(3ms, a, b).status(), queue_status::empty);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 3ms);
  EXPECT_EQ(select_for(-1h, a, b).status(), queue_status::empty);
  EXPECT_EQ(select_until(std::chrono::system_clock::now() + 3ms, a, b).status(), queue_status::empty);
  EXPECT_EQ(select_until(std::chrono::steady_clock::time_point::min(), a, b).status(), queue_status::empty);
  EXPECT_EQ(select_for(std::chrono::duration<float>(std::numeric_limits<float>::quiet_NaN()), a, b).status(),
            queue_status::empty);
  ASSERT_EQ(b.push(1), queue_status::success);
  EXPECT_TRUE(select_for(0s, a, b));
}

TEST(queue_select, ends_when_a_stop_is_requested) {
  muster::spsc_queue<int> a(4);
  muster::lanes<int> b(4);
  std::jthread waiting([&](std::stop_token stop) {
    EXPECT_EQ(select(stop, a, b).status(), queue_status::empty);
    EXPECT_EQ(a.push(1), queue_status::success);
    EXPECT_TRUE(select(stop, a, b)) << "an item that is there is taken";
  });
  let_it_sleep();
  waiting.request_stop();
}

TEST(queue_select, reports_a_queue_that_is_being_closed_as_busy_or_closed_only) {
  muster::mpmc_queue<int> a(4), b(4);
  std::jthread closing([&] {
    a.close();
    b.close();
  });
  queue_status seen = queue_status::empty;
  while ((seen = try_select(a, b).status()) != queue_status::closed)
    EXPECT_TRUE(seen == queue_status::empty || seen == queue_status::busy);
}

/// Several threads push into all queues, several take from all of them: every item arrives once.
template <class Wait>
void exchange_all(bool on_fibers) {
  constexpr std::uint64_t takers = 3;
  const std::uint64_t each = scaled(on_fibers ? 1'000 : 10'000);
  muster::spmc_queue<std::uint64_t, packed, Wait> a(2);
  muster::mpmc_queue<std::uint64_t, packed, Wait> b(3);
  muster::lanes<std::uint64_t, packed, Wait> c(2, {.producers = 2});
  std::atomic<std::uint64_t> sum{0}, items{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < takers; ++i)
      threads.emplace_back([&, i] {
        const auto take = [&, i] {
          auto seat = c.consumer();
          std::uint64_t own = 0, count = 0;
          for (;;) {
            const auto found = i == 0 ? select_for(1h, a, b, seat) : i == 1 ? select(b, seat, a) : select(a, b, c);
            if (!found) {
              EXPECT_EQ(found.status(), queue_status::closed);
              break;
            }
            std::visit([&](std::uint64_t item) { own += item; }, *found);
            ++count;
          }
          sum += own;
          items += count;
        };
        if (on_fibers) {
          muster::fiber one(take), two(take);
        } else {
          take();
        }
      });
    std::vector<std::jthread> pushers;
    const auto push = [](auto& into, std::uint64_t count) {
      for (std::uint64_t i = 1; i <= count; ++i) {
        ASSERT_EQ(into.push(i), queue_status::success);
        if (i % 1024 == 0) std::this_thread::sleep_for(20us);  // so that takers sleep now and then
      }
      into.push(0);
    };
    pushers.emplace_back([&] { push(a, each), a.close(); });
    pushers.emplace_back([&] { push(b, each), b.close(); });
    pushers.emplace_back([&] {
      auto own = c.producer();
      push(own, each), c.close();
    });
  }
  EXPECT_EQ(items.load(), 3 * (each + 1));
  EXPECT_EQ(sum.load(), 3 * (each * (each + 1) / 2));
}

TEST(queue_select, loses_no_item_between_threads) { exchange_all<muster::wait::spin_then_park>(false); }
TEST(queue_select, loses_no_item_between_threads_that_sleep_at_once) { exchange_all<muster::wait::park>(false); }
TEST(queue_select, loses_no_item_between_threads_that_never_sleep) { exchange_all<muster::wait::spin>(false); }
TEST(queue_select, loses_no_item_between_fibers) { exchange_all<muster::wait::spin_then_park>(true); }
TEST(queue_select, loses_no_item_between_fibers_of_threads_that_sleep_at_once) {
  exchange_all<muster::wait::park>(true);
}

// One queue's policy never sleeps, so select does not sleep either, and nothing wakes it.
TEST(queue_select, finds_items_of_queues_with_different_policies) {
  muster::spsc_queue<int, packed, muster::wait::spin> a(4);
  muster::lanes<int> b(4);
  std::atomic<bool> first_is_taken{false};
  std::jthread other([&] {
    let_it_sleep();
    EXPECT_EQ(b.producer().push(1), queue_status::success);
    first_is_taken.wait(false);
    let_it_sleep();
    EXPECT_EQ(a.push(2), queue_status::success);
  });
  EXPECT_EQ(select(a, b)->index(), 1U);
  first_is_taken = true;
  first_is_taken.notify_one();
  EXPECT_EQ(select(a, b)->index(), 0U);
}

TEST(queue_select, wakes_a_fiber_whose_siblings_wait_elsewhere) {
  muster::spsc_queue<int> a(4), b(4), elsewhere(4);
  std::jthread other([&] {
    let_it_sleep();
    EXPECT_EQ(b.push(1), queue_status::success);
    let_it_sleep();
    EXPECT_EQ(elsewhere.push(2), queue_status::success);
  });
  muster::fiber selecting([&] { EXPECT_EQ(select(a, b)->index(), 1U); });
  muster::fiber popping([&] { EXPECT_EQ(*elsewhere.pop(), 2); });
}

// A select that leaves with the item of another queue must not keep the wake of a consumer of this one.
TEST(queue_select, leaves_no_other_consumer_asleep) {
  for (std::size_t round = 0; round < scaled(300); ++round) {
    muster::lanes<int, packed, muster::wait::park> shared(4, {.producers = 2});
    muster::spsc_queue<int, packed, muster::wait::park> own(4);
    std::atomic<int> taken{0};
    std::jthread selecting([&] {
      const auto found = select(own, shared);
      ASSERT_TRUE(found);
      taken += found->index() == 1;
    });
    std::jthread popping([&] {
      while (shared.pop()) ++taken;
    });
    if (round % 4 == 0) let_it_sleep();
    std::jthread pushing([&] { EXPECT_EQ(shared.producer().push(1), queue_status::success); });
    EXPECT_EQ(own.push(1), queue_status::success);
    pushing.join();
    while (taken.load() == 0) std::this_thread::yield();
    shared.close();
    own.close();
  }
}

}  // namespace
