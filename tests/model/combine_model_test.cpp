// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The combining objects under the checker: every program is searched in every way that its row allows, on a machine
// with the asymmetric fence and on one without. A search within bounds must be complete.
#include <gtest/gtest.h>

#include "combine_table.hpp"
#include "expect_right.hpp"

#include <functional>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

void expect_no_broken_promise(const combine_row& r, const std::function<void()>& program) {
  for (const bool asymmetric : {true, false}) {
    muster_model::settings().asymmetric_fences = asymmetric;
    expect_right(search_bounds{r.preemptions, r.stale, r.chances},
                 name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), program);
  }
}

class combine_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(combine_model, has_no_execution_that_breaks_a_promise) {
  const combine_row& r = combine_table[GetParam()];
  expect_no_broken_promise(r, make_program(r));
}

INSTANTIATE_TEST_SUITE_P(programs, combine_model, ::testing::Range(std::size_t{0}, combine_table.size()));

class combine_baseline_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(combine_baseline_model, has_no_execution_that_breaks_a_promise) {
  const combine_row& r = combine_baseline_table[GetParam()];
  expect_no_broken_promise(r, make_baseline_program(r));
}

INSTANTIATE_TEST_SUITE_P(programs, combine_baseline_model,
                         ::testing::Range(std::size_t{0}, combine_baseline_table.size()));

}  // namespace
