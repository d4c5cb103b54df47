// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The threads of a pool: their names, their processors, the observers of their beginning and end; and the options of
// the default pool.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::pool;
using muster::pool_options;
using muster_test::fib;
using muster_test::small_stack;

std::string own_name() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

std::set<int> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::set<int> all;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) all.insert(cpu);
  return all;
}

TEST(threads_of_a_pool, have_names) {
  const std::string before = own_name();
  std::mutex mutex;
  std::set<std::string> names;
  {
    pool named({.workers = 4, .stack_bytes = small_stack, .name = "a rather long name", .on_end = [&](unsigned) {
                  const std::lock_guard lock(mutex);
                  names.insert(own_name());
                }});
    named.submit([] {}).get();  // creates the last thread
    EXPECT_EQ(named.run([] { return own_name(); }), before);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a rather long-0", "a rather long-1", "a rather long-2", "a rather long-3"}));
  std::string unnamed;
  {
    pool two({.workers = 2, .stack_bytes = small_stack, .on_end = [&](unsigned) { unnamed = own_name(); }});
  }
  EXPECT_EQ(unnamed, before);
}

TEST(threads_of_a_pool, stay_on_a_processor_if_asked_to) {
  const std::set<int> before = own_processors();
  for (const bool pin : {true, false}) {
    std::mutex mutex;
    std::vector<std::set<int>> of_threads;
    {
      pool some({.workers = 4, .stack_bytes = small_stack, .pin = pin, .on_start = [&](unsigned) {
                   const std::lock_guard lock(mutex);
                   of_threads.push_back(own_processors());
                 }});
      EXPECT_EQ(some.run([] { return fib(12); }), 144);
      EXPECT_EQ(some.run([] { return own_processors(); }), before);
    }
    EXPECT_EQ(of_threads.size(), 3U);
    std::set<int> used;
    for (const std::set<int>& one : of_threads) {
      if (pin) {
        EXPECT_EQ(one.size(), 1U);
      } else {
        EXPECT_EQ(one, before);
      }
      used.insert(one.begin(), one.end());
    }
    EXPECT_GE(used.size(), std::min<std::size_t>(before.size(), 3)) << "the next thread is not on the next processor";
  }
}

TEST(threads_of_a_pool, are_observed_when_they_begin_and_end) {
  for (const unsigned workers : {1U, 2U, 5U})
    for (const bool submits : {false, true}) {
      std::mutex mutex;
      std::set<unsigned> begun, ended;
      std::set<std::thread::id> threads;
      std::atomic<int> wrong{0};
      {
        pool* self = nullptr;
        std::atomic<bool> made{false};
        pool observed({.workers = workers,
                       .stack_bytes = small_stack,
                       .on_start =
                           [&](unsigned index) {
                             made.wait(false);
                             if (self->worker_index() != index || fib(8) != 21) ++wrong;  // it is inside the pool
                             const std::lock_guard lock(mutex);
                             begun.insert(index);
                             threads.insert(std::this_thread::get_id());
                           },
                       .on_end =
                           [&](unsigned index) {
                             if (self->worker_index() != index) ++wrong;
                             const std::lock_guard lock(mutex);
                             if (threads.count(std::this_thread::get_id()) == 0) ++wrong;
                             ended.insert(index);
                           }});
        self = &observed;
        made = true;
        made.notify_all();
        EXPECT_EQ(observed.run([] { return fib(12); }), 144);
        if (submits) {
          EXPECT_EQ(observed.submit([] { return fib(12); }).get(), 144);
        }
      }
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(begun, ended);
      EXPECT_EQ(threads.size(), begun.size());
      EXPECT_EQ(begun.size(), workers - (submits ? 0 : 1));
    }
}

TEST(the_default_pool, has_options_if_they_are_chosen_in_time) {
  if (muster_test::thread_sanitized) GTEST_SKIP() << "it creates no threads in a child process";
  const pid_t child = ::fork();
  if (child == 0) {
    const auto refused = [](const char* why) {
      try {
        pool::configure_shared({.workers = 2});
      } catch (const std::logic_error& error) {
        return std::string(error.what()).find(why) != std::string::npos;
      }
      return false;
    };
    std::atomic<int> begun{0};
    pool::configure_shared({.workers = 3, .stack_bytes = small_stack, .on_start = [&](unsigned) { ++begun; }});
    bool right = refused("called a second time");
    right = right && fib(10) == 55 && pool::shared().workers() == 3;
    right = right && refused("exists already");
    while (begun < 2) std::this_thread::yield();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
