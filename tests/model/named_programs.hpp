// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// named_programs.hpp: the three tests of what a pool executes beside forks: small programs with all executions within
// bounds, larger ones with random executions, and the mutants of the headers.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

namespace muster_model_test {

struct named_program {
  std::string name;
  std::function<void()> run;
};

inline void expect_all_right(const std::vector<named_program>& programs) {
  for (const named_program& one : programs)
    expect_right(muster_model::limits{.preemptions = 2, .stale = 1}, one.name, one.run);
}

inline void expect_right_by_chance(const std::vector<named_program>& programs) {
  for (const named_program& one : programs)
    expect_right(search_bounds{.preemptions = -1, .stale = -1, .chances = 5000}, one.name, one.run);
}

/// Every operation in the files on what threads share is changed, and some program notices.
inline void expect_mutants_noticed(const std::vector<named_program>& programs, std::vector<std::string> files,
                                   std::vector<survivor> survivors = {}) {
  mutant_search search;
  for (const named_program& one : programs) search.programs.push_back({one.name, true, one.run, {}});
  search.files = std::move(files);
  search.prefix = "";
  search.executions = 1024;
  search.survivors = std::move(survivors);
  search.run();
}

}  // namespace muster_model_test
