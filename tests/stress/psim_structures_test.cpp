// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_queue and psim_stack, used by the fibers of several threads, with nodes that are used again at once: nothing is
// lost, nothing comes twice, and whole histories are linearizable.
#include <gtest/gtest.h>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "fifo_monitor.hpp"
#include "history.hpp"
#include "lifo_monitor.hpp"
#include "scale.hpp"
#include "structure_storm.hpp"

namespace {

using namespace muster_test;
using number = std::uint64_t;

template <class T>
constexpr bool is_queue = false;
template <>
constexpr bool is_queue<muster::psim_queue<number>> = true;

template <class Kind>
class psim_structures : public ::testing::Test {
 protected:
  template <class Clock>
  static std::string violation(const structure_storm& storm, unsigned seed) {
    Kind object({.threads = 64, .batch = 1 + seed % 7},
                {.yield_after_announcing = seed % 5 != 0, .alone_first = seed % 2 == 0, .chain = 1 + seed % 4});
    const std::vector<event> history = storm.play<Clock>(object, seed);
    object.check();
    return is_queue<Kind> ? fifo_violation(history) : lifo_violation(history);
  }
};

struct names {
  template <class Kind>
  static std::string GetName(int) {
    return is_queue<Kind> ? "queue" : "stack";
  }
};
using kinds = ::testing::Types<muster::psim_queue<number>, muster::psim_stack<number>>;
TYPED_TEST_SUITE(psim_structures, kinds, names);

TYPED_TEST(psim_structures, are_linearizable) {
  for (unsigned round = 0; round < scaled(400); ++round) {
    const structure_storm storm{.carriers = 1 + round % 4, .fibers = round % 3 == 0 ? 6U : 1U, .operations = 400};
    const std::string wrong = round % 2 == 0 ? this->template violation<exact_clock>(storm, round)
                                             : this->template violation<cheap_clock>(storm, round);
    ASSERT_EQ(wrong, "") << storm.carriers << " threads of " << storm.fibers << " fibers, round " << round;
  }
}

TYPED_TEST(psim_structures, lose_nothing_among_eight_times_as_many_threads) {
  for (const unsigned fibers : {1U, 4U}) {
    TypeParam object({.threads = 64}, {.chain = 4});
    ASSERT_EQ((structure_storm{.carriers = 16, .fibers = fibers, .operations = scaled(5000)}.count(object)), "");
    object.check();
  }
}

}  // namespace
