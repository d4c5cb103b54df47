// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Coroutines that continue in a pool: each once, on its threads, and they may fork there; without allocating; and each
// ends whatever becomes of the pool.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counting_allocator.hpp"
#include "fork_settings.hpp"
#include "gate.hpp"
#include "message_of.hpp"
#include "scale.hpp"

namespace {

using muster::pool;
using muster_test::allocates_nothing;
using muster_test::fib;
using muster_test::gate;
using muster_test::message_of;
using muster_test::scaled;
using muster_test::small_stack;

/// A coroutine that begins at once; wait() returns when it has ended, and rethrows its exception.
class job {
 public:
  struct promise_type {
    std::exception_ptr error;
    std::atomic<bool> ended{false};
    job get_return_object() { return job(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct notify : std::suspend_always {
        void await_suspend(std::coroutine_handle<promise_type> of) noexcept { of.promise().ended = true; }
      };
      return notify{};
    }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };

  explicit job(std::coroutine_handle<promise_type> of) : handle_(of) {}
  job(job&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  job& operator=(job&&) = delete;
  /// May be called while it is suspended.
  ~job() {
    if (handle_ != nullptr) handle_.destroy();
  }
  bool has_ended() const { return handle_.promise().ended; }
  void wait() const {
    while (!has_ended()) std::this_thread::yield();
    if (handle_.promise().error != nullptr) std::rethrow_exception(handle_.promise().error);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

class coroutines : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, coroutines, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

job hop(pool& in, int times, std::atomic<int>& hops, std::atomic<int>& outside) {
  for (int i = 0; i < times; ++i) {
    co_await in.schedule();
    ++hops;
    if (!in.worker_index().has_value()) ++outside;
  }
}

TEST_P(coroutines, continue_in_the_pool) {
  std::atomic<int> hops{0}, outside{0};
  std::vector<job> all;
  const int many = static_cast<int>(scaled(100));
  for (int i = 0; i < many; ++i) all.push_back(hop(workers_, 100, hops, outside));
  workers_.run([&] {
    for (int i = 0; i < many; ++i) all.push_back(hop(workers_, 100, hops, outside));
  });
  for (const job& each : all) each.wait();
  EXPECT_EQ(hops, 2 * many * 100);
  EXPECT_EQ(outside, 0);
}

job fork_in_between(pool& in, long& sum) {
  std::vector<long> numbers(1000, 1);
  for (int i = 0; i < 3; ++i) {
    co_await in.schedule();
    sum += fib(12);
    auto [a, b] = muster::fork2([&] { return numbers[0]; }, [&] { return numbers[1]; });
    sum += a + b;
    muster::parallel_for(numbers, [](long& number) { ++number; });
    muster::task_group group(in);
    group.run([&] { numbers[2] += 5; });
    group.wait();
  }
  sum += std::accumulate(numbers.begin(), numbers.end(), 0L);
}

TEST_P(coroutines, may_fork) {
  std::vector<std::unique_ptr<long>> sums;
  std::vector<job> all;
  for (int i = 0; i < 20; ++i) all.push_back(fork_in_between(workers_, *sums.emplace_back(std::make_unique<long>(0))));
  for (const job& each : all) each.wait();
  for (const auto& sum : sums) EXPECT_EQ(*sum, 3 * 144 + 2 * (1 + 2 + 3) + 4000 + 15);
}

job travel(pool& a, pool& b, int& wrong) {
  for (int i = 0; i < 50; ++i) {
    co_await a.schedule();
    if (!a.worker_index().has_value() || b.worker_index().has_value()) ++wrong;
    co_await b.schedule();
    if (a.worker_index().has_value() || !b.worker_index().has_value()) ++wrong;
  }
}

TEST_P(coroutines, go_from_pool_to_pool) {
  pool other({.workers = 2, .stack_bytes = small_stack});
  int wrong = 0;
  travel(workers_, other, wrong).wait();
  EXPECT_EQ(wrong, 0);
}

job fail(pool& in, bool before) {
  if (before) throw std::runtime_error("before");
  co_await in.schedule();
  throw std::runtime_error("after");
}

TEST_P(coroutines, keep_their_exceptions) {
  EXPECT_EQ(message_of([&] { fail(workers_, true).wait(); }), "before");
  EXPECT_EQ(message_of([&] { fail(workers_, false).wait(); }), "after");
}

job count_until_stopped(pool& in, std::stop_token stop, std::atomic<int>& count) {
  int own = 0;  // without a variable, g++ 12.2 compiles the loop wrongly (GCC bug 106188)
  while (co_await in.schedule(stop)) count = ++own;
}

TEST_P(coroutines, notice_a_stop) {
  std::stop_source stop;
  std::atomic<int> before{0}, meanwhile{0};
  const job endless = count_until_stopped(workers_, stop.get_token(), meanwhile);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(endless.has_ended());
  stop.request_stop();
  endless.wait();
  const job late = count_until_stopped(workers_, stop.get_token(), before);
  EXPECT_TRUE(late.has_ended());  // it was not suspended
  EXPECT_EQ(before, 0);
}

TEST_P(coroutines, allocate_nothing_when_they_continue) {
  std::stop_source stop;
  std::atomic<int> count{0};
  const job endless = count_until_stopped(workers_, stop.get_token(), count);
  EXPECT_TRUE(allocates_nothing([&] {
    for (const int end = count + 20; count < end;) std::this_thread::yield();
  }));
  stop.request_stop();
  endless.wait();
}

TEST_P(coroutines, are_resumed_by_fibers_and_threads) {
  std::atomic<int> hops{0}, outside{0};
  std::vector<job> all;
  std::vector<muster::fiber> fibers;
  for (int i = 0; i < 6; ++i) fibers.emplace_back([&] { all.push_back(hop(workers_, 10, hops, outside)); });
  for (auto& each : fibers) each.join();
  for (const job& each : all) each.wait();
  EXPECT_EQ(hops, 60);
  EXPECT_EQ(outside, 0);
}

job note_thread(pool& in, std::thread::id& where, bool& broken) {
  try {
    co_await in.schedule();
  } catch (const muster::broken_promise&) {
    broken = true;
  }
  where = std::this_thread::get_id();
}

TEST(a_coroutine, in_a_pool_that_ends_continues_on_the_thread_that_ends_it) {
  gate closed;
  std::thread::id waiting, late;
  bool waiting_broken = false, late_broken = false;
  std::optional<job> first, second;
  std::thread opener;
  {
    pool ending({.workers = 1, .stack_bytes = small_stack});
    static_cast<void>(ending.submit([&] {
      closed.pass();
      while (!first->has_ended()) std::this_thread::yield();  // until the pool ends
      second.emplace(note_thread(ending, late, late_broken));
      EXPECT_TRUE(second->has_ended());
      EXPECT_EQ(late, std::this_thread::get_id());
    }));
    closed.await_arrivals(1);
    first.emplace(note_thread(ending, waiting, waiting_broken));  // the only thread is busy
    EXPECT_FALSE(first->has_ended());
    closed.open();
  }
  first->wait();
  second->wait();
  EXPECT_TRUE(waiting_broken);
  EXPECT_EQ(waiting, std::this_thread::get_id());
  EXPECT_TRUE(late_broken);
}

job hop_and_say(pool& in, std::atomic<bool>& said) {
  co_await in.schedule();
  said = true;
}

TEST(a_coroutine, may_end_before_the_thread_that_has_suspended_it_returns) {
  for (std::size_t round = 0; round < scaled(300); ++round) {
    std::atomic<bool> said{false};
    auto short_lived = std::make_unique<pool>(muster::pool_options{.workers = 2, .stack_bytes = small_stack});
    std::optional<job> one;
    std::jthread suspends([&] { one.emplace(hop_and_say(*short_lived, said)); });
    while (!said) std::this_thread::yield();
    short_lived = nullptr;  // that thread may still be in await_suspend
  }
}

/// A pool with one thread, which is busy until it may continue.
class busy_pool {
 public:
  busy_pool() { closed_.await_arrivals(1); }
  pool& get() { return pool_; }
  void let_continue() { closed_.open(); }

 private:
  gate closed_;
  pool pool_{{.workers = 1, .stack_bytes = small_stack}};
  muster::future<void> busy_ = pool_.submit([this] { closed_.pass(); });
};

TEST(a_coroutine, may_be_destroyed_while_it_waits_for_its_turn) {
  std::thread::id where;
  bool broken = false;
  busy_pool one;
  {
    const job first = note_thread(one.get(), where, broken), second = note_thread(one.get(), where, broken),
              third = note_thread(one.get(), where, broken);
  }
  std::atomic<bool> said{false};
  const job last = hop_and_say(one.get(), said);
  one.let_continue();
  last.wait();
  EXPECT_EQ(where, std::thread::id());
  EXPECT_FALSE(broken);
}

job note_order(pool& in, int name, std::vector<int>& order) {
  for (int i = 0; i < 3; ++i) {
    co_await in.schedule();
    order.push_back(name);
  }
}

TEST(a_coroutine, lets_others_go_first) {
  std::vector<int> order;
  busy_pool one;
  std::vector<job> all;
  for (int name = 0; name < 3; ++name) all.push_back(note_order(one.get(), name, order));
  one.let_continue();
  for (const job& each : all) each.wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(a_coroutine, in_a_child_process_is_refused) {
  std::thread::id where;
  bool broken = false;
  busy_pool one;
  std::optional<job> waits(note_thread(one.get(), where, broken));
  const pid_t child = ::fork();
  if (child == 0) {
    waits.reset();  // it will never continue
    std::atomic<bool> said{false};
    const std::string message = message_of([&] { hop_and_say(one.get(), said).wait(); });
    ::_exit(message.find("parent of this process") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  one.let_continue();
  waits->wait();
}

/// A coroutine whose exceptions leave resume().
struct careless {
  struct promise_type {
    careless get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
};
careless continue_and_throw(pool& in) {
  co_await in.schedule();
  throw std::runtime_error("no caller catches this");
}

TEST(a_coroutine, whose_exception_leaves_resume_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool one({.workers = 1, .stack_bytes = small_stack});
        continue_and_throw(one);
        for (;;) std::this_thread::yield();
      },
      "no caller catches this");
}

}  // namespace
