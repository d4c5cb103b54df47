// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// expect_right.hpp: a search for an execution of a small program that breaks a promise, in a GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include "checker/explore.hpp"

#include <cstdint>
#include <functional>
#include <iostream>
#include <string>

namespace muster_model_test {

/// The executions to check: all with at most this many preemptions and stale reads (−1: any number); or, for programs
/// with too many executions, `chances` random ones.
struct search_bounds {
  int preemptions;
  int stale;
  std::uint64_t chances = 0;
};

/// Fails the test when an execution breaks a promise, or when not all executions within the bounds could be looked at.
inline void expect_right(const muster_model::limits& within, const std::string& name,
                         const std::function<void()>& program) {
  const muster_model::result found = muster_model::explore(within, program);
  ASSERT_FALSE(found.failed) << name << '\n' << found.failed->what << '\n' << found.failed->trace;
  EXPECT_TRUE(found.complete || found.cut || within.how != muster_model::strategy::exhaustive)
      << "not complete after " << found.executions << " executions";
  std::cout << name << ": " << found.executions << " executions" << (found.complete ? ", complete" : "") << '\n';
}

inline void expect_right(const search_bounds& bounds, const std::string& name, const std::function<void()>& program) {
  using muster_model::strategy;
  if (bounds.chances == 0)
    return expect_right({.preemptions = bounds.preemptions, .stale = bounds.stale, .executions = 1'000'000}, name,
                        program);
  expect_right({.how = strategy::random, .executions = bounds.chances}, name, program);
  expect_right({.how = strategy::priorities, .executions = bounds.chances, .depth = 4}, name, program);
}

}  // namespace muster_model_test
