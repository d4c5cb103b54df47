// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pool::submit and futures: every submitted function is executed once, on a thread of the pool or one that waits for
// it; results and exceptions arrive; a pool of one worker never waits for itself; a pool that ends keeps or breaks
// every promise.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "fork_settings.hpp"
#include "gate.hpp"
#include "message_of.hpp"
#include "scale.hpp"

namespace {

using muster::broken_promise;
using muster::future;
using muster::pool;
using muster::when_all;
using muster_test::counted;
using muster_test::fib;
using muster_test::gate;
using muster_test::message_of;
using muster_test::scaled;
using namespace std::chrono_literals;

class futures : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, futures, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

/// Every call is submitted, down to the leaves.
long submitted_fib(pool& in, long n) {
  if (n < 2) return n;
  auto a = in.submit([&in, n] { return submitted_fib(in, n - 1); });
  auto b = in.submit([&in, n] { return submitted_fib(in, n - 2); });
  return a.get() + b.get();
}

TEST_P(futures, have_results_of_any_type) {
  auto number = workers_.submit([] { return 41; });
  auto nothing = workers_.submit([] {});
  auto text = workers_.submit([text = std::string("any type")]() mutable { return std::move(text); });
  auto unique = workers_.submit([own = std::make_unique<int>(3)]() mutable { return std::move(own); });
  auto forks = workers_.submit([](muster::context&) { return fib(15); });
  EXPECT_EQ(number.get(), 41);
  EXPECT_NO_THROW(nothing.get());
  EXPECT_EQ(text.get(), "any type");
  EXPECT_EQ(*unique.get(), 3);
  EXPECT_EQ(forks.get(), 610);
  EXPECT_FALSE(number.valid());
}

TEST_P(futures, are_empty_after_they_were_used) {
  auto one = workers_.submit([] { return 1; });
  auto other = std::move(one);
  EXPECT_NE(message_of([&] { one.get(); }).find("future::get: the future is empty"), std::string::npos);
  EXPECT_NE(message_of([&] { one.wait(); }).find("future::wait: the future is empty"), std::string::npos);
  EXPECT_NE(message_of([&] { static_cast<void>(one.then([](int) {})); }).find("future::then"), std::string::npos);
  EXPECT_THROW(static_cast<void>(future<int>().is_ready()), std::logic_error);
  other.wait();
  EXPECT_TRUE(other.is_ready());
  EXPECT_TRUE(other.wait_for(0s));
  other = workers_.submit([] { return 2; });
  EXPECT_EQ(other.get(), 2);
}

TEST_P(futures, carry_exceptions) {
  auto thrown = workers_.submit([]() -> int { throw std::runtime_error("mine"); });
  EXPECT_EQ(message_of([&] { thrown.get(); }), "mine");
  // An exception that nothing takes is lost, as with std::future.
  for (int i = 0; i < 100; ++i) static_cast<void>(workers_.submit([] { throw std::runtime_error("lost"); }));
}

// The functions that are not waited for are executed by the pool's own threads.
TEST_P(futures, are_completed_by_the_pool_alone) {
  const std::size_t many = scaled(20'000);
  std::vector<std::atomic<int>> executions(many);
  std::atomic<std::size_t> all{0};
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> here{false};
  for (std::size_t i = 0; i < many; ++i)
    static_cast<void>(workers_.submit([&, i] {
      if (std::this_thread::get_id() == caller) here = true;
      ++executions[i];
      ++all;
      all.notify_one();
    }));
  for (std::size_t now = all; now < many; now = all) all.wait(now);
  EXPECT_FALSE(here) << "submit() has executed a function";
  for (const auto& one : executions) EXPECT_EQ(one, 1);
}

TEST_P(futures, come_from_many_threads_at_once_and_are_taken_in_any_order) {
  constexpr std::size_t threads = 4;
  const std::size_t many = scaled(5'000);
  std::atomic<std::size_t> sum{0};
  std::vector<std::jthread> all;
  for (std::size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      std::vector<future<std::size_t>> mine;
      for (std::size_t i = 0; i < many; ++i) mine.push_back(workers_.submit([i] { return i; }));
      std::size_t own = 0;
      for (std::size_t i = 0; i < many; ++i) own += mine[t % 2 == 0 ? i : many - 1 - i].get();
      sum += own;
    });
  all.clear();
  EXPECT_EQ(sum, threads * many * (many - 1) / 2);
}

TEST_P(futures, are_waited_for_by_their_own_pool) {
  EXPECT_EQ(submitted_fib(workers_, 15), 610);
  EXPECT_EQ(workers_.run([&] { return submitted_fib(workers_, 15); }), 610);
  // Nested deeply: each waits for the next.
  std::function<int(int)> deep = [&](int n) {
    return n == 0 ? 0 : 1 + workers_.submit([&, n] { return deep(n - 1); }).get();
  };
  EXPECT_EQ(deep(200), 200);
}

TEST_P(futures, may_be_waited_for_while_a_mutex_is_held) {
  std::mutex one;
  std::atomic<int> locked{0};
  const auto lock = [&] {
    const std::lock_guard holds(one);
    ++locked;
  };
  std::vector<future<void>> others;
  for (int i = 0; i < 50; ++i)
    others.push_back(workers_.submit([&] {
      const std::lock_guard holds(one);
      EXPECT_EQ(workers_.submit([] { return fib(8); }).get(), 21);
      ++locked;
    }));
  for (int i = 0; i < 50; ++i) others.push_back(workers_.submit(lock));
  for (auto& each : others) each.get();
  EXPECT_EQ(locked, 100);
}

TEST_P(futures, of_other_pools_are_waited_for) {
  pool other({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
  // Each pool waits for the other, and back again.
  std::function<int(int)> cross = [&](int n) -> int {
    if (n == 0) return 0;
    pool& next = n % 2 == 0 ? workers_ : other;
    auto it = next.submit([&, n] { return cross(n - 1); });
    const auto [sum, more] = muster::fork2([&] { return it.get(); }, [] { return fib(6); });
    return sum + static_cast<int>(more);
  };
  EXPECT_EQ(cross(10), 80);
  EXPECT_EQ(other.run([&] { return cross(9); }), 72);
}

TEST_P(futures, wait_for_a_limited_time) {
  gate closed;
  std::vector<future<void>> busy;
  for (unsigned i = 0; i < GetParam().workers; ++i) busy.push_back(workers_.submit([&] { closed.pass(); }));
  EXPECT_FALSE(busy.back().wait_for(0s));
  closed.await_arrivals(GetParam().workers);
  EXPECT_FALSE(busy.back().wait_for(1ms));
  int calls = 0;
  auto late = workers_.submit([&] { ++calls; });
  EXPECT_FALSE(late.wait_for(1ms));
  EXPECT_FALSE(late.wait_until(std::chrono::system_clock::now() - 1h));
  EXPECT_FALSE(late.is_ready());
  // All threads of the pool are busy. A worker that waits with a limit executes the function, another thread does not.
  EXPECT_TRUE(workers_.run([&] { return workers_.submit([] {}).wait_for(10s); }));
  EXPECT_EQ(calls, 0);
  closed.open();
  EXPECT_TRUE(late.wait_for(std::chrono::hours::max()));
  EXPECT_TRUE(late.wait_until(std::chrono::system_clock::time_point::max()));
  late.get();
  EXPECT_EQ(calls, 1);
  when_all(std::move(busy)).get();
}

TEST_P(futures, are_followed_by_functions) {
  auto text = workers_.submit([] { return 20; }).then([](int n) { return n + 1; }).then([](int n) {
    return std::to_string(2 * n);
  });
  EXPECT_EQ(text.get(), "42");
  int called = 0;
  auto after_nothing = workers_.submit([] {}).then([&] { ++called; });
  after_nothing.get();
  EXPECT_EQ(called, 1);
  // Of a future that is ready already.
  auto ready = workers_.submit([] { return std::make_unique<int>(5); });
  ready.wait();
  EXPECT_EQ(ready.then([](std::unique_ptr<int> own) { return *own; }).get(), 5);
  EXPECT_FALSE(ready.valid());
}

TEST_P(futures, pass_exceptions_to_those_that_follow) {
  bool called = false;
  auto skipped = workers_.submit([]() -> int { throw std::runtime_error("first"); }).then([&](int n) {
    called = true;
    return n;
  });
  auto repaired = std::move(skipped).then([](future<int> it) {
    EXPECT_TRUE(it.is_ready());
    return message_of([&] { it.get(); });
  });
  EXPECT_EQ(repaired.get(), "first");
  EXPECT_FALSE(called);
  auto second = workers_.submit([] {}).then([] { throw std::runtime_error("second"); }).then([] {}).then([] {});
  EXPECT_EQ(message_of([&] { second.get(); }), "second");
}

TEST_P(futures, form_chains_of_any_length) {
  const int many = static_cast<int>(scaled(100'000));
  gate closed;
  auto chain = workers_.submit([&] { return closed.pass(), 0; });
  for (int i = 0; i < many; ++i) chain = chain.then([](int n) { return n + 1; });
  closed.open();
  EXPECT_EQ(chain.get(), many);
  // The exception passes all of them.
  auto thrown = workers_.submit([]() -> int { throw std::runtime_error("far"); });
  for (int i = 0; i < many; ++i) thrown = thrown.then([](int n) { return n + 1; });
  EXPECT_EQ(message_of([&] { thrown.get(); }), "far");
  // A worker waits for a chain that no thread has begun.
  const int inside = workers_
                         .submit([&] {
                           auto own = workers_.submit([] { return 0; });
                           for (int i = 0; i < many; ++i) own = own.then([](int n) { return n + 1; });
                           return own.get();
                         })
                         .get();
  EXPECT_EQ(inside, many);
  // Functions that submit the next one.
  std::atomic<int> left{many};
  std::function<void()> next = [&] {
    if (--left > 0) static_cast<void>(workers_.submit(next));
    else left.notify_one();
  };
  static_cast<void>(workers_.submit(next));
  for (int now = left; now > 0; now = left) left.wait(now);
}

TEST_P(futures, are_joined_by_when_all) {
  auto joined = when_all(workers_.submit([] { return 1; }), workers_.submit([] {}),
                         workers_.submit([] { return std::string("3"); }));
  const auto [one, nothing, three] = joined.get();
  static_cast<void>(nothing);
  EXPECT_EQ(one, 1);
  EXPECT_EQ(three, "3");

  std::vector<future<std::size_t>> many;
  for (std::size_t i = 0; i < 1000; ++i) many.push_back(workers_.submit([i] { return i; }));
  const std::vector<std::size_t> values = when_all(std::move(many)).get();
  ASSERT_EQ(values.size(), 1000U);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i);

  std::vector<future<void>> voids;
  std::atomic<int> ended{0};
  for (int i = 0; i < 100; ++i) voids.push_back(workers_.submit([&] { ++ended; }));
  when_all(std::move(voids)).then([&] { EXPECT_EQ(ended, 100); }).get();
  EXPECT_THROW(static_cast<void>(when_all(std::vector<future<int>>())), std::invalid_argument);

  // A tree of them, for which a worker waits; and of ready ones.
  const auto sum = [](std::tuple<int, int> of) { return std::get<0>(of) + std::get<1>(of); };
  std::function<future<int>(int)> tree = [&](int depth) {
    if (depth == 0) return workers_.submit([] { return 1; });
    return when_all(tree(depth - 1), tree(depth - 1)).then(sum);
  };
  EXPECT_EQ(tree(8).get(), 256);
  EXPECT_EQ(workers_.submit([&] { return tree(8).get(); }).get(), 256);
  auto ready = workers_.submit([] { return 7; });
  ready.wait();
  EXPECT_EQ(std::get<0>(when_all(std::move(ready)).get()), 7);
}

TEST_P(futures, join_with_the_leftmost_exception_when_all_have_ended) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ended{0};
    auto joined = when_all(workers_.submit([&] { ++ended; }), workers_.submit([&] {
      ++ended;
      throw std::runtime_error("left");
    }),
                           workers_.submit([&] {
                             ++ended;
                             throw std::runtime_error("right");
                           }));
    EXPECT_EQ(message_of([&] { joined.get(); }), "left");
    EXPECT_EQ(ended, 3);
  }
}

TEST_P(futures, may_be_dropped_at_any_time) {
  std::atomic<int> calls{0};
  const int many = static_cast<int>(scaled(2'000));
  for (int i = 0; i < many; ++i) {
    auto one = workers_.submit([&] { ++calls; });
    auto other = workers_.submit([&] { ++calls; }).then([&] { ++calls; });
    auto both = when_all(std::move(one), std::move(other)).then([&](auto) { ++calls; });
    if (i % 2 == 0) both.wait();
  }
  for (int now = calls; now < 4 * many; now = calls) std::this_thread::yield();
  EXPECT_EQ(calls, 4 * many);
}

TEST_P(futures, destroy_functions_before_the_result_arrives) {
  for (int i = 0; i < 100; ++i) {
    auto one = workers_.submit([it = counted()] { return 1; });
    auto next = one.then([it = counted()](int n) { return n; });
    EXPECT_EQ(next.get(), 1);
    EXPECT_EQ(counted::alive(), 0);
  }
  // So functions may own the pool's last users, and their destructors may wait.
  struct waits {
    pool& in;
    std::atomic<int>& sum;
    waits(pool& p, std::atomic<int>& s) : in(p), sum(s) {}
    waits(waits&& other) noexcept : in(other.in), sum(other.sum), last(std::exchange(other.last, false)) {}
    ~waits() {
      if (last) sum += in.submit([] { return 1; }).get();
    }
    bool last = true;
  };
  std::atomic<int> sum{0};
  for (int i = 0; i < 20; ++i) workers_.submit([it = waits(workers_, sum)] {}).get();
  EXPECT_EQ(sum, 20);
}

TEST_P(futures, are_broken_when_their_pool_ends) {
  constexpr int many = 50;
  gate closed;
  std::vector<future<int>> queued, after;
  std::optional<future<int>> begun;
  std::optional<future<std::string>> told;
  std::jthread opener, waits;
  {
    pool short_lived({.workers = GetParam().workers, .publish_always = GetParam().publish_always});
    // All threads are busy.
    std::vector<future<void>> busy;
    for (unsigned i = 0; i < GetParam().workers; ++i) busy.push_back(short_lived.submit([&] { closed.pass(); }));
    closed.await_arrivals(GetParam().workers);
    for (int i = 0; i < many; ++i) queued.push_back(short_lived.submit([it = counted(), i] { return i; }));
    for (int i = 0; i < many; ++i) after.push_back(short_lived.submit([] { return 1; }).then([](int n) { return n; }));
    told = short_lived.submit([] { return 1; }).then([](future<int> it) { return message_of([&] { it.get(); }); });
    begun = when_all(std::move(busy)).then([it = counted()] { return 2; });
    future<int> taken = std::move(queued.front());
    queued.erase(queued.begin());
    opener = std::jthread([&] {
      while (!queued.back().is_ready()) std::this_thread::yield();  // until the pool ends
      closed.open();
    });
    waits = std::jthread([first = std::move(taken)]() mutable {
      try {
        EXPECT_EQ(first.get(), 0);  // by this thread, if the pool does not end before
      } catch (const broken_promise&) {
      }
    });
    std::this_thread::sleep_for(1ms);
  }
  opener.join();
  waits.join();
  for (auto& each : queued) EXPECT_THROW(each.get(), broken_promise);
  for (auto& each : after) EXPECT_THROW(each.get(), broken_promise);
  EXPECT_THROW(told->get(), broken_promise);
  EXPECT_THROW(begun->get(), broken_promise);  // what it follows was finished, but nothing could call it
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(futures, submitted_while_the_pool_ends_are_kept_or_broken) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> kept{0}, broken{0}, submitted{0};
    {
      pool short_lived({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
      for (int i = 0; i < 8; ++i)
        static_cast<void>(short_lived.submit([&] {
          for (int k = 0; k < 20; ++k) {
            ++submitted;
            try {
              short_lived.submit([&] { ++kept; }).get();
            } catch (const broken_promise&) {
              ++broken;
            }
          }
        }));
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    }
    EXPECT_EQ(kept + broken, submitted);
  }
}

TEST_P(futures, of_a_pool_that_has_ended_reach_other_pools) {
  gate closed;
  std::optional<future<int>> it;
  {
    pool short_lived({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
    auto slow = workers_.submit([&] { return closed.pass(), 1; });
    it = when_all(short_lived.submit([] { return 2; }), std::move(slow)).then([](auto) { return 3; });
  }
  closed.open();
  EXPECT_THROW(it->get(), broken_promise);
}

TEST_P(futures, are_waited_for_by_fibers) {
  std::atomic<long> sum{0};
  const auto team = [&] {
    std::vector<muster::fiber> all;
    for (long n = 0; n < 8; ++n)
      all.emplace_back([&, n] {
        auto own = workers_.submit([n] { return n; });
        auto next = workers_.submit([] { return fib(10); }).then([](long a) { return a; });
        sum += own.get() + next.get();
      });
    for (auto& each : all) each.join();
  };
  team();
  EXPECT_EQ(sum, 28 + 8 * 55);
  workers_.submit(team).get();
  workers_.run(team);
  EXPECT_EQ(sum, 3 * (28 + 8 * 55));
}

// The other fibers of the thread run, although the function is queued: only they let the pool execute it.
TEST_P(futures, are_waited_for_by_fibers_for_a_limited_time) {
  gate closed;
  std::vector<future<void>> busy;
  for (unsigned i = 0; i < GetParam().workers; ++i) busy.push_back(workers_.submit([&] { closed.pass(); }));
  closed.await_arrivals(GetParam().workers);
  auto late = workers_.submit([] {});
  muster::fiber waits([&] { EXPECT_TRUE(late.wait_for(10s)); });
  muster::fiber opens([&] { closed.open(); });
  waits.join();
  opens.join();
  when_all(std::move(busy)).get();
}

TEST_P(futures, run_on_no_more_threads_than_workers_and_those_that_wait) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto look = [&] {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<future<void>> all;
    for (int i = 0; i < 200; ++i) all.push_back(workers_.submit([&] { fib(8), look(); }));
    workers_.run([&] {
      look();
      muster::parallel_for(0, 1000, [&](int) { look(); });
    });
    when_all(std::move(all)).wait();
  }
  EXPECT_LE(threads.size(), GetParam().workers + 1);
}

// The thread that the first submit() adds. It may still be looking for work when a thread enters the pool, but not
// always.
TEST_P(futures, leave_a_thread_that_rests_while_another_is_inside_run) {
  int rested = 0;
  for (int round = 0; round < 5; ++round) {
    workers_.submit([] {}).wait();
    std::mutex mutex;
    std::set<std::thread::id> threads;
    workers_.run([&] {
      muster::parallel_for(0, 40, [&](int) {
        std::this_thread::sleep_for(500us);
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
    });
    if (threads.size() <= GetParam().workers) ++rested;
  }
  EXPECT_GE(rested, 3);
}

TEST(a_future, whose_waiting_thread_executes_the_function_delays_the_end_of_the_pool) {
  gate closed;
  std::atomic<bool> begun{false}, ended{false};
  future<void> queued;
  auto one = std::make_unique<pool>(muster::pool_options{.workers = 1, .stack_bytes = muster_test::small_stack});
  static_cast<void>(one->submit([&] { closed.pass(); }));
  closed.await_arrivals(1);  // the only thread is busy
  auto executed = one->submit([&] {
    begun = true;
    begun.notify_one();
    while (!queued.is_ready()) std::this_thread::yield();  // until the pool ends
    closed.open();
    std::this_thread::sleep_for(20ms);  // time for a pool that does not wait
    EXPECT_FALSE(ended);
  });
  queued = one->submit([] {});
  std::jthread waits([&] { executed.get(); });
  begun.wait(false);
  one = nullptr;
  ended = true;
}

// One input is in a pool that has no place for the thread that waits. Only that thread can execute the other input.
TEST(a_future, is_waited_for_by_executing_what_has_a_place) {
  pool full({.workers = 1, .stack_bytes = muster_test::small_stack});
  pool other({.workers = 1, .stack_bytes = muster_test::small_stack});
  pool third({.workers = 1, .stack_bytes = muster_test::small_stack});
  gate in_full, in_other, crowded;
  auto all = when_all(full.submit([&] { in_full.pass(); }), other.submit([&] { in_other.pass(); }));
  in_full.await_arrivals(1);
  in_other.await_arrivals(1);
  // One thread takes all places that are left, going back and forth between two pools.
  std::function<void()> enter = [&] {
    try {
      full.run([&] { third.run(enter); });
    } catch (const std::length_error&) {
      crowded.pass();
    }
  };
  std::jthread crowd(enter);
  crowded.await_arrivals(1);
  auto both = when_all(full.submit([] { return 1; }), other.submit([] { return 2; }));
  muster::fiber waits([&] { EXPECT_EQ(both.get(), std::make_tuple(1, 2)); });
  muster::fiber opens([&] { in_full.open(); });  // when the first has been refused
  waits.join();
  opens.join();
  crowded.open();
  in_other.open();
  all.get();
}

TEST(a_future, is_completed_by_its_own_thread_if_the_system_has_no_more) {
  if (muster_test::sanitized) GTEST_SKIP() << "sanitizers need the memory that is taken away here";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit memory{std::size_t{1} << 30U, std::size_t{1} << 30U};
    if (::setrlimit(RLIMIT_AS, &memory) != 0) ::_exit(1);
    pool alone({.workers = 1, .stack_bytes = std::size_t{2} << 30U});
    int calls = 0;
    static_cast<void>(alone.submit([&] {
      ++calls;
      static_cast<void>(alone.submit([&] { ++calls; }).then([&] { ++calls; }));
    }));
    if (calls != 3) ::_exit(2);
    const int sum = alone.run([&] { return alone.submit([&] { return ++calls; }).get(); });
    muster::task_group group(alone);
    group.run([&] { ++calls; });
    group.wait();
    ::_exit(sum == 4 && calls == 5 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(a_future, whose_function_ends_its_own_pool_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto one = std::make_unique<pool>(muster::pool_options{.workers = 1});
        pool& same = *one;
        same.submit([own = std::move(one)]() mutable { own = nullptr; }).wait();
      },
      "pool::~pool: called by a thread inside the pool");
}

TEST(a_future, in_a_child_process_is_refused_unless_it_is_ready) {
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  gate closed;
  auto ready = two.submit([] { return 1; });
  ready.wait();
  auto late = two.submit([&] { closed.pass(); });
  closed.await_arrivals(1);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = ready.is_ready() && !late.is_ready();
    right = right && message_of([&] { late.wait(); }).find("in the parent of this process") != std::string::npos;
    right = right && message_of([&] { static_cast<void>(two.submit([] {})); }).find("parent of this process") !=
                         std::string::npos;
    right = right &&
            message_of([&] { static_cast<void>(late.then([] {})); }).find("in the parent of this") != std::string::npos;
    right = right && ready.get() == 1;
    if (!muster_test::thread_sanitized) {  // which creates no threads in a child of a process that has some
      pool own({.workers = 2, .stack_bytes = muster_test::small_stack});
      right = right && own.submit([] { return 2; }).get() == 2;
    }
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  closed.open();
  late.get();
}

}  // namespace
