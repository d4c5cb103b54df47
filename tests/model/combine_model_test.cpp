// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The combining objects under the checker: every program is searched in every way that its row allows, on a machine
// with the asymmetric fence and on one without. A search within bounds must be complete.
#include <gtest/gtest.h>

#include "combine_table.hpp"

#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

std::vector<mm::limits> searches_of(const combine_row& r) {
  if (r.chances == 0) return {{.preemptions = r.preemptions, .stale = r.stale, .executions = 1'000'000}};
  return {{.how = mm::strategy::random, .executions = r.chances},
          {.how = mm::strategy::priorities, .executions = r.chances, .depth = 4}};
}

class combine_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(combine_model, has_no_execution_that_breaks_a_promise) {
  const combine_row& r = combine_table[GetParam()];
  const std::function<void()> program = make_program(r);
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    const std::string name = name_of(r) + (asymmetric ? "" : ", without the asymmetric fence");
    for (const mm::limits& within : searches_of(r)) {
      const mm::result found = mm::explore(within, program);
      ASSERT_FALSE(found.failed) << name << '\n' << found.failed->what << '\n' << found.failed->trace;
      EXPECT_TRUE(found.complete || r.chances != 0) << "not complete after " << found.executions << " executions";
      std::cout << name << ": " << found.executions << " executions" << (found.complete ? ", complete" : "") << '\n';
    }
  }
}

INSTANTIATE_TEST_SUITE_P(programs, combine_model, ::testing::Range(std::size_t{0}, combine_table.size()));

}  // namespace
