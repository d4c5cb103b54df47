// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Many requests to a combining object, of threads and of fibers: each is executed once, with its own argument, and the
// histories are linearizable.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "combine_crowd.hpp"
#include "combine_kinds.hpp"
#include "object_specs.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster_test::append_by_team;
using muster_test::expect_linearizable;
using muster_test::ids;
using muster_test::in_one_round;
using muster_test::scaled;

template <class Kind>
class combine_crowd : public testing::Test {};
TYPED_TEST_SUITE(combine_crowd, muster_test::combining_kinds, muster_test::kind_names);

template <class Kind>
class combine_waiting : public testing::Test {};
TYPED_TEST_SUITE(combine_waiting, muster_test::otherwise_waiting_kinds, muster_test::kind_names);

// ------------------------------------------------------------------------------------------------- exactly once

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

TYPED_TEST(combine_crowd, serves_all_requests_that_came_meanwhile) {
  for (const unsigned help : {1U, 2U, 1024U})
    muster_test::expect_all_to_be_served<typename TypeParam::template of<ids>>(help);
}

TYPED_TEST(combine_waiting, serves_all_requests_that_came_meanwhile) {
  for (const unsigned help : {1U, 1024U})
    muster_test::expect_all_to_be_served<typename TypeParam::template of<ids>>(help);
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

TYPED_TEST(combine_crowd, is_linearizable) {
  using object = typename TypeParam::template of<std::uint64_t>;
  expect_linearizable<muster_test::counter_spec, muster_test::fetch_and_add, object>(0);
  expect_linearizable<muster_test::fetch_and_multiply_spec, muster_test::fetch_and_multiply, object>(1);
}

// Many records, of which most are idle afterwards, are dropped and taken up again.
TEST(flat_combining, takes_records_up_again_that_it_has_dropped) {
  muster::flat_combining<ids> object;
  for (unsigned round = 0; round < 3; ++round) {
    in_one_round(object, 16, [&](unsigned i) { object.apply([i](ids& s) { s.push_back(i); }); });
    for (unsigned i = 0; i < 1000; ++i) object.apply([](ids& s) { s.clear(); });
    append_by_team(object, 2, 8, 1000);
    object.check();
  }
}

}  // namespace
