// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spsc_queue with small items under the checker. Its mutants: mutants_test.cpp.
#include "small_items_programs.hpp"

namespace {

using namespace muster_model_test;

TEST(small_items, small_programs_are_right) {
  for (const named_program& one : small_item_programs)
    expect_right(muster_model::limits{.preemptions = 2, .stale = 2}, one.name, one.run);
}

TEST(small_items, random_executions_are_right) { expect_right_by_chance(small_item_programs); }

}  // namespace
