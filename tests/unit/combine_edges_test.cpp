// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Combining objects at the edges of what they promise: the state is one object with one address, whatever its type;
// operations within operations, also by way of fibers; and how many threads use an object.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "combine_kinds.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster_test::in_one_round;

template <class Kind>
class combine_edges : public ::testing::Test {};
TYPED_TEST_SUITE(combine_edges, muster_test::combining_kinds, muster_test::kind_names);

// ----------------------------------------------------------------------------------------------------------- the state

enum class colour : std::uint8_t { red, green };
struct pair_of_numbers {
  std::uint64_t first = 0, second = 0;
  bool operator==(const pair_of_numbers&) const = default;
};

/// Small operations and large ones, with and without results, that throw and that do not, one by one and side by side:
/// each is given the same object, and finds it as the one before has left it, by its address and by a reference.
template <class Object>
void expect_one_state(const typename Object::state_type& one, const typename Object::state_type& other) {
  using state = typename Object::state_type;
  Object object(combine_options{}, one);
  state* const home = object.apply([](state& s) { return &s; });
  state& kept = object.apply([](state& s) -> state& { return s; });
  EXPECT_EQ(&kept, home);
  unsigned elsewhere = 0, stale = 0;
  for (int round = 0; round < 3; ++round) {
    in_one_round(object, 24, [&](unsigned i) {
      const bool flips = i % 2 == 0;
      if (i % 3 == 0) {
        elsewhere += object.apply([home](state& s) { return &s != home; });
      } else if (i % 3 == 1) {
        object.apply([home](state&) noexcept { *home = state(*home); });
      } else {
        object.apply([&, home](state& s) {
          elsewhere += &s != home;
          *home = flips ? one : other;
          stale += s != (flips ? one : other);
          kept = other;
          stale += s != other;
        });
      }
    });
  }
  EXPECT_EQ(elsewhere, 0U) << "an operation has been given a copy of the state";
  EXPECT_EQ(stale, 0U) << "the state is not what an operation has made it";
  EXPECT_TRUE(object.apply([](const state& s) { return s; }) == other);
}

TYPED_TEST(combine_edges, there_is_one_state) {
  expect_one_state<typename TypeParam::template of<std::uint64_t>>(1, 2);
}
TEST(osci_edges, there_is_one_state_of_any_type) {
  expect_one_state<muster::osci<double>>(1.5, 2.5);
  expect_one_state<muster::osci<bool>>(true, false);
  expect_one_state<muster::osci<colour>>(colour::red, colour::green);
  expect_one_state<muster::osci<pair_of_numbers>>({1, 2}, {3, 4});
}

/// Rows of small requests on a number, some of which throw: every result is that of its own request.
TYPED_TEST(combine_edges, results_of_numbers_are_their_own) {
  typename TypeParam::template of<std::uint64_t> object;
  constexpr unsigned many = 40;
  std::vector<std::uint64_t> seen;
  unsigned thrown = 0;
  in_one_round(object, many, [&](unsigned i) {
    try {
      const auto result = object.apply([i](std::uint64_t& n) {
        n = n * 64 + i;
        if (i % 7 == 3) throw std::runtime_error("refused");
        return n;
      });
      EXPECT_EQ(result % 64, i);
      seen.push_back(result);
    } catch (const std::runtime_error&) {
      EXPECT_EQ(i % 7, 3U);
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 6U);
  EXPECT_EQ(seen.size(), many - 6U);
}

// ------------------------------------------------------------------------------------- operations within operations

TYPED_TEST(combine_edges, a_fiber_that_an_operation_joins_may_not_apply) {
  typename TypeParam::template of<std::uint64_t> object;
  unsigned refused = 0;
  const auto try_it = [&] {
    try {
      object.apply([](std::uint64_t& n) { ++n; });
    } catch (const std::logic_error&) {
      ++refused;
    }
  };
  object.apply([&](std::uint64_t& n) {
    muster::fiber inner(try_it);
    inner.join();
    ++n;
  });
  EXPECT_EQ(refused, 1U);
  // One that has begun before it is joined; and one that it joins.
  object.apply([&](std::uint64_t& n) {
    muster::fiber last([&] { muster::this_fiber::yield(), try_it(); });
    muster::fiber middle([&] {
      last.join();
      try_it();
    });
    muster::this_fiber::yield();
    middle.join();
    try_it();
    ++n;
  });
  EXPECT_EQ(refused, 4U);
  // The fiber has a chain of its own already, and an operation of another object.
  typename TypeParam::template of<std::uint64_t> another;
  object.apply([&](std::uint64_t& n) {
    muster::fiber inner([&] {
      another.apply([&](std::uint64_t&) {
        muster::this_fiber::yield();
        try_it();
      });
      try_it();
    });
    muster::this_fiber::yield();
    inner.join();
    ++n;
  });
  EXPECT_EQ(refused, 6U);
  EXPECT_EQ(object.apply([](const std::uint64_t& n) { return n; }), 3U);
}

/// Fibers that are not joined yet wait, and are served.
TYPED_TEST(combine_edges, a_fiber_that_an_operation_only_makes_may_apply) {
  typename TypeParam::template of<std::uint64_t> object;
  muster::fiber later;
  object.apply([&](std::uint64_t& n) {
    later = muster::fiber([&] { object.apply([](std::uint64_t& m) { m += 10; }); });
    for (int turn = 0; turn < 5; ++turn) muster::this_fiber::yield();
    EXPECT_EQ(n, 0U);
    ++n;
  });
  later.join();
  EXPECT_EQ(object.apply([](const std::uint64_t& n) { return n; }), 11U);
}

/// Two fibers of a thread nest operations of two objects in opposite order, or three fibers those of three in a ring.
TYPED_TEST(combine_edges, fibers_that_would_wait_for_each_other_are_refused) {
  using object = typename TypeParam::template of<std::uint64_t>;
  for (const unsigned many : {2U, 3U}) {
    std::vector<std::unique_ptr<object>> all;
    for (unsigned i = 0; i < many; ++i) all.push_back(std::make_unique<object>());
    unsigned refused = 0, done = 0, arrived = 0;
    std::vector<muster::fiber> fibers;
    for (unsigned i = 0; i < many; ++i)
      fibers.emplace_back([&, i] {
        try {
          all[i]->apply([&, i](std::uint64_t& n) {
            ++arrived;
            while (arrived != many) muster::this_fiber::yield();
            all[(i + 1) % many]->apply([](std::uint64_t& m) { m += 10; });
            ++n;
          });
          ++done;
        } catch (const std::logic_error&) {
          ++refused;
        }
      });
    fibers.clear();
    EXPECT_EQ(refused, 1U) << "the one that would close the ring";
    EXPECT_EQ(done, many - 1);
    std::uint64_t sum = 0;
    for (const auto& one : all) sum += one->apply([](const std::uint64_t& n) { return n; });
    EXPECT_EQ(sum, 11U * (many - 1));
  }
}

/// An operation joins a fiber that waits for the same object already, early or late in its wait.
template <class Object>
void join_a_waiting_fiber(unsigned turns) {
  Object object;
  muster::fiber waiting;
  muster::fiber joining([&] {
    object.apply([&](std::uint64_t&) {
      for (unsigned turn = 0; turn < turns; ++turn) muster::this_fiber::yield();
      waiting.join();
    });
  });
  waiting = muster::fiber([&] { object.apply([](std::uint64_t& n) { ++n; }); });
  joining.join();
}
/// A fiber inside an operation of `one` waits for `other`, an operation of which joins it; directly, or while a third
/// fiber waits for `one`.
template <class Object>
void join_a_fiber_that_waits_inside_another(bool third) {
  Object one, other;
  muster::fiber inside, joining;
  inside = muster::fiber([&] {
    one.apply([&](std::uint64_t&) {
      for (int turn = 0; turn < 3; ++turn) muster::this_fiber::yield();
      other.apply([](std::uint64_t& n) { ++n; });
    });
  });
  muster::fiber between([&] {
    if (third) one.apply([](std::uint64_t& n) { ++n; });
  });
  joining = muster::fiber([&] {
    other.apply([&](std::uint64_t&) {
      for (int turn = 0; turn < 40; ++turn) muster::this_fiber::yield();
      (third ? between : inside).join();
    });
  });
  joining.join();
}

TYPED_TEST(combine_edges, an_operation_does_not_join_a_fiber_that_waits_for_it) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using object = typename TypeParam::template of<std::uint64_t>;
  constexpr auto message = "joins a fiber that waits for the same object";
  for (const unsigned turns : {1U, 2U, 40U}) EXPECT_DEATH(join_a_waiting_fiber<object>(turns), message) << turns;
  for (const bool third : {false, true})
    EXPECT_DEATH(join_a_fiber_that_waits_inside_another<object>(third), message) << third;
}

// -------------------------------------------------------------------------------------------------- how many threads

TYPED_TEST(combine_edges, counts_the_threads_that_use_the_object) {
  if constexpr (requires { TypeParam::takes_any_number_of_threads; }) GTEST_SKIP() << "it takes any number of threads";
  using object = typename TypeParam::template of<std::uint64_t>;
  object busy;
  std::latch all_there(8), enough(1);
  std::vector<std::jthread> others;
  for (int i = 0; i < 8; ++i)
    others.emplace_back([&] {
      busy.apply([](std::uint64_t& n) { ++n; });
      all_there.count_down();
      enough.wait();
    });
  all_there.wait();
  combine_options options;
  options.threads = 2;
  object small(options);
  const auto apply = [&] { small.apply([](std::uint64_t& n) { ++n; }); };
  // Eight others have numbers, and do not count. Threads that have ended do not, either, whatever numbers they had.
  for (int i = 0; i < 20; ++i) {
    std::jthread first(apply);
    if (i == 7) enough.count_down();  // from now on there are other numbers
    std::jthread(apply).join();
  }
  EXPECT_EQ(small.apply([](const std::uint64_t& n) { return n; }), 40U);
  std::barrier both(2);
  std::jthread second([&] {
    apply();
    both.arrive_and_wait();
    both.arrive_and_wait();
  });
  both.arrive_and_wait();
  std::jthread([&] { EXPECT_THROW(apply(), std::length_error); }).join();
  both.arrive_and_wait();
  second.join();
  std::jthread(apply).join();
  EXPECT_EQ(small.apply([](const std::uint64_t& n) { return n; }), 42U);
}

/// Threads come and go, more than the object is for, but never more at once; all that is counted is there.
TYPED_TEST(combine_edges, hands_the_places_of_threads_on) {
  using object = typename TypeParam::template of<std::uint64_t>;
  combine_options options;
  options.threads = 4;
  object small(options);
  {
    std::vector<std::jthread> rows;
    for (int row = 0; row < 3; ++row)
      rows.emplace_back([&] {
        for (std::size_t i = 0; i < muster_test::scaled(200); ++i) {
          std::jthread elsewhere([] { muster::sync::thread_index(); });  // takes a number, and no place
          std::jthread([&] {
            for (int n = 0; n < 5; ++n) small.apply([](std::uint64_t& m) { ++m; });
          }).join();
        }
      });
  }
  EXPECT_EQ(small.apply([](const std::uint64_t& n) { return n; }), 15 * muster_test::scaled(200));
}

}  // namespace
