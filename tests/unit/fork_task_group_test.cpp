// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Task groups: every task is executed once before the wait is over, whichever thread runs it; groups nest in a pool of
// one worker; the first exception arrives; a stop drops the rest.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fork_settings.hpp"
#include "gate.hpp"
#include "message_of.hpp"
#include "scale.hpp"

namespace {

using muster::pool;
using muster::task_group;
using muster_test::gate;
using muster_test::message_of;
using muster_test::scaled;

class groups : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, groups, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

long fib(pool& in, long n) {
  if (n < 2) return n;
  long a = 0;
  task_group half(in);
  half.run([&] { a = fib(in, n - 1); });
  const long b = fib(in, n - 2);
  half.wait();
  return a + b;
}

TEST_P(groups, are_over_when_each_task_has_been_executed_once) {
  const std::size_t many = scaled(50'000);
  std::vector<std::atomic<int>> executions(many);
  task_group all(workers_);
  for (std::size_t i = 0; i < many; ++i) all.run([&, i] { ++executions[i]; });
  all.wait();
  for (const auto& one : executions) ASSERT_EQ(one, 1);
  all.wait();  // for nothing
  // Again, and inside the pool; with a context.
  workers_.run([&] {
    for (std::size_t i = 0; i < 100; ++i)
      all.run([&, i](muster::context here) { here.fork2([&] { ++executions[i]; }, [&] { ++executions[i]; }); });
    all.wait();
  });
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(executions[i], 3);
}

TEST_P(groups, take_tasks_from_any_thread) {
  const std::size_t many = scaled(5'000);
  std::atomic<std::size_t> sum{0};
  task_group all(workers_);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < many; ++i) all.run([&, i] { sum += i; });
      });
    all.wait();  // for some of them
    EXPECT_LE(sum, 2 * many * (many - 1));
  }
  std::vector<std::jthread> waiters;
  for (int t = 0; t < 3; ++t)
    waiters.emplace_back([&] {
      all.wait();
      EXPECT_EQ(sum, 2 * many * (many - 1));
    });
  all.wait();
  EXPECT_EQ(sum, 2 * many * (many - 1));
}

TEST_P(groups, nest) {
  EXPECT_EQ(fib(workers_, 15), 610);
  EXPECT_EQ(workers_.run([&] { return fib(workers_, 15); }), 610);
  EXPECT_EQ(workers_.submit([&] { return fib(workers_, 12); }).get(), 144);
  pool other({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
  std::function<int(int)> cross = [&](int n) {
    if (n == 0) return 1;
    int a = 0;
    task_group one(n % 2 == 0 ? workers_ : other);
    one.run([&] { a = cross(n - 1); });
    one.run([] {});
    one.wait();
    return a + 1;
  };
  EXPECT_EQ(cross(10), 11);
}

TEST_P(groups, hold_trees_and_chains_of_tasks_of_any_size) {
  std::atomic<std::size_t> visits{0};
  task_group all(workers_);
  std::function<void(int)> tree = [&](int depth) {
    ++visits;
    if (depth == 0) return;
    for (int i = 0; i < 2; ++i) all.run([&, depth] { tree(depth - 1); });
  };
  tree(12);
  all.wait();
  EXPECT_EQ(visits, 8191U);

  const auto many = static_cast<int>(scaled(10'000));
  std::atomic<int> left{20 * many};
  std::function<void(int)> chain = [&](int n) {
    --left;
    if (n > 1) all.run([&, n] { chain(n - 1); });
  };
  for (int i = 0; i < 20; ++i) all.run([&] { chain(many); });
  all.wait();
  EXPECT_EQ(left, 0);
}

// One task runs the next forever until another task, which was run before, has been executed.
TEST_P(groups, starve_no_task) {
  for (const bool outside : {true, false}) {
    std::atomic<bool> reached{false};
    task_group all(workers_);
    std::function<void()> chain = [&] {
      if (!reached) all.run(chain);
    };
    const auto start = [&] {
      all.run([&] {
        all.run([&] { reached = true; });
        for (int i = 0; i < 10; ++i) all.run(chain);
      });
    };
    if (outside) all.run(chain), all.run([&] { reached = true; });
    else start();
    while (!reached) std::this_thread::yield();
    all.wait();
  }
}

TEST_P(groups, may_be_waited_for_while_a_mutex_is_held) {
  std::mutex one;
  std::atomic<int> locked{0};
  task_group all(workers_);
  for (int i = 0; i < 50; ++i)
    all.run([&, i] {
      const std::lock_guard holds(one);
      if (i % 2 == 0) {
        EXPECT_EQ(fib(workers_, 6), 8);
      }
      ++locked;
    });
  all.wait();
  EXPECT_EQ(locked, 50);
}

TEST_P(groups, rethrow_the_first_exception_when_all_have_ended) {
  task_group all(workers_);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ended{0};
    all.run([&] { ++ended; });
    all.run([&] {
      ++ended;
      throw std::runtime_error("mine");
    });
    for (int i = 0; i < 10; ++i) all.run([&] { ++ended; });
    EXPECT_EQ(message_of([&] { all.wait(); }), "mine");
    EXPECT_EQ(ended, 12);
    EXPECT_EQ(message_of([&] { all.wait(); }), "nothing");
  }
  for (int i = 0; i < 10; ++i) all.run([] { throw std::runtime_error("all"); });
  EXPECT_EQ(message_of([&] { all.wait(); }), "all");
  // Through groups within groups.
  EXPECT_EQ(message_of([&] {
              task_group outer(workers_);
              outer.run([&] {
                task_group inner(workers_);
                inner.run([] { throw std::runtime_error("inner"); });
                inner.wait();
              });
              outer.wait();
            }),
            "inner");
}

TEST_P(groups, wait_in_their_destructors) {
  std::atomic<int> ended{0};
  {
    task_group all(workers_);
    for (int i = 0; i < 1000; ++i) all.run([&] { ++ended; });
  }
  EXPECT_EQ(ended, 1000);
  // While an exception leaves the scope, those of the tasks are dropped.
  const std::string text = message_of([&] {
    task_group all(workers_);
    for (int i = 0; i < 10; ++i)
      all.run([&] {
        ++ended;
        throw std::runtime_error("dropped");
      });
    throw std::runtime_error("mine");
  });
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(ended, 1010);
}

TEST_P(groups, drop_tasks_that_have_not_begun_when_a_stop_is_requested) {
  std::stop_source stop;
  std::atomic<int> executed{0};
  const auto owned = std::make_shared<int>(1);
  task_group all(workers_, stop.get_token());
  all.run([&] { ++executed; });
  all.wait();
  gate closed;
  for (unsigned i = 0; i < GetParam().workers; ++i) all.run([&] { closed.pass(); });
  closed.await_arrivals(GetParam().workers);  // all threads of the pool are busy
  for (int i = 0; i < 100; ++i) all.run([&, owned] { ++executed; });
  stop.request_stop();
  all.run([&, owned] { ++executed; });
  closed.open();
  all.wait();
  EXPECT_EQ(executed, 1);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_P(groups, destroy_tasks_before_the_wait_is_over) {
  /// Takes some time to end.
  struct slow {
    std::atomic<int>& ended;
    explicit slow(std::atomic<int>& count) : ended(count) {}
    slow(const slow&) = delete;
    slow& operator=(const slow&) = delete;
    ~slow() {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      ++ended;
    }
  };
  std::atomic<int> ended{0};
  for (int i = 0; i < 50; ++i) {
    task_group all(workers_);
    for (int k = 0; k < 3; ++k) all.run([own = std::make_unique<slow>(ended)] {});
    all.wait();
    ASSERT_EQ(ended, 3 * (i + 1));
  }
}

TEST_P(groups, end_and_begin_quickly) {
  const auto many = static_cast<int>(scaled(5'000));
  std::atomic<int> ended{0};
  for (int i = 0; i < many; ++i) {
    task_group all(workers_);
    all.run([&] { ++ended; });
    if (i % 3 == 0) all.run([&] { ++ended; });
    if (i % 2 == 0) all.wait();
  }
  EXPECT_EQ(ended, many + (many + 2) / 3);
}

TEST_P(groups, are_used_by_fibers) {
  std::atomic<long> sum{0};
  const auto team = [&] {
    task_group shared(workers_);
    std::vector<muster::fiber> all;
    for (long n = 0; n < 8; ++n)
      all.emplace_back([&, n] {
        task_group own(workers_);
        own.run([&, n] { sum += n; });
        shared.run([&] { ++sum; });
        own.wait();
      });
    for (auto& each : all) each.join();
    shared.wait();
  };
  team();
  workers_.submit(team).get();
  workers_.run(team);
  EXPECT_EQ(sum, 3 * (28 + 8));
}

TEST_P(groups, of_a_pool_that_ends_are_kept_or_broken) {
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> kept{0}, broken{0}, waited{0};
    {
      pool short_lived({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
      for (int i = 0; i < 8; ++i)
        static_cast<void>(short_lived.submit([&] {
          for (int k = 0; k < 20; ++k) {
            ++waited;
            task_group own(short_lived);
            for (int t = 0; t < 3; ++t) own.run([] {});
            try {
              own.wait();
              ++kept;
            } catch (const muster::broken_promise&) {
              ++broken;
            }
          }
        }));
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    }
    EXPECT_EQ(kept + broken, waited);
  }
}

TEST(a_group, of_a_pool_that_is_ending_is_broken) {
  bool executed = false;
  gate closed;
  muster::future<void> queued;
  {
    pool ending({.workers = 1, .stack_bytes = muster_test::small_stack});
    static_cast<void>(ending.submit([&] {
      closed.pass();
      while (!queued.is_ready()) std::this_thread::yield();  // until the pool ends
      task_group late(ending);
      late.run([&] { executed = true; });
      EXPECT_THROW(late.wait(), muster::broken_promise);
      EXPECT_NO_THROW(late.wait());
    }));
    closed.await_arrivals(1);
    queued = ending.submit([] {});  // the only thread is busy
    closed.open();
  }
  EXPECT_THROW(queued.get(), muster::broken_promise);
  EXPECT_FALSE(executed);
}

TEST(a_group, keeps_the_exception_of_the_task_that_ends_first) {
  muster::detail::group_count tasks;
  const auto first = std::make_exception_ptr(std::runtime_error("first"));
  for (int i = 0; i < 4; ++i) tasks.begin();
  tasks.end(nullptr);
  tasks.end(first);
  tasks.end(std::make_exception_ptr(std::runtime_error("second")));
  tasks.end(nullptr);
  EXPECT_TRUE(tasks.is_over());
  EXPECT_EQ(tasks.take_error(), first);
  EXPECT_EQ(tasks.take_error(), nullptr);
}

TEST(a_group, in_the_default_pool_needs_no_pool_of_its_own) {
  std::atomic<int> ended{0};
  task_group all;
  for (int i = 0; i < 100; ++i) all.run([&] { ++ended; });
  all.wait();
  EXPECT_EQ(ended, 100);
}

TEST(a_group, that_would_wait_for_itself_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool one({.workers = 1});
        task_group all(one);
        all.run([&] { all.wait(); });
        all.wait();
      },
      "task_group::wait: called by a task of the group");
}

TEST(a_group, whose_exception_nothing_takes_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool one({.workers = 1});
        task_group all(one);
        all.run([] { throw std::runtime_error("unseen"); });
      },
      "a task has thrown an exception that no wait");
}

TEST(a_group, in_a_child_process_is_refused) {
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  auto all = std::make_unique<task_group>(two);
  gate closed;
  all->run([&] { closed.pass(); });
  closed.await_arrivals(1);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = message_of([&] { all->wait(); }).find("parent of this process") != std::string::npos;
    right = right && message_of([&] { all->run([] {}); }).find("parent of this process") != std::string::npos;
    all = nullptr;  // does not wait
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  closed.open();
  all->wait();
}

}  // namespace
