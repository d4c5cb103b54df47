// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_stack and psim_queue under the checker: small programs in which each thread pushes distinct numbers and pops.
// Chains of one node: a freed node is reused at once, also by other threads.
//
// Checked     by the engine: data races, leaks, the use of what has ended. Here: whole histories are linearizable, by
//             happens-before, and by time when no operation has read an old value; every number comes out once.
// Steps       an operation takes a bounded number, whatever the others do.
// Stopped     a thread that stops forever, before each of its steps in turn, keeps no other from finishing.
// Mutants     every operation on shared data is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>

#include "expect_right.hpp"
#include "mutant_search.hpp"
#include "structure_programs.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <type_traits>

namespace {

namespace mm = muster_model;
using namespace muster_model_test;

template <class Structure>
using spec_of = std::conditional_t<std::same_as<Structure, muster::psim_queue<number>>, muster_test::queue_spec,
                                   muster_test::stack_spec>;

template <class Structure>
std::function<void()> program(const script& s, bool alone_first) {
  return structure_program<Structure, spec_of<Structure>>(s, [threads = s.threads.size(), alone_first] {
    return Structure({.threads = static_cast<unsigned>(threads), .batch = 1}, {.alone_first = alone_first, .chain = 1});
  });
}

template <class Structure>
class psim_structures : public ::testing::Test {
 protected:
  static void search(const mm::limits& within, const script& s) {
    for (const bool alone_first : {true, false}) expect_right(within, s.text(), program<Structure>(s, alone_first));
  }
};

struct names {
  template <class Structure>
  static std::string GetName(int) {
    return std::same_as<Structure, muster::psim_queue<number>> ? "queue" : "stack";
  }
};
using structures = ::testing::Types<muster::psim_stack<number>, muster::psim_queue<number>>;
TYPED_TEST_SUITE(psim_structures, structures, names);

TYPED_TEST(psim_structures, one_pushes_one_pops) {
  this->search({.preemptions = 3, .stale = 0}, {"", {"u", "o"}});
  this->search({.preemptions = 1, .stale = 1}, {"", {"u", "o"}});
}

TYPED_TEST(psim_structures, two_push) { this->search({.preemptions = 2, .stale = 0}, {"", {"u", "u"}}); }

TYPED_TEST(psim_structures, two_pop) { this->search({.preemptions = 2, .stale = 0}, {"uu", {"o", "o"}}); }

TYPED_TEST(psim_structures, each_pushes_and_pops) {
  this->search({.preemptions = 2, .stale = 0}, {"u", {"ou", "uo"}});
  this->search({.preemptions = 1, .stale = 0}, {"", {"uu", "oo"}});
}

TYPED_TEST(psim_structures, three_threads) {
  this->search({.preemptions = 1, .stale = 0}, {"u", {"o", "u", "o"}});
  this->search({.preemptions = 1, .stale = 0}, {"uo", {"u", "u", "o"}});
}

TYPED_TEST(psim_structures, nodes_go_round) {
  for (const auto how : {mm::strategy::random, mm::strategy::priorities})
    for (const script& s : {script{"uuuu", {"oooo", "uuu"}}, script{"u", {"uouo", "ouou"}},
                            script{"uuu", {"ooou", "uou", "oo"}}, script{"", {"uouou", "uo", "o"}}})
      this->search({.how = how, .executions = 5000, .depth = 4}, s);
}

// A thread stops forever before any of its steps, also in the middle of an execution: the others finish.
TYPED_TEST(psim_structures, a_thread_that_stops_keeps_no_other_from_finishing) {
  for (const char* victim : {"u", "o"})
    this->search({.preemptions = 1, .stale = 0, .freeze = 1}, {"u", {"uoo", victim}});
}

// Wait-free: no operation needs more steps when the others do more.
TYPED_TEST(psim_structures, operations_have_a_bound) {
  for (const char* others : {"uo", "uouououo"}) {
    std::uint64_t longest = 0;
    for (const char* own : {"u", "o"})
      for (const bool alone_first : {true, false})
        for (const auto how : {mm::strategy::random, mm::strategy::priorities}) {
          const mm::result r = mm::explore({.how = how, .executions = 4000, .depth = 5},
                                           program<TypeParam>({"u", {others, own}}, alone_first));
          ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
          longest = std::max(longest, r.longest_operations[1]);
        }
    // As in psim.hpp, for two threads, batches of one and records of six words; and in each attempt two requests, each
    // of which links the previous chain, looks for a node of each thread, fills it, and links it.
    constexpr std::uint64_t attempt = 2 * 6 + 2 * (2 * 1 + 2) + 4 + 2 * (2 + 4 + 3), more = 5 + 8, first = 4;
    EXPECT_LE(longest, 3 * attempt + more + first);
    std::cout << "at most " << longest << " steps\n";
  }
}

// ------------------------------------------------------------------------------------------------------------- mutants

template <class Structure>
mutant_search mutants_of(const std::string& file, const std::string& prefix) {
  mutant_search search;
  for (const script& s : {script{"uuuu", {"oooo", "uuu"}}, script{"u", {"uouo", "ouou"}}, script{"", {"uu", "oo"}},
                          script{"uuu", {"ooou", "uou", "oo"}}, script{"", {"uouou", "uo", "o"}},
                          script{"", {"u", "uouou"}}, script{"uuuu", {"oooo", "u", "uu"}}})
    for (const bool alone_first : {true, false})
      search.programs.push_back(
          {file + (alone_first ? "" : ", announced"), true, program<Structure>(s, alone_first), {}});
  search.survivors = {
      {"psim_store::refill: load repeated", true, "the exchange reads it again"},
      {"psim_stack::for_each: load repeated", true, "check() counts the items and looks at none"},
      {"psim_queue::for_each: load repeated", true, "check() counts the items and looks at none"},
      // These are needed by executions without an effect, which must find nodes that have been made.
      {"pushing::operator: store release -> relaxed", true, "the checker's atomics are there before they are made"},
      {"popping::operator: load acquire -> relaxed", true, "the checker's atomics are there before they are made"},
  };
  search.files = {"/" + file + ".hpp", "detail/psim_nodes"};
  search.prefix = prefix;
  search.executions = 4096;
  return search;
}

TEST(mutants, of_the_stack_are_noticed_or_explained) {
  mutants_of<muster::psim_stack<number>>("psim_stack", "psim_stack::").run();
}

TEST(mutants, of_the_queue_are_noticed_or_explained) {
  mutants_of<muster::psim_queue<number>>("psim_queue", "psim_queue::").run();
}

}  // namespace
