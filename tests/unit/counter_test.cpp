// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The counter: values at their limits, every way to add (directly, by groups, for the fibers of a thread), more threads
// than processors, operations of other objects, the ends of threads and of the counter, and children of fork(2).
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "message_of.hpp"
#include "scale.hpp"

namespace {

using muster::basic_counter;
using muster::counter;
using muster::counter_options;
using muster_test::scaled;
namespace wait = muster::wait;

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// Every way to add.
const std::vector<std::pair<std::string, counter_options>> ways = {
    {"as on this machine", {}},
    {"groups of eight", {.gather_from = 0}},
    {"groups of two", {.gather_from = 0, .group = 2}},
    {"a group of one", {.gather_from = 0, .group = 1}},
    {"the largest groups", {.gather_from = 0, .group = 28}},
    {"groups for the first threads only", {.gather_from = 0, .group = 2, .threads = 3}},
    {"groups when two threads meet", {.gather_from = 2, .look_every = 2}},
    {"directly", {.gather_from = 1'000'000, .look_every = 1}},
};

TEST(a_counter, has_the_value_that_was_added) {
  for (const auto& [name, options] : ways) {
    counter one(5, options);
    EXPECT_EQ(one.load(), 5) << name;
    EXPECT_EQ(one.fetch_add(3), 5) << name;
    one.add(10);
    EXPECT_EQ(one.fetch_add(0), 18) << name;
    EXPECT_EQ(one.fetch_add(-20), 18) << name;
    EXPECT_EQ(one.load(), -2) << name;
  }
  counter none;
  EXPECT_EQ(none.load(), 0);
}

TEST(a_counter, wraps_around) {
  for (const auto& [name, options] : ways) {
    counter one(most, options);
    EXPECT_EQ(one.fetch_add(1), most) << name;
    EXPECT_EQ(one.fetch_add(-1), least) << name;
    EXPECT_EQ(one.fetch_add(least), most) << name;
    EXPECT_EQ(one.load(), -1) << name;
    one.add(most);
    one.add(most);
    EXPECT_EQ(one.load(), -3) << name;
  }
}

TEST(a_counter, refuses_options_that_make_no_sense) {
  EXPECT_THROW(counter(0, {.group = 0}), std::invalid_argument);
  EXPECT_EQ(muster_test::message_of([] { counter(0, {.group = 29}); }),
            "counter_options::group is 29; it must be from 1 to 28");
  EXPECT_THROW(counter(0, {.look_every = 0}), std::invalid_argument);
}

TEST(a_counter, is_small) { EXPECT_LE(sizeof(counter), 256U); }

/// Threads that add different numbers, with fibers or without. All results together must be those of the additions one
/// after another.
template <class Counter>
void expect_exact(const std::string& name, const counter_options& options, unsigned carriers, unsigned fibers,
                  std::size_t each, bool negative) {
  struct addition {
    std::int64_t before;
    std::int64_t by;
  };
  constexpr std::int64_t first = most - 1000;  // wraps around on the way
  Counter one(first, options);
  std::vector<std::vector<addition>> done(std::size_t{carriers} * fibers);
  muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
    auto& own = done[std::size_t{carrier} * fibers + fiber];
    own.reserve(each);
    for (std::size_t i = 0; i < each; ++i) {
      // Mostly 1, which groups treat as a special case. The sum of all never repeats: it grows.
      const std::int64_t by = i % 3 != 0 ? 1 : static_cast<std::int64_t>(1 + (carrier + i) % 5);
      const std::int64_t n = negative ? -by : by;
      own.push_back({one.fetch_add(n), n});
      if (i % 7 == 0) muster::this_fiber::yield();
    }
  });
  std::vector<addition> all;
  for (const auto& own : done) all.insert(all.end(), own.begin(), own.end());
  const auto distance = [&](std::int64_t value) {
    const std::uint64_t from_first = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(first);
    return negative ? 0 - from_first : from_first;
  };
  std::sort(all.begin(), all.end(), [&](auto& a, auto& b) { return distance(a.before) < distance(b.before); });
  auto expected = static_cast<std::uint64_t>(first);
  for (const addition& a : all) {
    ASSERT_EQ(static_cast<std::uint64_t>(a.before), expected) << name;
    expected += static_cast<std::uint64_t>(a.by);
  }
  EXPECT_EQ(static_cast<std::uint64_t>(one.load()), expected) << name;
  for (const auto& own : done)
    for (std::size_t i = 1; i < own.size(); ++i)
      ASSERT_LT(distance(own[i - 1].before), distance(own[i].before)) << name << ": a thread's own are out of order";
}

TEST(a_counter, is_exact_among_threads) {
  for (const auto& [name, options] : ways) expect_exact<counter>(name, options, 4, 1, scaled(20'000), false);
}
TEST(a_counter, is_exact_with_negative_numbers) {
  for (const auto& [name, options] : ways) expect_exact<counter>(name, options, 3, 1, scaled(10'000), true);
}
TEST(a_counter, is_exact_among_fibers) {
  for (const auto& [name, options] : ways) expect_exact<counter>(name, options, 3, 7, scaled(3'000), false);
}
TEST(a_counter, is_exact_among_fibers_of_one_thread) {
  for (const auto& [name, options] : ways) expect_exact<counter>(name, options, 1, 16, scaled(2'000), true);
}
TEST(a_counter, is_exact_among_eight_times_as_many_threads) {
  for (const auto& [name, options] : ways) expect_exact<counter>(name, options, 16, 1, scaled(2'000), false);
}
TEST(a_counter, is_exact_however_its_threads_wait) {
  for (const auto& [name, options] : ways) {
    expect_exact<basic_counter<wait::park>>(name, options, 4, 1, scaled(3'000), false);
    expect_exact<basic_counter<wait::park>>(name, options, 3, 5, scaled(500), true);
    expect_exact<basic_counter<wait::spin>>(name, options, 3, 1, scaled(3'000), false);
    expect_exact<basic_counter<wait::spin>>(name, options, 2, 5, scaled(500), true);
  }
}

TEST(a_counter, can_be_used_in_operations_of_other_objects) {
  for (const auto& [name, options] : ways) {
    counter inner(0, options);
    muster::osci<std::vector<std::int64_t>> outer;
    const auto each = static_cast<std::int64_t>(scaled(500));
    muster::run_team({.carriers = 2, .fibers = 4}, [&](unsigned, unsigned fiber) {
      for (std::int64_t i = 0; i < each; ++i) {
        if (fiber % 2 == 0) inner.add(1);
        else outer.apply([&inner](auto& all) { all.push_back(inner.fetch_add(1)); });
      }
    });
    EXPECT_EQ(inner.load(), 8 * each) << name;
    outer.apply([&, &called = name](auto& all) {
      EXPECT_EQ(all.size(), static_cast<std::size_t>(4 * each)) << called;
      EXPECT_TRUE(std::is_sorted(all.begin(), all.end())) << called;
    });
  }
}

/// The thread that takes the last ticket destroys the dispenser, while others may still be returning.
TEST(a_counter, may_be_destroyed_by_its_last_user) {
  constexpr unsigned users = 4;
  for (const auto& [name, options] : ways)
    for (std::size_t round = 0; round < scaled(150); ++round) {
      auto* const one = new counter(0, options);
      std::atomic<unsigned> ended{0};
      {
        std::vector<std::jthread> all;
        for (unsigned i = 0; i < users; ++i)
          all.emplace_back([one, &ended] {
            for (int n = 0; n < 3; ++n)
              if (one->fetch_add(1) == 3 * users - 1) {
                delete one;
                ++ended;
              }
          });
      }
      ASSERT_EQ(ended, 1U) << name;
    }
}

TEST(a_counter, may_be_destroyed_by_a_fiber) {
  constexpr std::int64_t fibers = 6;
  for (const auto& [name, options] : ways)
    for (std::size_t round = 0; round < scaled(100); ++round) {
      auto* const one = new counter(0, options);
      std::atomic<unsigned> ended{0};
      muster::run_team({.carriers = 2, .fibers = fibers / 2}, [&](unsigned, unsigned) {
        if (one->fetch_add(1) == fibers - 1) {
          delete one;
          ++ended;
        }
      });
      ASSERT_EQ(ended, 1U) << name;
    }
}

/// Counts when its thread ends, after the thread's other data.
struct counts_at_end {
  counter* to = nullptr;
  ~counts_at_end() {
    if (to != nullptr) to->add(1);
  }
};

TEST(a_counter, can_be_used_while_a_thread_ends) {
  for (const auto& [name, options] : ways) {
    counter one(0, options);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::jthread> all;
      for (int i = 0; i < 3; ++i)
        all.emplace_back([&one] {
          static thread_local counts_at_end last;
          last.to = &one;
          one.add(1);
        });
    }
    EXPECT_EQ(one.load(), 120) << name;
  }
}

#if !MUSTER_TEST_THREAD_SANITIZED
/// Threads of the parent are in the middle of additions, some as delegates that the child does not have.
TEST(a_counter, counts_on_in_a_child_of_fork) {
  for (const auto& [name, options] : ways) {
    auto one = std::make_unique<counter>(0, options);
    std::atomic<bool> over{false};
    std::vector<std::jthread> all;
    for (int i = 0; i < 3; ++i)
      all.emplace_back([&] {
        while (!over) one->add(1);
      });
    for (int i = 0; i < 100; ++i) one->add(1);
    for (std::size_t round = 0; round < scaled(5); ++round) {
      const pid_t child = ::fork();
      if (child == 0) {
        const std::int64_t before = one->load();
        bool right = true;
        for (std::int64_t i = 0; i < 1000; ++i) right = right && one->fetch_add(1) == before + i;
        one.reset();
        ::_exit(right ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << name << ", round " << round;
    }
    over = true;
  }
}
#endif

}  // namespace
