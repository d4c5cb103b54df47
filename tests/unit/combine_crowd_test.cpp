// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Many requests to a combining object or a queue lock, of threads and of fibers: each is executed once, with its own
// argument, and the histories are linearizable. Every request has an argument of its own, because a sum cannot see that
// a request was run with another's.
#include <gtest/gtest.h>
#include <muster/combine/retry.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "combine_kinds.hpp"
#include "history.hpp"
#include "object_specs.hpp"
#include "scale.hpp"
#include "wing_gong_lowe.hpp"

namespace {

using muster::combine_options;
using muster::run_team;
using muster_test::in_one_round;
using muster_test::in_one_round_of_threads;
using muster_test::scaled;

template <class Kind>
class combine_crowd : public testing::Test {};
TYPED_TEST_SUITE(combine_crowd, muster_test::combining_kinds, muster_test::kind_names);

template <class Kind>
class combine_waiting : public testing::Test {};
TYPED_TEST_SUITE(combine_waiting, muster_test::otherwise_waiting_kinds, muster_test::kind_names);

// ------------------------------------------------------------------------------------------------- exactly once

using ids = std::vector<std::uint32_t>;

/// Each fiber appends its own numbers, one request for each, in their order.
template <class Object>
void append_by_team(Object& object, unsigned carriers, unsigned fibers, std::size_t total) {
  const auto each = static_cast<std::uint32_t>(std::max<std::size_t>(total / (carriers * fibers), 2));
  std::vector<ids> places(carriers * fibers);
  run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned c, unsigned f) {
    const unsigned me = c * fibers + f;
    for (std::uint32_t i = 0; i < each; ++i) {
      const std::uint32_t id = me * each + i;
      places[me].push_back(object.apply([id](ids& s) {
        s.push_back(id);
        return static_cast<std::uint32_t>(s.size() - 1);
      }));
    }
  });
  const ids all = object.apply([](ids& s) { return std::exchange(s, {}); });
  ASSERT_EQ(all.size(), static_cast<std::size_t>(each) * carriers * fibers);
  for (unsigned me = 0; me < carriers * fibers; ++me) {
    EXPECT_TRUE(std::is_sorted(places[me].begin(), places[me].end()));
    for (std::uint32_t i = 0; i < each; ++i) ASSERT_EQ(all.at(places[me][i]), me * each + i);
  }
}

TYPED_TEST(combine_crowd, executes_every_request_once_with_its_own_argument) {
  for (const unsigned help : {1U, 3U, 1024U}) {
    combine_options options;
    options.help = help;
    typename TypeParam::template of<ids> object(options);
    for (const unsigned fibers : {1U, 2U, 8U, 64U}) append_by_team(object, 2, fibers, scaled(3000));
  }
}

TYPED_TEST(combine_waiting, executes_every_request_once_with_its_own_argument) {
  for (const unsigned help : {1U, 1024U}) {
    combine_options options;
    options.help = help;
    typename TypeParam::template of<ids> object(options);
    for (const unsigned fibers : {1U, 3U}) append_by_team(object, 4, fibers, scaled(2000));
  }
}

/// All come while an operation is being executed, so that they are served by it or hand the object on to each other.
template <class Object>
void expect_all_to_be_served_who_came_meanwhile(unsigned help) {
  combine_options options;
  options.help = help;
  Object object(options);
  constexpr unsigned many = 6;
  const auto append = [&object](std::vector<std::size_t>& places, unsigned i) {
    places[i] = object.apply([i](ids& s) {
      s.push_back(i);
      return s.size() - 1;
    });
  };
  for (unsigned round = 0; round < 4; ++round) {
    std::vector<std::size_t> places(many, many);
    if (round % 2 == 0) {
      in_one_round_of_threads(object, many, [&](unsigned i) { append(places, i); });
    } else {
      in_one_round(object, many, [&](unsigned i) { append(places, i); });
    }
    const ids all = object.apply([](ids& s) { return std::exchange(s, {}); });
    ASSERT_EQ(all.size(), many);
    for (unsigned i = 0; i < many; ++i) ASSERT_EQ(all.at(places[i]), i);
  }
}

TYPED_TEST(combine_crowd, serves_all_who_came_meanwhile) {
  for (const unsigned help : {1U, 2U, 1024U})
    expect_all_to_be_served_who_came_meanwhile<typename TypeParam::template of<ids>>(help);
}

TYPED_TEST(combine_waiting, serves_all_who_came_meanwhile) {
  for (const unsigned help : {1U, 1024U})
    expect_all_to_be_served_who_came_meanwhile<typename TypeParam::template of<ids>>(help);
}

TYPED_TEST(combine_crowd, serves_eight_times_as_many_threads_as_processors) {
  typename TypeParam::template of<ids> object;
  const unsigned carriers = 8 * std::min(muster::available_parallelism(), 4U);
  append_by_team(object, carriers, 1, scaled(4000));
  append_by_team(object, carriers, 4, scaled(1500));
}

TYPED_TEST(combine_crowd, lets_threads_come_and_go) {
  typename TypeParam::template of<ids> object;
  const auto generations = static_cast<std::uint32_t>(scaled(60));
  std::atomic<bool> ended{false};
  std::jthread stays([&] {
    while (!ended.load()) object.apply([](ids& s) { return s.size(); });
  });
  for (std::uint32_t g = 0; g < generations; ++g) {
    std::vector<std::jthread> all;
    for (std::uint32_t t = 0; t < 3; ++t)
      all.emplace_back([&, id = 3 * g + t] { object.apply([id](ids& s) { s.push_back(id); }); });
    if (g % 2 == 0) all[0].join();
  }
  ended.store(true);
  stays.join();
  ids seen = object.apply([](ids& s) { return s; });
  ids expected(3 * generations);
  std::iota(expected.begin(), expected.end(), 0U);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, expected);
}

// -------------------------------------------------------------------------------------------------------- histories

/// Three threads with two fibers each, four operations each: 24 events, and the specification says what each answers.
template <class Spec, class Step, class Object>
void expect_linearizable(std::uint64_t initial) {
  muster_test::exact_clock clock;
  const std::size_t rounds = scaled(60);
  for (std::size_t round = 0; round < rounds; ++round) {
    Object object(combine_options{}, initial);
    std::array<std::vector<muster_test::call>, 6> logs;
    run_team({.carriers = 3, .fibers = 2}, [&](unsigned c, unsigned f) {
      for (std::uint64_t i = 0; i < 4; ++i) {
        muster_test::call one;
        one.thread = 2 * c + f;
        one.argument = 3 + 2 * (4 * one.thread + i);  // odd, so that no product loses what came before
        one.begin = clock.begin();
        one.answer = object.apply([n = one.argument](std::uint64_t& s) { return Step{}(s, n); });
        one.end = clock.end();
        logs[one.thread].push_back(one);
      }
    });
    std::vector<muster_test::call> history;
    for (const auto& log : logs) history.insert(history.end(), log.begin(), log.end());
    ASSERT_TRUE(muster_test::wing_gong_lowe<Spec>(Spec(initial)).linearizable(history)) << "round " << round;
  }
}

TYPED_TEST(combine_crowd, is_linearizable) {
  using object = typename TypeParam::template of<std::uint64_t>;
  expect_linearizable<muster_test::counter_spec, muster_test::fetch_and_add, object>(0);
  expect_linearizable<muster_test::fetch_and_multiply_spec, muster_test::fetch_and_multiply, object>(1);
}

TEST(h_synch, puts_threads_where_it_is_told) {
  muster::h_synch_options options;
  options.clusters = 3;
  options.cluster_of = [](unsigned thread) { return 7 * thread; };
  muster::h_synch<ids> object(options);
  append_by_team(object, 4, 2, 1000);
}

// Many records, of which most are idle afterwards, are dropped and come back.
TEST(flat_combining, takes_records_up_again_that_it_has_dropped) {
  muster::flat_combining<ids> object;
  for (unsigned round = 0; round < 3; ++round) {
    in_one_round(object, 16, [&](unsigned i) { object.apply([i](ids& s) { s.push_back(i); }); });
    for (unsigned i = 0; i < 1000; ++i) object.apply([](ids& s) { s.clear(); });
    append_by_team(object, 2, 8, 1000);
    object.check();
  }
}

TEST(retry, executes_every_operation_once_with_its_own_argument) {
  muster::retry<std::uint64_t> object;
  std::vector<std::uint64_t> seen(4 * 8 * 16);
  run_team({.carriers = 4, .fibers = 8}, [&](unsigned c, unsigned f) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      const std::uint64_t id = (c * 8 + f) * 16 + i;
      // The state is the last number that came, and each learns who came before it.
      seen[id] = object.apply([id](std::uint64_t& s) { return std::exchange(s, id + 1); });
    }
  });
  const std::uint64_t last = object.apply([](const std::uint64_t& s) { return s; });
  std::set<std::uint64_t> all(seen.begin(), seen.end());
  all.insert(last);
  EXPECT_EQ(all.size(), seen.size() + 1);
}

TEST(retry, is_linearizable) {
  using object = muster::retry<std::uint64_t>;
  expect_linearizable<muster_test::counter_spec, muster_test::fetch_and_add, object>(0);
  expect_linearizable<muster_test::fetch_and_multiply_spec, muster_test::fetch_and_multiply, object>(1);
}

}  // namespace
