// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Pipelines: every item passes every stage once; serial stages get the items in order and one at a time; the bound on
// items under way holds; runs allocate nothing; the exception of the earliest item arrives, and earlier ones pass.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
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

using muster::parallel;
using muster::pipeline;
using muster::pool;
using muster::serial;
using muster_test::allocates_nothing;
using muster_test::gate;
using muster_test::message_of;
using muster_test::scaled;

class pipelines : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, pipelines, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

/// The numbers from 0 on, again in each run.
struct numbers {
  int end;
  int next = 0;
  std::optional<int> operator()() {
    if (next == end) return next = 0, std::nullopt;
    return next++;
  }
};

TEST_P(pipelines, pass_every_item_through_every_stage_in_order) {
  const auto many = static_cast<int>(scaled(5'000));
  for (const std::size_t in_flight : {1U, 2U, 3U, 16U}) {
    std::vector<std::atomic<int>> squared(static_cast<std::size_t>(many));
    std::vector<long> first, last;
    pipeline line(workers_, {.in_flight = in_flight}, serial(numbers{many}), serial([&](int n) {
                    first.push_back(n);
                    return n;
                  }),
                  parallel([&](int n) {
                    ++squared[static_cast<std::size_t>(n)];
                    return static_cast<long>(n) * n;
                  }),
                  parallel([](long n) { return std::to_string(n); }), serial([&](const std::string& text) {
                    last.push_back(std::stol(text));
                    return 0;
                  }));
    EXPECT_EQ(line.in_flight(), in_flight);
    for (int run = 1; run <= 3; ++run) {
      first.clear();
      last.clear();
      if (run == 2) workers_.run([&] { line.run(); });
      else if (run == 3) workers_.submit([&] { line.run(); }).get();
      else line.run();
      ASSERT_EQ(first.size(), static_cast<std::size_t>(many));
      ASSERT_EQ(last.size(), static_cast<std::size_t>(many));
      for (int n = 0; n < many; ++n) {
        const auto at = static_cast<std::size_t>(n);
        ASSERT_EQ(first[at], n);
        ASSERT_EQ(last[at], static_cast<long>(n) * n);
        ASSERT_EQ(squared[at], run);
      }
    }
  }
}

TEST_P(pipelines, have_no_more_items_under_way_than_they_may) {
  for (const int most : {1, 2, 5}) {
    std::atomic<int> under_way{0}, too_many{0}, in_serial{0};
    pipeline line(workers_, {.in_flight = static_cast<std::size_t>(most)},
                  serial([n = 0, &under_way, &too_many, most]() mutable {
                    if (n == 500) return n = 0, std::optional<int>();
                    if (++under_way > most) ++too_many;
                    return std::optional(n++);
                  }),
                  parallel([](int n) {
                    if (n % 50 == 0) std::this_thread::yield();
                    return n;
                  }),
                  serial([&](int n) {
                    if (++in_serial != 1) ++too_many;
                    --in_serial;
                    return n;
                  }),
                  parallel([&](int) { --under_way; }));
    line.run();
    EXPECT_EQ(too_many, 0);
    EXPECT_EQ(under_way, 0);
  }
}

TEST_P(pipelines, run_again_without_allocating) {
  long sum = 0;
  pipeline line(workers_, serial(numbers{100}), parallel([](int n) { return 2 * n; }),
                serial([&](int n) { sum += n; }));
  int runs = 0;
  EXPECT_TRUE(allocates_nothing([&] {
    line.run();
    ++runs;
  }));
  EXPECT_EQ(sum, runs * 9900L);
}

TEST_P(pipelines, let_stages_work_at_the_same_time) {
  if (GetParam().workers < 2) return;
  gate both;
  pipeline line(workers_, {.in_flight = 2}, serial(numbers{2}), parallel([&](int) { both.pass(); }));
  std::jthread opens([&] {
    both.await_arrivals(2);
    both.open();
  });
  line.run();
}

TEST_P(pipelines, may_be_empty_and_nest) {
  int calls = 0;
  pipeline nothing(workers_, serial([&] { return ++calls, std::optional<int>(); }), serial([&](int) { ++calls; }));
  nothing.run();
  nothing.run();
  EXPECT_EQ(calls, 2);

  std::atomic<int> sum{0};
  pipeline outer(workers_, serial(numbers{20}), parallel([&](int n) {
                   pipeline inner(workers_, serial(numbers{n}),
                                  parallel([&](int k) { muster::fork2([&] { sum += k; }, [&] { ++sum; }); }));
                   inner.run();
                   muster::task_graph graph;
                   graph.add([&] { ++sum; });
                   graph.run(workers_);
                 }));
  outer.run();
  EXPECT_EQ(sum, 1140 + 190 + 20);
}

TEST_P(pipelines, move_items_and_destroy_them) {
  const auto owned = std::make_shared<int>(0);
  using box = std::unique_ptr<std::shared_ptr<int>>;
  int left = 50;
  std::size_t most = 0;
  pipeline line(workers_, serial([&] {
                  if (left-- == 0) return std::optional<box>();
                  return std::optional(std::make_unique<std::shared_ptr<int>>(owned));
                }),
                parallel([](box one) { return std::array<box, 2>{std::move(one), nullptr}; }),
                serial([&](std::array<box, 2> two) {
                  most = std::max(most, static_cast<std::size_t>(owned.use_count()));
                  return std::move(two[0]);
                }),
                parallel([](box&&) {}));
  line.run();
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_LE(most, line.in_flight() + 1);
}

// And run again as if nothing had been thrown, whichever stage it was.
TEST_P(pipelines, throw_what_a_loop_would_throw) {
  for (const int bad : {0, 1, 17, 99}) {
    for (const int stage : {0, 1, 2, 3}) {
      const auto owned = std::make_shared<int>(0);
      bool fails = true;
      const auto check = [&](int at, int n) {
        if (fails && at == stage && n >= bad) throw std::runtime_error(std::to_string(n));
      };
      int next = 0;
      std::vector<std::atomic<int>> passed(100);
      std::vector<int> last;
      using item = std::pair<int, std::shared_ptr<int>>;
      pipeline line(workers_, {.in_flight = 8}, serial([&]() -> std::optional<item> {
                      if (next == 100) return std::nullopt;
                      check(0, next);
                      return item(next++, owned);
                    }),
                    serial([&](item one) { return check(1, one.first), one; }), parallel([&](item one) {
                      check(2, one.first);
                      ++passed[static_cast<std::size_t>(one.first)];
                      return one;
                    }),
                    serial([&](const item& one) {
                      check(3, one.first);
                      last.push_back(one.first);
                    }));
      for (int run = 1; run <= 3; ++run) {
        fails = run != 3;
        next = 0;
        last.clear();
        for (std::atomic<int>& each : passed) each = 0;
        if (fails) ASSERT_EQ(message_of([&] { line.run(); }), std::to_string(bad)) << "stage " << stage;
        else line.run();
        ASSERT_EQ(last.size(), static_cast<std::size_t>(fails ? bad : 100)) << "stage " << stage;  // all earlier items
        for (int n = 0; n < static_cast<int>(last.size()); ++n) {
          ASSERT_EQ(last[static_cast<std::size_t>(n)], n);
          ASSERT_EQ(passed[static_cast<std::size_t>(n)], 1);
        }
        ASSERT_EQ(owned.use_count(), 1);
      }
    }
  }
}

TEST_P(pipelines, take_no_further_item_after_a_stop) {
  std::stop_source stop;
  int made = 0, ended = 0;
  pipeline line(workers_, serial([&] { return std::optional(++made); }), parallel([&](int n) {
                  if (n == 200) stop.request_stop();
                  return n;
                }),
                serial([&](int) { ++ended; }));
  line.run(stop.get_token());
  EXPECT_EQ(ended, made);
  EXPECT_GE(made, 200);
  EXPECT_LT(made, 201 + static_cast<int>(line.in_flight()));
  line.run(stop.get_token());
  EXPECT_EQ(ended, made);
}

TEST_P(pipelines, are_run_by_one_thread_at_a_time) {
  gate closed;
  pipeline line(workers_, serial(numbers{1}), serial([&](int) { closed.pass(); }));
  std::jthread runs([&] { line.run(); });
  closed.await_arrivals(1);
  EXPECT_NE(message_of([&] { line.run(); }).find("the pipeline is running already"), std::string::npos);
  closed.open();
  runs.join();
  line.run();
}

TEST_P(pipelines, are_run_by_fibers) {
  std::atomic<long> sum{0};
  const auto team = [&] {
    std::vector<muster::fiber> fibers;
    for (int i = 0; i < 6; ++i)
      fibers.emplace_back([&] {
        pipeline line(workers_, serial(numbers{50}), parallel([](int n) { return n; }),
                      serial([&](int n) { sum += n; }));
        line.run();
        line.run();
      });
    for (auto& each : fibers) each.join();
  };
  team();
  workers_.run(team);
  EXPECT_EQ(sum, 2 * 6 * 2 * 1225);
}

TEST_P(pipelines, of_a_pool_that_ends_are_executed_or_broken) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> kept{0}, broken{0}, runs{0};
    {
      pool short_lived({.workers = GetParam().workers, .stack_bytes = muster_test::small_stack});
      for (int i = 0; i < 8; ++i)
        static_cast<void>(short_lived.submit([&] {
          int ended = 0;
          int next = 0;
          pipeline line(short_lived, serial([&] { return next == 10 ? std::optional<int>() : std::optional(next++); }),
                        parallel([](int n) { return n; }), serial([&](int n) { ended += n == ended ? 1 : 100; }));
          for (int k = 0; k < 20; ++k) {
            ++runs;
            ended = next = 0;
            try {
              line.run();
              kept += ended == 10 ? 1 : 0;
            } catch (const muster::broken_promise&) {
              broken += ended <= 10 ? 1 : 0;
            }
          }
        }));
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    }
    EXPECT_EQ(kept + broken, runs);
  }
}

TEST(a_pipeline, of_a_pool_that_is_ending_is_executed_by_its_thread) {
  int sum = 0;
  gate closed;
  muster::future<void> queued;
  {
    pool ending({.workers = 1, .stack_bytes = muster_test::small_stack});
    static_cast<void>(ending.submit([&] {
      closed.pass();
      while (!queued.is_ready()) std::this_thread::yield();  // until the pool ends
      pipeline late(ending, serial(numbers{10}), parallel([](int n) { return n; }), serial([&](int n) { sum += n; }));
      late.run();
    }));
    closed.await_arrivals(1);
    queued = ending.submit([] {});  // the only thread is busy
    closed.open();
  }
  EXPECT_THROW(queued.get(), muster::broken_promise);
  EXPECT_EQ(sum, 45);
}

// Item 1 has its turn at the third stage, and no thread for it, when the pool ends.
TEST(a_pipeline, of_a_pool_that_ends_calls_no_stage_on_the_thread_that_ends_it) {
  const auto here = std::this_thread::get_id();
  std::atomic<int> calls_here{0};
  std::atomic<bool> has_two{false}, broken{false};
  gate busy;  // items 0 and 2
  muster::future<void> queued;
  std::thread opener;
  {
    pool ending({.workers = 2, .stack_bytes = muster_test::small_stack});
    static_cast<void>(ending.submit([&] {
      const auto count = [&](int n) {
        calls_here += std::this_thread::get_id() == here ? 1 : 0;
        return n;
      };
      pipeline line(ending, {.in_flight = 3}, serial(numbers{3}), parallel([&](int n) {
                      if (n == 2) {
                        has_two = true;
                        busy.pass();
                      }
                      return count(n);
                    }),
                    serial([&](int n) {
                      while (n == 0 && !has_two) std::this_thread::yield();
                      return count(n);
                    }),
                    parallel([&](int n) {
                      if (n == 0) busy.pass();
                      count(n);
                    }));
      try {
        line.run();
      } catch (const muster::broken_promise&) {
        broken = true;
      }
    }));
    busy.await_arrivals(2);
    queued = ending.submit([] {});  // behind item 1
    opener = std::thread([&] {
      while (!queued.is_ready()) std::this_thread::yield();  // until the pool ends
      busy.open();
    });
  }
  opener.join();
  EXPECT_EQ(calls_here, 0);
  EXPECT_TRUE(broken);
}

class without_address {
 public:
  explicit without_address(int n) : n_(n) {}
  void operator&() const = delete;
  without_address doubled() const { return without_address(2 * n_); }
  int number() const { return n_; }

 private:
  int n_;
};

TEST(a_pipeline, takes_hostile_items_and_pointers_to_members) {
  int next = 0, sum = 0;
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  pipeline line(two, serial([&] { return next == 4 ? std::nullopt : std::optional<without_address>(next++); }),
                parallel(&without_address::doubled), parallel(&without_address::number),
                serial([&](int n) { sum += n; }));
  line.run();
  EXPECT_EQ(sum, 12);
}

// Items 0 and 1 are in the parallel stage at the same time; one of them throws, then the other one returns.
TEST(a_pipeline, passes_earlier_items_and_destroys_later_ones) {
  for (const int bad : {0, 1}) {
    pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
    const auto owned = std::make_shared<int>(0);
    using item = std::pair<int, std::shared_ptr<int>>;
    std::atomic<int> arrived{0};
    std::atomic<bool> thrown{false};
    std::vector<int> last;
    pipeline line(two, {.in_flight = 2}, serial([&, n = 0]() mutable {
                    return n == 2 ? std::optional<item>() : std::optional(item(n++, owned));
                  }),
                  parallel([&](item one) {
                    ++arrived;
                    while (arrived != 2) std::this_thread::yield();
                    if (one.first == bad) {
                      thrown = true;
                      throw std::runtime_error("bad");
                    }
                    while (!thrown) std::this_thread::yield();
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the exception is noted
                    return one;
                  }),
                  serial([&](const item& one) { last.push_back(one.first); }));
    EXPECT_EQ(message_of([&] { line.run(); }), "bad");
    EXPECT_EQ(last.size(), static_cast<std::size_t>(bad));
    EXPECT_EQ(owned.use_count(), 1);
  }
}

TEST(a_pipeline, has_four_items_for_each_worker_under_way) {
  pool three({.workers = 3, .stack_bytes = muster_test::small_stack});
  pipeline line(three, serial(numbers{1}), serial([](int) {}));
  EXPECT_EQ(line.in_flight(), 12U);
  const muster::pipeline_options options{.in_flight = 7};
  pipeline other(three, options, serial(numbers{1}), parallel([](int) {}));
  EXPECT_EQ(other.in_flight(), 7U);
  pipeline(three, serial(numbers{1}), serial([](int) {})).run();
}

TEST(a_pipeline, that_ends_while_it_runs_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        pool one({.workers = 1});
        std::function<void()> end;
        const auto last = [&](int) { end(); };
        auto line = std::make_unique<decltype(pipeline(one, serial(numbers{1}), serial(last)))>(one, serial(numbers{1}),
                                                                                                serial(last));
        end = [&] { line.reset(); };
        line->run();
      },
      "pipeline::~pipeline: the pipeline is running");
}

TEST(a_pipeline, in_a_child_process_is_refused) {
  pool two({.workers = 2, .stack_bytes = muster_test::small_stack});
  pipeline line(two, serial(numbers{1}), serial([](int) {}));
  line.run();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(message_of([&] { line.run(); }).find("parent of this process") != std::string::npos ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
