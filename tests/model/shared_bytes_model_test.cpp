// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between processes under the checker: no block of an arena is written while a consumer reads it, no wake is
// lost, and a death loses no message. shared_queue_mutants runs the same programs with each operation changed.
#include <gtest/gtest.h>

#include "expect_right.hpp"
#include "shared_bytes_programs.hpp"

namespace {

using namespace muster_model_test;

TEST(shared_bytes_model, has_no_execution_that_breaks_a_promise) {
  for (const letters_row& r : letters_programs())
    for (const bool asymmetric : {true, false}) {
      mm::settings().asymmetric_fences = asymmetric;
      const std::string name = r.name + (asymmetric ? "" : ", without the asymmetric fence");
      expect_right(mm::limits{.preemptions = 1, .stale = 1, .executions = 1'000'000, .freeze = r.freeze}, name,
                   r.program);
      for (const auto how : {mm::strategy::random, mm::strategy::priorities})
        expect_right(mm::limits{.how = how, .executions = 10'000, .depth = 4, .freeze = r.freeze}, name, r.program);
    }
}

}  // namespace
