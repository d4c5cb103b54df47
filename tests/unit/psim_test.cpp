// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim: results, each operation once, threads that come and go, refusals, linearizable histories, and a thread that is
// stopped inside an operation and stops no other.
#include <gtest/gtest.h>
#include <muster/combine/psim.hpp>
#include <muster/fiber/team.hpp>

#include "clock.hpp"
#include "object_specs.hpp"
#include "scale.hpp"
#include "wing_gong_lowe.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::combine_options;
using muster::psim;
using muster::psim_options;

auto adding(std::uint64_t what) {
  return [what](std::uint64_t& state) noexcept { return std::exchange(state, state + what); };
}

// --------------------------------------------------------------------------------------------- what it takes and gives

TEST(psim, gives_results_of_every_small_kind) {
  psim<float> object({}, 2.0F);
  EXPECT_EQ(object.apply([k = 3.0F](float& f) noexcept { return std::exchange(f, f * k); }), 2.0F);
  EXPECT_EQ(object.load(), 6.0F);
  object.apply([](float& f) noexcept { f += 1; });
  EXPECT_TRUE(object.apply([](const float& f) noexcept { return f == 7.0F; }));
  struct pair {
    std::int32_t first, second;
  };
  const pair two = object.apply([](float& f) noexcept { return pair{static_cast<std::int32_t>(f), -1}; });
  EXPECT_EQ(two.first, 7);
  EXPECT_EQ(two.second, -1);
  object.check();
}

float half(float& f) noexcept { return f /= 2; }

TEST(psim, takes_functions) {
  psim<float> object({}, 8.0F);
  EXPECT_EQ(object.apply(half), 4.0F);
  EXPECT_EQ(object.apply(&half), 2.0F);
}

struct three_words {
  std::uint64_t a, b, c;
};

TEST(psim, changes_states_of_several_words_at_once) {
  psim<three_words> object({}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3});
  object.apply([](three_words& s) noexcept { std::swap(s.a, s.c); });
  const three_words now = object.load();
  EXPECT_EQ(now.a, 3U);
  EXPECT_EQ(now.b, 2U);
  EXPECT_EQ(now.c, 1U);
}

struct not_default {
  explicit not_default(char c) noexcept : letter(c) {}
  char letter;
};

TEST(psim, needs_no_default_constructor) {
  psim<not_default> object({}, 'a');
  EXPECT_EQ(object.apply([](not_default& s) noexcept { return s.letter++; }), 'a');
  EXPECT_EQ(object.load().letter, 'b');
}

TEST(psim, refuses_options_that_make_no_sense) {
  EXPECT_THROW(psim<int>({.threads = 0}), std::invalid_argument);
  EXPECT_THROW(psim<int>({.batch = 0}), std::invalid_argument);
  EXPECT_THROW(psim<int>({.threads = 65'537}), std::invalid_argument);
  EXPECT_NO_THROW(psim<int>({.threads = 65'536}));
}

struct large {
  std::byte bytes[257];
};
struct owner {
  std::unique_ptr<int> owned;
};
struct largest {
  std::byte bytes[256];
};
static_assert(muster::psim_state<float> && muster::psim_state<three_words> && muster::psim_state<largest>);
static_assert(!muster::psim_state<large> && !muster::psim_state<owner> && !muster::psim_state<std::string>);
static_assert(!muster::psim_state<int&> && !muster::psim_state<const int>);

template <class State, class F>
constexpr bool takes(F) {
  return muster::psim_operation<F, State>;
}
static_assert(takes<int>([](int&) noexcept {}) && takes<float>(half) &&
              takes<int>([](const int& i) noexcept { return i; }));
static_assert(!takes<int>([](int&) {}), "it may throw");
static_assert(!takes<int>([n = 1](int& i) mutable noexcept { i = n++; }), "it changes itself");
static_assert(!takes<int>([a = std::array<int, 3>{}](int& i) noexcept { i = a[0]; }), "it has twelve bytes");
static_assert(!takes<int>([](int& i) noexcept -> int& { return i; }), "a reference to a copy of the state");
static_assert(!takes<int>([](int&) noexcept { return three_words{}; }), "a result of 24 bytes");
static_assert(!takes<int>([](int&) noexcept { return std::unique_ptr<int>(); }), "a result that owns");
static_assert(!takes<int>([](std::string&) noexcept {}), "another state");
static_assert(!muster::psim_operation<std::string, int>, "no function");
static_assert(!std::constructible_from<psim<int>, combine_options, std::string>);
static_assert(std::constructible_from<psim<int>, combine_options, psim_options, int>);

// ------------------------------------------------------------------------------------------------- each operation once

struct addition {
  std::uint64_t answer, argument;
};

/// Every answer must be the sum of the arguments of all additions before it, in some one order.
void expect_one_order(std::vector<addition> all, std::uint64_t last) {
  std::sort(all.begin(), all.end(), [](const addition& a, const addition& b) { return a.answer < b.answer; });
  std::uint64_t sum = 0;
  for (const addition& a : all) {
    ASSERT_EQ(a.answer, sum) << "an operation is lost, executed twice, or executed with another's argument";
    sum += a.argument;
  }
  EXPECT_EQ(last, sum);
}

struct crowd {
  unsigned carriers, fibers, batch;
  bool yields, alone_first;
};

class a_crowd : public ::testing::TestWithParam<crowd> {};

TEST_P(a_crowd, has_each_operation_executed_once) {
  const crowd& c = GetParam();
  psim<std::uint64_t> object({.threads = 32, .batch = c.batch},
                             {.yield_after_announcing = c.yields, .alone_first = c.alone_first});
  const std::size_t each = muster_test::scaled(400'000) / (c.carriers * c.fibers) + 1;
  std::vector<std::vector<addition>> logs(c.carriers * c.fibers);
  muster::run_team({.carriers = c.carriers, .fibers = c.fibers}, [&](unsigned carrier, unsigned fiber) {
    const unsigned self = carrier * c.fibers + fiber;
    for (std::size_t i = 0; i < each; ++i) {
      const std::uint64_t argument = i * logs.size() + self + 1;
      const std::uint64_t answer =
          i % 2 == 0 ? object.apply(adding(argument))
                     : object.apply([argument](std::uint64_t& s) noexcept { return std::exchange(s, s + argument); });
      logs[self].push_back({answer, argument});
      if (i % 64 == 0) {
        EXPECT_GE(object.load(), answer + argument);
      }
    }
  });
  object.check();
  std::vector<addition> all;
  for (const auto& log : logs) {
    EXPECT_TRUE(std::is_sorted(log.begin(), log.end(), [](auto& a, auto& b) { return a.answer < b.answer; }));
    all.insert(all.end(), log.begin(), log.end());
  }
  expect_one_order(std::move(all), object.load());
}

// Requests left in the places of the larger one are not executed again.
TEST(psim, executes_a_batch_that_is_smaller_than_the_last_one) {
  psim<std::uint64_t> object({.threads = 4}, {.alone_first = false});
  muster::run_team({.carriers = 1, .fibers = 3}, [&](unsigned, unsigned fiber) {
    object.apply(adding(fiber == 0 ? 1 : fiber == 1 ? 10 : 100));
  });
  object.apply(adding(1000));
  EXPECT_EQ(object.load(), 1111U);
}

INSTANTIATE_TEST_SUITE_P(of, a_crowd,
                         ::testing::Values(crowd{1, 1, 64, true, true}, crowd{2, 1, 64, true, true},
                                           crowd{4, 1, 1, true, false}, crowd{1, 20, 64, true, true},
                                           crowd{2, 16, 16, true, true}, crowd{2, 64, 64, true, false},
                                           crowd{3, 7, 3, true, true}, crowd{3, 5, 1, true, false},
                                           crowd{2, 8, 64, false, true}, crowd{3, 8, 64, false, false}),
                         [](const auto& at) {
                           const crowd& c = at.param;
                           return std::to_string(c.carriers) + "x" + std::to_string(c.fibers) + "_batch_" +
                                  std::to_string(c.batch) + (c.yields ? "_yields" : "") +
                                  (c.alone_first ? "_alone" : "");
                         });

// The larger the state, the likelier it changes while it is copied.
TEST(psim, copies_whole_states) {
  struct equal_words {
    bool mixed() const { return std::count(std::begin(at), std::end(at), at[0]) != std::ssize(at); }
    std::uint64_t at[32];
  };
  psim<equal_words> object({.threads = 16});
  std::atomic<bool> mixed{false};
  muster::run_team({.carriers = 3, .fibers = 2}, [&](unsigned carrier, unsigned) {
    for (std::size_t i = 0; i < muster_test::scaled(50'000); ++i) {
      if (carrier == 0) {
        const auto seen = object.try_load();
        if (object.load().mixed() || (seen && seen->mixed())) mixed = true;
      } else if (object.apply([](equal_words& s) noexcept {
                   const bool was_mixed = s.mixed();
                   for (std::uint64_t& word : s.at) ++word;
                   return was_mixed;
                 })) {
        mixed = true;
      }
    }
  });
  EXPECT_FALSE(mixed);
  EXPECT_EQ(object.load().at[31], 4 * muster_test::scaled(50'000));
}

// ------------------------------------------------------------------------------------------------------------- threads

TEST(threads, come_and_go) {
  psim<std::uint64_t> object({.threads = 8}, psim_options{.alone_first = false});
  for (unsigned round = 0; round < 100; ++round) {
    std::vector<std::jthread> some;
    for (unsigned t = 0; t < 1 + round % 4; ++t)
      some.emplace_back([&] {
        for (unsigned i = 0; i < 10; ++i) object.apply(adding(1));
      });
  }
  EXPECT_EQ(object.load(), 10U * 25 * (1 + 2 + 3 + 4));
}

// The bits of threads lie in words of 64, and their names in words of 4.
TEST(threads, may_be_more_than_a_word_has_bits) {
  constexpr unsigned count = 70;
  psim<std::uint64_t> object({.threads = 2 * count, .batch = 4}, psim_options{.alone_first = false});
  std::vector<std::vector<addition>> logs(count);
  std::barrier all_there(count);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        object.apply(adding(0));  // has its number
        all_there.arrive_and_wait();
        for (unsigned i = 0; i < 100; ++i) {
          const std::uint64_t argument = i * count + t + 1;
          logs[t].push_back({object.apply(adding(argument)), argument});
        }
      });
  }
  std::vector<addition> all;
  for (const auto& log : logs) all.insert(all.end(), log.begin(), log.end());
  expect_one_order(std::move(all), object.load());
}

TEST(threads, that_are_more_than_configured_are_refused) {
  psim<std::uint64_t> object({.threads = 1});
  std::atomic<unsigned> served{0}, refused{0};
  std::barrier all_there(4);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        try {
          object.apply(adding(1));
          ++served;
        } catch (const std::length_error& e) {
          EXPECT_NE(std::string(e.what()).find("combine_options::threads is 1"), std::string::npos) << e.what();
          EXPECT_THROW(object.load(), std::length_error);
          ++refused;
        }
        all_there.arrive_and_wait();  // so no thread reuses the number of another
      });
  }
  EXPECT_EQ(served + refused, 4U);
  EXPECT_GE(refused, 3U);
}

// -------------------------------------------------------------------------------------------------------------- misuse

using misuse_DeathTest = ::testing::Test;

TEST(misuse_DeathTest, an_operation_that_applies_another) {
  static psim<int> object;
  EXPECT_DEATH(object.apply([](int&) noexcept { object.apply([](int&) noexcept {}); }),
               "from within one of its own operations");
}

TEST(misuse_DeathTest, an_operation_that_yields) {
  static psim<int> object;
  const auto yields = [] {
    muster::fiber other([] { object.apply([](int& i) noexcept { ++i; }); });
    object.apply([](int&) noexcept { muster::this_fiber::yield(); });
    object.apply([](int&) noexcept { muster::this_fiber::yield(); });
  };
  EXPECT_DEATH(yields(), "by a fiber to which one has yielded");
}

// ----------------------------------------------------------------------------------------------------------- histories

/// Small histories of all fibers of a team, each checked exactly.
void expect_linearizable(const crowd& c, unsigned each) {
  for (std::size_t round = 0; round < muster_test::scaled(300); ++round) {
    psim<std::uint64_t> object({.threads = 16, .batch = c.batch},
                               {.yield_after_announcing = c.yields, .alone_first = c.alone_first});
    muster_test::exact_clock clock;
    std::vector<std::vector<muster_test::call>> logs(c.carriers * c.fibers);
    std::barrier all_there(c.carriers);
    muster::run_team({.carriers = c.carriers, .fibers = c.fibers}, [&](unsigned carrier, unsigned fiber) {
      if (fiber == 0) all_there.arrive_and_wait();
      const unsigned self = carrier * c.fibers + fiber;
      for (unsigned i = 0; i < each; ++i) {
        muster_test::call now{.thread = self};
        now.argument = (i + self) % 4 == 3 ? 0 : i * logs.size() + self + 1;  // 0: a load
        now.begin = clock.begin();
        now.answer = now.argument == 0 ? object.load() : object.apply(adding(now.argument));
        now.end = clock.end();
        logs[self].push_back(now);
      }
    });
    std::vector<muster_test::call> history;
    for (const auto& log : logs) history.insert(history.end(), log.begin(), log.end());
    muster_test::wing_gong_lowe<muster_test::counter_spec> search;
    ASSERT_TRUE(search.linearizable(std::span<const muster_test::call>(history))) << "round " << round;
  }
}

TEST(histories, of_threads_are_linearizable) {
  expect_linearizable({3, 1, 64, true, true}, 5);
  expect_linearizable({3, 1, 64, true, false}, 5);
}

TEST(histories, of_fibers_are_linearizable) {
  expect_linearizable({2, 4, 64, true, true}, 4);
  expect_linearizable({2, 4, 3, true, false}, 4);
}

// ------------------------------------------------------------------------------------------------------------ progress

struct trap {
  std::atomic<std::thread::id> victim;
  std::atomic<bool> inside{false}, open{false};
};

/// Adds a million, and stops the victim.
auto stopping(trap& t) {
  return [&t](std::uint64_t& state) noexcept {
    if (std::this_thread::get_id() == t.victim) {
      t.inside = true;
      t.inside.notify_all();
      t.open.wait(false);
    }
    return std::exchange(state, state + 1'000'000);
  };
}

void stop_one(bool alone_first, unsigned fibers) {
  trap t;
  psim<std::uint64_t> object({.threads = 16}, psim_options{.alone_first = alone_first});
  std::uint64_t answer = 0;
  std::jthread stopped([&] {
    t.victim = std::this_thread::get_id();
    answer = object.apply(stopping(t));
  });
  t.inside.wait(false);
  muster::run_team({.carriers = 2, .fibers = fibers}, [&](unsigned, unsigned) {
    for (unsigned i = 0; i < 100; ++i) object.apply(adding(1));
  });
  // Announced operations are executed by others; the owner will execute the rest.
  EXPECT_EQ(object.load(), 200 * fibers + (alone_first ? 0 : 1'000'000));
  t.open = true;
  t.open.notify_all();
  stopped.join();
  EXPECT_EQ(answer, alone_first ? 200 * fibers : 0);
  EXPECT_EQ(object.load(), 200 * fibers + 1'000'000);
}

TEST(a_thread_that_is_stopped_inside_its_operation, stops_no_other) {
  for (const bool alone_first : {true, false})
    for (const unsigned fibers : {1U, 8U}) stop_one(alone_first, fibers);
}

}  // namespace
