// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of a pool: how many threads work in them, whose these are, and that everything else is as in a pool.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counting_allocator.hpp"
#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::pool;
using muster_test::fib;
using muster_test::scaled;
using muster_test::small_stack;

pool of(unsigned workers) { return pool({.workers = workers, .stack_bytes = small_stack}); }

/// The threads that have executed something, and the largest number that did so at a time.
class crowd {
 public:
  void operator()() {
    const unsigned now = ++inside_;
    unsigned before = most_;
    while (before < now && !most_.compare_exchange_weak(before, now)) {
    }
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --inside_;
  }
  unsigned most() const { return most_; }
  std::set<std::thread::id> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  std::atomic<unsigned> inside_{0}, most_{0};
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

/// Waits until other threads have executed something that `here` can only get from them.
void await(const std::atomic<int>& count, int least) {
  while (count < least) std::this_thread::yield();
}

class a_part : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(, a_part, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

TEST_P(a_part, has_results_as_a_pool) {
  for (const unsigned workers : {1U, 2U, 3U, 100U}) {
    pool part = workers_.part(workers);
    EXPECT_EQ(part.workers(), std::min(workers, workers_.workers()));
    EXPECT_EQ(part.engine(), workers_.engine());
    for (int i = 0; i < 20; ++i) EXPECT_EQ(part.run([] { return fib(12); }), 144);
    std::vector<int> numbers(1000);
    std::iota(numbers.rbegin(), numbers.rend(), 0);
    EXPECT_EQ(part.run([&] {
      muster::parallel_sort(numbers);
      return muster::parallel_reduce(numbers.begin(), numbers.end(), 0, std::plus<>());
    }),
              499'500);
    EXPECT_TRUE(std::ranges::is_sorted(numbers));
    EXPECT_EQ(part.submit([] { return fib(10); }).get(), 55);
    std::atomic<int> done{0};
    part.run([&] {
      muster::finish([&](muster::async_scope& scope) {
        for (int i = 0; i < 100; ++i) scope.async([&] { ++done; });
      });
    });
    muster::task_group group(part);
    for (int i = 0; i < 100; ++i) group.run([&] { ++done; });
    group.wait();
    muster::task_graph graph;
    const auto first = graph.add([&] { ++done; });
    graph.add([&] { ++done; }, muster::after(first));
    graph.run(part);
    EXPECT_EQ(done, 202);
  }
}

TEST_P(a_part, has_exceptions_as_a_pool) {
  pool part = workers_.part(2);
  for (int i = 0; i < 20; ++i) {
    try {
      part.run(
          [] { muster::fork2([] { throw std::runtime_error("left"); }, [] { throw std::logic_error("right"); }); });
      ADD_FAILURE() << "nothing thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "left");
    }
    EXPECT_THROW(part.submit([]() -> int { throw std::out_of_range("it"); }).get(), std::out_of_range);
    EXPECT_THROW(part.run([] {
      muster::parallel_for(0, 100, [](int at) {
        if (at == 77) throw std::length_error("77");
      });
    }),
                 std::length_error);
  }
  EXPECT_EQ(part.run([] { return fib(10); }), 55);
}

TEST_P(a_part, stops_as_a_pool) {
  pool part = workers_.part(2);
  std::stop_source stop;
  std::atomic<int> turns{0};
  part.run([&] {
    muster::parallel_for(0, 1'000'000,
                         [&](int) {
                           if (++turns == 100) stop.request_stop();
                         },
                         {.grain = 1, .stop = stop.get_token()});
  });
  EXPECT_GE(turns, 100);
  EXPECT_LT(turns, 1'000'000);
}

TEST_P(a_part, may_be_nested) {
  pool outer = workers_.part(3);
  pool inner = outer.part(2);
  for (int i = 0; i < 20; ++i) {
    const auto [a, b, c] = workers_.run([&] {
      return muster::parallel_invoke(
          [&] { return outer.run([&] { return inner.run([] { return fib(14); }) + fib(11); }); },
          [&] { return inner.run([&] { return outer.run([] { return fib(13); }); }); }, [] { return fib(12); });
    });
    EXPECT_EQ(a, 377 + 89);
    EXPECT_EQ(b, 233);
    EXPECT_EQ(c, 144);
  }
}

// Several threads use several parts and the pool, all at once.
TEST_P(a_part, may_be_used_by_many_threads) {
  pool one = workers_.part(1), two = workers_.part(2);
  std::atomic<long> sum{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t)
      threads.emplace_back([&, t] {
        pool& mine = t % 3 == 0 ? one : t % 3 == 1 ? two : workers_;
        for (int i = 0; i < static_cast<int>(scaled(600)); ++i) {
          sum += mine.run([] { return fib(9); });
          sum += mine.submit([] { return 1L; }).get();
        }
      });
  }
  EXPECT_EQ(sum, 6 * static_cast<long>(scaled(600)) * 35);
}

// Threads that come, call run once and end, some in the middle of it.
TEST_P(a_part, is_entered_by_threads_that_end) {
  struct shared {
    pool& part;
    std::atomic<long> sum{0};
  };
  pool part = workers_.part(2);
  shared with{part};
  for (int i = 0; i < static_cast<int>(scaled(100)); ++i) {
    ::pthread_t thread{};
    const auto call = [](void* as) -> void* {
      auto& [one, sum] = *static_cast<shared*>(as);
      sum += one.run([] { return fib(8); });
      one.run([] { ::pthread_exit(nullptr); });
      ADD_FAILURE() << "it has not ended";
      return nullptr;
    };
    ASSERT_EQ(::pthread_create(&thread, nullptr, call, &with), 0);
    ::pthread_join(thread, nullptr);
  }
  EXPECT_EQ(with.sum, static_cast<long>(scaled(100)) * 21);
  EXPECT_EQ(part.run([] { return fib(10); }), 55);
}

TEST_P(a_part, may_end_at_any_time) {
  for (int i = 0; i < static_cast<int>(scaled(1000)); ++i) {
    pool part = workers_.part(1 + i % 3);
    const bool forks = i % 2 == 0;
    muster::future<long> late = part.submit([forks] { return forks ? fib(6) : 8L; });
    if (i % 5 != 0) {
      EXPECT_EQ(late.get(), 8);
    }
    if (i % 7 == 0) EXPECT_EQ(part.run([] { return fib(8); }), 21);
  }
  EXPECT_EQ(workers_.run([] { return fib(10); }), 55);
}

TEST(the_threads_of_a_part, are_as_many_as_asked_for) {
  pool whole = of(6);
  for (const unsigned workers : {1U, 2U, 3U, 6U}) {
    pool part = whole.part(workers);
    for (const bool by_asyncs : {false, true}) {
      crowd seen;
      part.run([&] {
        if (!by_asyncs) return muster::parallel_for(0, 200, [&](int) { seen(); }, {.grain = 1});
        muster::finish([&](muster::async_scope& scope) {
          for (int i = 0; i < 200; ++i) scope.async([&] { seen(); });
        });
      });
      EXPECT_LE(seen.most(), workers);
      EXPECT_GE(seen.most(), 1U);
    }
    crowd seen;
    muster::task_group group(part);
    for (int i = 0; i < 100; ++i) group.run([&] { seen(); });
    while (seen.threads().empty()) std::this_thread::yield();
    group.wait();
    EXPECT_LE(seen.most(), workers + 1) << "and the thread that waits";
  }
}

// Turns that wait for each other: all the workers of the part must come, however often they have left.
TEST(the_threads_of_a_part, come_when_there_is_work) {
  pool whole = of(4);
  pool part = whole.part(3);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> here{0};
    part.run([&] {
      muster::parallel_for(0, 3,
                           [&](int) {
                             ++here;
                             await(here, 3);
                           },
                           {.grain = 1});
    });
    EXPECT_EQ(here, 3);
    here = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they leave
    part.run([&] {
      muster::finish([&](muster::async_scope& scope) {
        for (int i = 0; i < 3; ++i)
          scope.async([&] {
            ++here;
            await(here, 3);
          });
      });
    });
    EXPECT_EQ(here, 3);
    here = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<muster::future<void>> all;
    for (int i = 0; i < 3; ++i)
      all.push_back(part.submit([&] {
        ++here;
        await(here, 3);
      }));
    await(here, 3);  // no thread waits for a future
    for (auto& one : all) one.get();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(the_threads_of_a_part, are_the_pools) {
  std::mutex mutex;
  std::set<std::thread::id> own;
  pool whole({.workers = 3, .stack_bytes = small_stack, .on_start = [&](unsigned) {
                const std::lock_guard lock(mutex);
                own.insert(std::this_thread::get_id());
              }});
  whole.submit([] {}).get();  // the last thread
  crowd seen;
  {
    pool part = whole.part(3);
    part.run([&] { muster::parallel_for(0, 300, [&](int) { seen(); }, {.grain = 1}); });
    for (int i = 0; i < 30; ++i) part.submit([&] { seen(); }).get();
  }
  own.insert(std::this_thread::get_id());
  for (const std::thread::id thread : seen.threads()) EXPECT_TRUE(own.contains(thread));
}

// A thread that is in a part and finds nothing there serves the pool again; one that is busy does not keep the others.
TEST(the_threads_of_a_part, return_to_the_pool) {
  pool whole = of(3);
  pool part = whole.part(3);
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> over{false};
    std::atomic<int> done{0};
    std::jthread inside([&] {
      part.run([&] {
        muster::parallel_for(0, 100, [&](int) { ++done; }, {.grain = 1});
        while (!over) std::this_thread::yield();
      });
    });
    await(done, 100);
    std::atomic<int> both{0};
    auto one = whole.submit([&] { ++both, await(both, 2); });
    auto other = whole.submit([&] { ++both, await(both, 2); });
    await(both, 2);
    one.get(), other.get();
    over = true;
  }
}

// Even if the part always has work.
TEST(the_threads_of_a_part, leave_functions_of_the_pool_waiting_briefly) {
  pool whole = of(3);
  pool part = whole.part(3);
  whole.submit([] {}).get();  // the last thread
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> over{false};
    std::atomic<int> turns{0};
    std::jthread busy([&] {
      part.run([&] {
        while (!over)
          muster::parallel_for(0, 1000,
                               [&](int) {
                                 ++turns;
                                 std::this_thread::sleep_for(std::chrono::microseconds(50));
                               },
                               {.grain = 1});
      });
    });
    await(turns, 1000);
    std::atomic<int> here{0};
    std::vector<muster::future<void>> all;
    for (int i = 0; i < 20; ++i) all.push_back(whole.submit([&] { ++here; }));
    await(here, 20);  // no thread waits for a future
    over = true;
    for (auto& one : all) one.get();
  }
}

// Also while they are in a part.
TEST(the_threads_of_a_part, hear_announcements) {
  pool whole = of(3);
  pool part = whole.part(3);
  pool inner = part.part(2);
  whole.submit([] {}).get();
  for (pool* const with : {&part, &inner}) {
    std::atomic<bool> over{false};
    std::atomic<int> turns{0};
    std::jthread busy([&] {
      with->run([&] {
        while (!over)  // there is always work
          muster::parallel_for(0, 1000,
                               [&](int) {
                                 ++turns;
                                 std::this_thread::sleep_for(std::chrono::microseconds(20));
                               },
                               {.grain = 1});
      });
    });
    for (int i = 0; i < static_cast<int>(scaled(20)); ++i) {
      turns = 0;
      await(turns, 200);
      std::atomic<unsigned> calls{0};
      whole.run_on_all([&] { ++calls; });
      EXPECT_EQ(calls, 4U);
    }
    over = true;
  }
}

TEST(the_threads_of_a_part, have_indices_there) {
  pool whole = of(4);
  pool part = whole.part(2);
  std::atomic<int> wrong{0};
  muster::per_worker<int> turns(part);
  part.run([&] {
    if (whole.worker_index().has_value()) ++wrong;
    muster::parallel_for(0, 200,
                         [&](int) {
                           if (const auto index = part.worker_index(); !index || *index > 2) ++wrong;
                           ++turns.local();
                         },
                         {.grain = 1});
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(turns.combine(std::plus<>()), 200);
}

// A mutex that is held across a join in the part: a thread that waits there executes nothing else of the part, and
// nothing of the pool.
TEST(a_join_in_a_part, executes_only_what_it_waits_for) {
  pool whole = of(3);
  pool part = whole.part(2);
  std::mutex mutex;
  long sum = 0;
  const auto locked = [&] {
    const std::lock_guard lock(mutex);
    sum += muster::parallel_reduce(0, 50, 0L, std::plus<>(), [](int) {
      std::this_thread::yield();
      return 1L;
    });
  };
  for (int i = 0; i < static_cast<int>(scaled(200)); ++i) {
    std::vector<muster::future<void>> all;
    for (int f = 0; f < 3; ++f) all.push_back(whole.submit(locked)), all.push_back(part.submit(locked));
    part.run([&] { muster::fork2(locked, locked); });
    for (auto& one : all) one.get();
  }
  EXPECT_EQ(sum, static_cast<long>(scaled(200)) * 8 * 50);
}

TEST(a_wrong_part, is_refused) {
  pool whole = of(2);
  for (const long none : {0L, -1L, 1L << 40}) EXPECT_THROW(static_cast<void>(whole.part(none)), std::invalid_argument);
  pool part = whole.part(1);
  EXPECT_THROW(part.run_on_all([] {}), std::logic_error);
  EXPECT_THROW(part.run([&] { whole.run_on_all([] {}); }), std::logic_error);
}

TEST(a_wrong_part, that_outlives_its_pool_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::optional<pool> whole(std::in_place, 2);
        pool part = whole->part(1);
        whole.reset();
      },
      "a part of the pool still exists");
}

TEST(a_child_process, has_no_parts) {
  pool whole = of(2);
  pool part = whole.part(2);
  EXPECT_EQ(part.run([] { return fib(10); }), 55);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int refused = 0;
    try {
      part.run([] { return 0; });
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      static_cast<void>(whole.part(1));
    } catch (const std::logic_error&) {
      ++refused;
    }
    ::_exit(refused);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(part.run([] { return fib(10); }), 55);
}

#if !defined(MUSTER_SANITIZED)
// Otherwise the function would wait until there is another one.
TEST(a_thread_without_memory, is_called_again) {
  pool whole = of(1);  // its only thread is lent
  pool part = whole.part(1);
  std::atomic<int> done{0};
  const auto by_thread = [&](pool& in, const auto& function) {
    const int before = done;
    auto ignored = in.submit([&, function] {
      function();
      ++done;
    });
    await(done, before + 1);  // get() would execute it
  };
  by_thread(whole, [] { muster_test::allocations_left = 0; });
  auto waits = part.submit([&] { ++done; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(done, 1);
  by_thread(whole, [] { muster_test::allocations_left = muster_test::for_ever; });
  await(done, 3);
}
#endif

// Without a thread to lend, the caller executes everything.
TEST(a_part_of_one_worker, has_the_serial_order) {
  pool whole = of(1);
  pool part = whole.part(4);
  EXPECT_EQ(part.workers(), 1U);
  std::vector<int> order;
  part.run([&] {
    muster::finish([&](muster::async_scope& scope) {
      for (int i = 0; i < 10; ++i) scope.async([&, i] { order.push_back(i); });
    });
  });
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(order.size(), 10U);
}

}  // namespace
