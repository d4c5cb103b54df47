// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_crowd.hpp: many requests to one combining object. Every request has an argument of its own, because a sum
// cannot see that a request was run with another's.
#pragma once

#include <gtest/gtest.h>
#include <muster/combine/options.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "combine_kinds.hpp"
#include "history.hpp"
#include "object_specs.hpp"
#include "scale.hpp"
#include "wing_gong_lowe.hpp"

namespace muster_test {

using ids = std::vector<std::uint32_t>;

/// Each fiber appends its own numbers, one request for each, in their order.
template <class Object>
void append_by_team(Object& object, unsigned carriers, unsigned fibers, std::size_t total) {
  const auto each = static_cast<std::uint32_t>(std::max<std::size_t>(total / (carriers * fibers), 2));
  std::vector<ids> places(carriers * fibers);
  muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned c, unsigned f) {
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

/// All requests come while an operation is being executed: its thread serves them, or they hand the object on.
template <class Object>
void expect_all_to_be_served(unsigned help) {
  muster::combine_options options;
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

/// Three threads with two fibers each, four operations each: 24 events, and the specification says what each answers.
template <class Spec, class Step, class Object>
void expect_linearizable(std::uint64_t initial) {
  exact_clock clock;
  const std::size_t rounds = scaled(60);
  for (std::size_t round = 0; round < rounds; ++round) {
    Object object(muster::combine_options{}, initial);
    std::array<std::vector<call>, 6> logs;
    muster::run_team({.carriers = 3, .fibers = 2}, [&](unsigned c, unsigned f) {
      for (std::uint64_t i = 0; i < 4; ++i) {
        call one;
        one.thread = 2 * c + f;
        one.argument = 3 + 2 * (4 * one.thread + i);  // odd, so that no product loses what came before
        one.begin = clock.begin();
        one.answer = object.apply([n = one.argument](std::uint64_t& s) { return Step{}(s, n); });
        one.end = clock.end();
        logs[one.thread].push_back(one);
      }
    });
    std::vector<call> history;
    for (const auto& log : logs) history.insert(history.end(), log.begin(), log.end());
    ASSERT_TRUE(wing_gong_lowe<Spec>(Spec(initial)).linearizable(history)) << "round " << round;
  }
}

}  // namespace muster_test
