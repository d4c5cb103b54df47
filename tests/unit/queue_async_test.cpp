// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// async_pop and async_push: what they return, where the coroutine continues, and that none is forgotten. A lost
// resumption hangs the test.
//
// In libraries of senders (P2300), what can be awaited is a sender; so it is tried in stdexec, if CMake has found that
// (MUSTER_TEST_stdexec_DIR).
#include <gtest/gtest.h>
#include <muster/fork/future.hpp>
#include <muster/fork/pool.hpp>
#include <muster/queue/async.hpp>
#include <muster/queue/lanes.hpp>
#include <muster/queue/mpmc.hpp>
#include <muster/queue/notify_fd.hpp>
#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#if __has_include(<stdexec/execution.hpp>)
#include <stdexec/execution.hpp>
#endif

#include "scale.hpp"

namespace {

using namespace std::chrono_literals;
using muster::async_pop;
using muster::async_push;
using muster::queue_status;
using muster_test::scaled;
using packed = muster::layout::packed;

/// A coroutine that begins at once, and whose end is counted.
class ends {
 public:
  void begin() { ++left_; }
  void end() {
    if (--left_ == 0) left_.notify_all();
  }
  void await() {
    for (unsigned left = left_; left != 0; left = left_) left_.wait(left);
  }
  unsigned left() const { return left_; }

 private:
  std::atomic<unsigned> left_{0};
};

struct task {
  struct promise_type {
    template <class... Rest>
    explicit promise_type(ends& all, Rest&...) : all_(all) {
      all.begin();
    }
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct last {
        bool await_ready() noexcept { return false; }
        void await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          ends& all = self.promise().all_;
          self.destroy();
          all.end();
        }
        void await_resume() noexcept {}
      };
      return last{};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    ends& all_;
  };
  std::coroutine_handle<promise_type> handle;
};

/// Calls the submitted functions one by one, on the thread of run_one().
class by_hand {
 public:
  template <class F>
  void submit(F f) {
    all_.emplace_back(f);
  }
  bool run_one() {
    if (all_.empty()) return false;
    std::function<void()> first = std::move(all_.front());
    all_.pop_front();
    first();
    return true;
  }
  std::size_t size() const { return all_.size(); }

 private:
  std::deque<std::function<void()>> all_;
};

/// A few threads.
class threads {
 public:
  explicit threads(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      all_.emplace_back([this] {
        while (const auto f = work_.pop()) (*f)();
      });
  }
  ~threads() { work_.close(); }
  template <class F>
  void submit(F f) {
    work_.push(std::function<void()>(f));
  }

 private:
  muster::mpmc_queue<std::function<void()>> work_{4096};
  std::vector<std::jthread> all_;
};

template <class Queue>
task pop_one(ends&, Queue& q, by_hand& later, typename Queue::value_type& got, queue_status& status) {
  const auto item = co_await async_pop(q, later);
  status = item.status();
  if (item) got = *item;
}

template <class Queue, class Scheduler>
task pop_all(ends&, Queue& q, Scheduler& on, std::atomic<std::uint64_t>& items, std::atomic<std::uint64_t>& sum) {
  while (const auto item = co_await async_pop(q, on)) ++items, sum += *item;
}

TEST(queue_async, does_not_suspend_if_there_is_an_item) {
  ends all;
  muster::spsc_queue<int> q(4);
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  ASSERT_EQ(q.push(7), queue_status::success);
  pop_one(all, q, later, got, status);
  EXPECT_EQ(got, 7);
  EXPECT_EQ(later.size(), 0U);
  EXPECT_EQ(all.left(), 0U);
}

TEST(queue_async, continues_on_the_scheduler) {
  ends all;
  muster::spsc_queue<int> q(4);
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  pop_one(all, q, later, got, status);
  EXPECT_EQ(all.left(), 1U);
  ASSERT_EQ(q.push(7), queue_status::success);
  ASSERT_EQ(q.push(8), queue_status::success);
  EXPECT_EQ(got, 0) << "not on the thread that pushes";
  ASSERT_EQ(later.size(), 1U) << "one event, one call";
  ASSERT_TRUE(later.run_one());
  EXPECT_EQ(got, 7);
  EXPECT_EQ(*q.try_pop(), 8);
}

TEST(queue_async, waits_again_if_another_takes_the_item) {
  ends all;
  muster::spsc_queue<int> q(4);
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  pop_one(all, q, later, got, status);
  ASSERT_EQ(q.push(7), queue_status::success);
  ASSERT_EQ(*q.try_pop(), 7);
  ASSERT_TRUE(later.run_one());
  EXPECT_EQ(all.left(), 1U);
  ASSERT_EQ(q.push(8), queue_status::success);
  ASSERT_TRUE(later.run_one());
  EXPECT_EQ(got, 8);
}

TEST(queue_async, ends_when_the_queue_is_closed) {
  ends all;
  muster::spsc_queue<int> q(4);
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  pop_one(all, q, later, got, status);
  q.close();
  while (later.run_one()) {
  }
  EXPECT_EQ(status, queue_status::closed);
  EXPECT_EQ(all.left(), 0U);
}

// Both consumers have the same key, so two items of one push_n are one event.
TEST(queue_async, resumes_the_next_if_an_event_is_of_two_items) {
  ends all;
  muster::lanes<std::uint64_t> q(4, {.producers = 1, .threads = 20, .cells = 0, .first_rank = 0});
  auto producer = q.producer();
  auto first = q.consumer();
  for (std::uint32_t i = 1; i < muster::eventcount::keys; ++i) static_cast<void>(q.consumer());
  auto second = q.consumer();
  by_hand later;
  std::uint64_t got[2] = {};
  auto status = queue_status::busy;
  pop_one(all, first, later, got[0], status);
  pop_one(all, second, later, got[1], status);
  const std::uint64_t both[] = {1, 2};
  ASSERT_EQ(producer.push_n(both, 2), 2U);
  ASSERT_EQ(later.size(), 1U);
  while (later.run_one()) {
  }
  EXPECT_EQ(got[0], 1U);
  EXPECT_EQ(got[1], 2U);
  EXPECT_EQ(all.left(), 0U);
}

TEST(queue_async, resumes_one_for_an_item_and_all_at_the_end) {
  ends all;
  muster::mpmc_queue<std::uint64_t> q(8);
  by_hand later;
  std::atomic<std::uint64_t> items{0}, sum{0};
  for (int i = 0; i < 5; ++i) pop_all(all, q, later, items, sum);
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_EQ(later.size(), 1U);
  while (later.run_one()) {
  }
  EXPECT_EQ(all.left(), 5U);
  q.close();
  EXPECT_EQ(later.size(), 5U) << "each, although no other runs";
  while (later.run_one()) {
  }
  EXPECT_EQ(all.left(), 0U);
  EXPECT_EQ(sum.load(), 7U);
}

/// Runs coroutines in the operation that resumes them.
struct at_once {
  template <class F>
  void submit(F f) {
    f();
  }
};
task pop_and_arm(ends&, muster::mpmc_queue<int>& q, at_once& on, muster::notify_fd<muster::mpmc_queue<int>>& ready,
                 bool& armed) {
  co_await async_pop(q, on);
  armed = ready.arm();
}

// The push that resumes the coroutine has signalled the descriptor by then: arm() would wait for it.
TEST(queue_async, a_coroutine_resumed_by_a_push_may_arm_a_descriptor_of_the_same_queue) {
  ends all;
  muster::mpmc_queue<int> q(4);
  at_once on;
  muster::notify_fd ready(q);
  bool armed = false;
  ASSERT_TRUE(ready.arm());
  pop_and_arm(all, q, on, ready, armed);
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_TRUE(armed);
  EXPECT_EQ(all.left(), 0U);
}

struct refusing {
  template <class F>
  void submit(F) {
    throw std::bad_alloc();
  }
};

template <class Pop, class Push>
task push_and_pop(ends&, Pop& pop, Push& push, int& got) {
  EXPECT_EQ(co_await std::move(push), queue_status::success);
  got = **co_await std::move(pop);
}

TEST(queue_async, a_request_can_be_moved_until_it_is_awaited) {
  muster::mpmc_queue<std::unique_ptr<int>> queue(4);
  by_hand later;
  ends all;
  auto push = async_push(queue, later, std::make_unique<int>(7));
  auto pop = async_pop(queue, later);
  EXPECT_EQ(queue.try_pop().status(), queue_status::empty) << "the push has begun before it was awaited";
  auto moved_push = std::move(push);
  auto moved_pop = std::move(pop);
  int got = 0;
  push_and_pop(all, moved_pop, moved_push, got);
  all.await();
  EXPECT_EQ(got, 7);
}

TEST(queue_async, works_with_stdexec) {
#if __has_include(<stdexec/execution.hpp>)
  muster::pool workers({.workers = 2});
  muster::mpmc_queue<int> numbers(2), answers(2);
  // [senders]
  auto one_more = async_pop(numbers, workers) | stdexec::then([](auto number) { return *number + 1; });
  std::jthread producer([&] { numbers.push(41); });
  const auto [answer] = stdexec::sync_wait(std::move(one_more)).value();
  // [/senders]
  EXPECT_EQ(answer, 42);
  const auto [a, b] =
      stdexec::sync_wait(stdexec::when_all(async_push(answers, workers, 5), async_pop(answers, workers))).value();
  EXPECT_EQ(a, queue_status::success);
  EXPECT_EQ(*b, 5);
  numbers.close();
  const auto [end] = stdexec::sync_wait(async_pop(numbers, workers)).value();
  EXPECT_EQ(end.status(), queue_status::closed);
#else
  GTEST_SKIP() << "stdexec is not installed: set MUSTER_TEST_stdexec_DIR to its directory `include`";
#endif
}

TEST(queue_async_death, says_that_a_scheduler_has_thrown) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto mistake = [] {
    ends all;
    muster::mpmc_queue<std::uint64_t> q(4);
    refusing on;
    std::atomic<std::uint64_t> items{0}, sum{0};
    pop_all(all, q, on, items, sum);
    static_cast<void>(q.push(7));
  };
  EXPECT_DEATH(mistake(), "submit has thrown");
}

TEST(queue_async, a_suspended_coroutine_may_be_destroyed) {
  ends all;
  muster::spsc_queue<int> q(4);
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  const task one = pop_one(all, q, later, got, status);
  one.handle.destroy();
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_EQ(later.size(), 0U);
  EXPECT_EQ(*q.try_pop(), 7);
}

TEST(queue_async_death, refuses_the_destruction_of_a_coroutine_about_to_be_resumed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto mistake = [] {
    ends all;
    muster::spsc_queue<int> q(4);
    by_hand later;
    int got = 0;
    auto status = queue_status::busy;
    const task one = pop_one(all, q, later, got, status);
    static_cast<void>(q.push(7));
    one.handle.destroy();
  };
  EXPECT_DEATH(mistake(), "destroyed while its scheduler");
}

task push_three(ends&, muster::spsc_queue<std::unique_ptr<int>>& q, by_hand& later, std::vector<queue_status>& got) {
  for (int i = 0; i < 3; ++i) got.push_back(co_await async_push(q, later, std::make_unique<int>(i)));
}

TEST(queue_async, a_push_waits_for_room) {
  ends all;
  muster::spsc_queue<std::unique_ptr<int>> q(1);
  by_hand later;
  std::vector<queue_status> got;
  push_three(all, q, later, got);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(**q.try_pop(), 0);
  ASSERT_TRUE(later.run_one());
  ASSERT_EQ(got.size(), 2U);
  q.close();
  while (later.run_one()) {
  }
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[1], queue_status::success);
  EXPECT_EQ(got[2], queue_status::closed);
}

struct throws_when_moved {
  explicit throws_when_moved(int n) : number(n) {}
  throws_when_moved(throws_when_moved&& other) : number(other.number) {
    if (number == 1) throw std::runtime_error("moved");
  }
  int number;
};

task pop_thrower(ends&, muster::mpmc_queue<throws_when_moved>& q, by_hand& later, bool& caught) {
  try {
    co_await async_pop(q, later);
  } catch (const std::runtime_error&) {
    caught = true;
  }
}

TEST(queue_async, an_exception_of_a_move_reaches_the_coroutine) {
  ends all;
  muster::mpmc_queue<throws_when_moved> q(4);
  by_hand later;
  bool caught = false;
  pop_thrower(all, q, later, caught);
  ASSERT_EQ(q.emplace(1), queue_status::success);
  ASSERT_TRUE(later.run_one());
  EXPECT_TRUE(caught);
  EXPECT_EQ(all.left(), 0U);
}

task pop_from_pool(ends&, muster::mpmc_queue<int>& q, muster::pool& on, std::atomic<bool>& broken) {
  try {
    co_await async_pop(q, on);
  } catch (const muster::broken_promise&) {
    broken = true;
    broken.notify_all();
  }
}
task push_from_pool(ends&, muster::mpmc_queue<int>& q, muster::pool& on, std::atomic<bool>& broken) {
  try {
    co_await async_push(q, on, 9);
  } catch (const muster::broken_promise&) {
    broken = true;
  }
}

// The only thread of the pool ends its function when the coroutine, which waits behind that function, has continued.
TEST(queue_async, a_pool_that_ends_resumes_the_coroutines_that_wait_in_it) {
  ends all;
  muster::mpmc_queue<int> q(4);
  std::atomic<bool> broken{false};
  {
    muster::pool on({.workers = 1});
    std::atomic<bool> begun{false};
    static_cast<void>(on.submit([&] {
      begun = true;
      begun.notify_one();
      broken.wait(false);
    }));
    begun.wait(false);
    pop_from_pool(all, q, on, broken);
    ASSERT_EQ(q.push(7), queue_status::success);
    EXPECT_FALSE(broken) << "not on the thread that pushes";
  }
  EXPECT_TRUE(broken);
  EXPECT_EQ(all.left(), 0U);
  EXPECT_EQ(*q.try_pop(), 7) << "the item is still there";
}

TEST(queue_async, a_coroutine_whose_pool_has_ended_continues_at_the_next_event) {
  ends all;
  muster::mpmc_queue<int> q(1);
  std::atomic<bool> popping_broken{false}, pushing_broken{false};
  std::optional<muster::pool> on(std::in_place, 1);
  pop_from_pool(all, q, *on, popping_broken);
  on.reset();
  EXPECT_EQ(all.left(), 1U);
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_TRUE(popping_broken);
  on.emplace(1);
  push_from_pool(all, q, *on, pushing_broken);
  on.reset();
  EXPECT_EQ(*q.try_pop(), 7) << "the item is still there";
  EXPECT_TRUE(pushing_broken);
  EXPECT_EQ(all.left(), 0U);
  EXPECT_EQ(q.try_pop().status(), queue_status::empty) << "its own was not pushed";
}

TEST(queue_async, a_coroutine_whose_pool_has_ended_leaves_the_item_to_the_next) {
  ends all;
  muster::mpmc_queue<int> q(4);
  std::atomic<bool> broken{false};
  by_hand later;
  int got = 0;
  auto status = queue_status::busy;
  {
    muster::pool on(1);
    pop_from_pool(all, q, on, broken);
  }
  pop_one(all, q, later, got, status);
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_TRUE(broken);
  while (later.run_one()) {
  }
  EXPECT_EQ(got, 7);
  EXPECT_EQ(all.left(), 0U);
}

TEST(queue_async, a_coroutine_whose_pool_has_ended_may_be_destroyed) {
  ends all;
  muster::mpmc_queue<int> q(4);
  std::atomic<bool> broken{false};
  std::optional<muster::pool> on(std::in_place, 1);
  const task one = pop_from_pool(all, q, *on, broken);
  on.reset();
  one.handle.destroy();
  ASSERT_EQ(q.push(7), queue_status::success);
  EXPECT_FALSE(broken);
}

template <class Queue, class Scheduler>
task push_all(ends&, Queue& q, Scheduler& on, std::uint64_t count) {
  for (std::uint64_t i = 1; i <= count; ++i) EXPECT_EQ(co_await async_push(q, on, i), queue_status::success);
}

/// Coroutines and threads push and pop.
template <class Queue, class Scheduler>
void exchange(Queue& q, Scheduler& on, std::size_t pushers, std::size_t poppers, bool beside_threads) {
  const std::uint64_t each = scaled(10'000);
  std::atomic<std::uint64_t> items{0}, sum{0};
  ends pushing, popping;
  for (std::size_t i = 0; i < poppers; ++i) pop_all(popping, q, on, items, sum);
  std::vector<std::jthread> others;
  if (beside_threads) {
    others.emplace_back([&] {
      while (const auto item = q.pop()) ++items, sum += *item;
    });
    others.emplace_back([&] {
      for (std::uint64_t i = 1; i <= each; ++i) ASSERT_EQ(q.push(i), queue_status::success);
    });
  }
  for (std::size_t i = 0; i < pushers; ++i) push_all(pushing, q, on, each);
  pushing.await();
  if (beside_threads) others.back().join();
  q.close();
  popping.await();
  others.clear();
  const std::uint64_t all = pushers + (beside_threads ? 1 : 0);
  EXPECT_EQ(items.load(), all * each);
  EXPECT_EQ(sum.load(), all * (each * (each + 1) / 2));
}

TEST(queue_async, loses_no_item_of_spsc) {
  muster::spsc_queue<std::uint64_t> q(4);
  threads on(2);
  exchange(q, on, 1, 1, false);
}
TEST(queue_async, loses_no_item_of_spmc) {
  muster::spmc_queue<std::uint64_t, packed, muster::wait::park> q(4);
  threads on(2);
  exchange(q, on, 1, 16, false);
}
TEST(queue_async, loses_no_item_of_mpmc) {
  muster::mpmc_queue<std::uint64_t> q(4);
  threads on(2);
  exchange(q, on, 8, 16, false);
}
TEST(queue_async, loses_no_item_beside_threads) {
  muster::mpmc_queue<std::uint64_t> q(4);
  threads on(2);
  exchange(q, on, 2, 4, true);
}
TEST(queue_async, loses_no_item_on_a_pool) {
  muster::mpmc_queue<std::uint64_t> q(16);
  muster::pool on({.workers = 2});
  exchange(q, on, 2, 4, false);
}

TEST(queue_async, loses_no_item_of_lanes) {
  const std::uint64_t each = scaled(10'000);
  muster::lanes<std::uint64_t> q(2, {.producers = 2});
  threads on(2);
  std::atomic<std::uint64_t> items{0}, sum{0};
  ends pushing, popping;
  auto first = q.producer(), second = q.producer();
  auto one = q.consumer();
  pop_all(popping, one, on, items, sum);
  pop_all(popping, q, on, items, sum);
  push_all(pushing, first, on, each);
  push_all(pushing, second, on, each);
  pushing.await();
  q.close();
  popping.await();
  EXPECT_EQ(items.load(), 2 * each);
  EXPECT_EQ(sum.load(), 2 * (each * (each + 1) / 2));
}

}  // namespace
