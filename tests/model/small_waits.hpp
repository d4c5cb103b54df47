// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// small_waits.hpp: what programs that wait have in common: a policy that sleeps soon, small queues with it, the stacks
// of fibers, and the search of each program with and without asymmetric fences.
#pragma once

#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/queue.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace muster_model_test {

/// Looks once before the thread sleeps.
struct hasty {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 1;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = false;
};

using spsc = muster::spsc_queue<int, muster::layout::packed, hasty>;
using spmc = muster::spmc_queue<int, muster::layout::packed, hasty>;
using mpmc = muster::mpmc_queue<int, muster::layout::packed, hasty>;
using lanes = muster::lanes<int, muster::layout::packed, hasty>;

/// Holds two items.
template <class Queue>
struct made : Queue {
  made() : Queue(2, {.threads = 3, .cells = 0, .first_rank = 0}) {}
};

struct waiting_program {
  const char* name;
  void (*run)();
  search_bounds within;
};

/// An execution frees its blocks when it ends, so what fibers leave for later ones is allocated before.
inline void prepare_fibers() {
  muster::stack_overflow::watch();
  muster::stack_memory stacks[8];
  for (auto& one : stacks) one = muster::stack_pool::shared().take({});
  for (const auto& one : stacks) muster::stack_pool::shared().give_back(one);
}

/// With and without asymmetric fences: all executions within the bounds, and some random ones.
inline void expect_right_with_any_fences(const waiting_program& p, std::uint64_t random) {
  for (const bool asymmetric : {true, false}) {
    muster_model::settings().asymmetric_fences = asymmetric;
    expect_right(p.within, p.name, p.run);
    expect_right(muster_model::limits{.how = muster_model::strategy::priorities, .executions = random, .depth = 4},
                 p.name, p.run);
  }
}

inline void add_with_any_fences(mutant_search& search, std::span<const waiting_program> programs) {
  for (const waiting_program& p : programs)
    for (const bool asymmetric : {true, false})
      search.programs.push_back(
          {p.name + std::string(asymmetric ? "" : ", without the asymmetric fence"), asymmetric, p.run, {}});
}

}  // namespace muster_model_test
