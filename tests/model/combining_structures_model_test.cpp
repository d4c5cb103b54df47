// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_queue and combining_stack under the checker. The queue's two ends are objects of their own, which share
// its segments: here of two items, so that they are filled, left, and used again all the time.
//
// Checked     by the engine: data races, leaks, the use of what has ended. Here: whole histories are linearizable,
//             every number comes out once.
// Mutants     every operation of the queue on what its ends share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/combine/cc_synch.hpp>
#include <muster/combine/combining_queue.hpp>
#include <muster/combine/combining_stack.hpp>
#include <muster/combine/flat_combining.hpp>
#include <muster/combine/osci.hpp>
#include <muster/combine/osci_shared.hpp>

#include "../../bench/baselines/combining/clh.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"
#include "structure_programs.hpp"

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using namespace muster_model_test;

// On the object with the fewest steps.
using queue = muster::combining_queue<number, muster::bench::clh, 2>;
using stack = muster::combining_stack<number, muster::bench::clh>;

template <class Structure>
std::function<void()> program(const script& s) {
  using spec = std::conditional_t<std::same_as<Structure, queue>, muster_test::queue_spec, muster_test::stack_spec>;
  return structure_program<Structure, spec>(
      s, [threads = s.threads.size()] { return Structure({.threads = static_cast<unsigned>(threads)}); });
}

template <class Structure>
class combining_structures : public ::testing::Test {
 protected:
  static void search(const mm::limits& within, const script& s) {
    expect_right(within, s.text(), program<Structure>(s));
  }
};

struct names {
  template <class Structure>
  static std::string GetName(int) {
    return std::same_as<Structure, queue> ? "queue" : "stack";
  }
};
using structures = ::testing::Types<queue, stack>;
TYPED_TEST_SUITE(combining_structures, structures, names);

TYPED_TEST(combining_structures, one_pushes_one_pops) {
  this->search({.preemptions = 2, .stale = 1}, {"", {"u", "o"}});
  this->search({.preemptions = 2, .stale = 1}, {"u", {"uu", "oo"}});
  this->search({.preemptions = 2, .stale = 1}, {"uuoo", {"uu", "oo"}});
}

TYPED_TEST(combining_structures, each_pushes_and_pops) {
  this->search({.preemptions = 2, .stale = 0}, {"uu", {"ou", "uo"}});
  this->search({.preemptions = 1, .stale = 0}, {"uo", {"uuu", "ooo"}});
}

TYPED_TEST(combining_structures, three_threads) {
  this->search({.preemptions = 1, .stale = 0}, {"u", {"o", "u", "o"}});
  this->search({.preemptions = 1, .stale = 0}, {"uu", {"o", "uu", "o"}});
}

const std::vector<script> long_scripts = {{"", {"uuuuuuu", "ooooooo"}}, {"uuuu", {"oooo", "uuu"}},
                                          {"u", {"uouo", "ouou"}},      {"uuu", {"ooou", "uou", "oo"}},
                                          {"", {"uouou", "uo", "o"}},   {"uuuuuu", {"oooooo", "uuuu", "u"}}};

TYPED_TEST(combining_structures, segments_go_round) {
  for (const auto how : {mm::strategy::random, mm::strategy::priorities})
    for (const script& s : long_scripts) this->search({.how = how, .executions = 5000, .depth = 4}, s);
}

/// A thread pushes one item, and the thread that pops it destroys the queue.
template <template <class...> class Combining>
void expect_to_end_when_its_item_has_come(const std::string& name, const mm::limits& within) {
  using ending = muster::combining_queue<number, Combining, 2>;
  expect_right(within, name + ": push | pop, destroy", [] {
    std::optional<ending> object(std::in_place, muster::combine_options{.threads = 2});
    const unsigned pushing = mm::spawn([&] { object->push(7); });
    std::optional<number> item = object->pop();
    const bool early = item.has_value();  // the push may not have returned
    if (!early) {
      mm::join(pushing);
      item = object->pop();
    }
    object.reset();
    mm::require(item == number{7}, "the item has not come out");
    if (early) mm::join(pushing);
  });
}

TEST(combining_queue, ends_when_its_last_item_has_come) {
  const mm::limits within{.preemptions = 2, .stale = 1};
  expect_to_end_when_its_item_has_come<muster::bench::clh>("clh", within);
  expect_to_end_when_its_item_has_come<muster::osci>("osci", within);
  expect_to_end_when_its_item_has_come<muster::osci_shared>("osci_shared", within);
  expect_to_end_when_its_item_has_come<muster::cc_synch>("cc_synch", within);
  expect_to_end_when_its_item_has_come<muster::flat_combining>("flat_combining", within);
}

TEST(mutants, of_the_queue_are_noticed_or_explained) {
  mutant_search search;
  for (const script& s : long_scripts) search.programs.push_back({"combining_queue", true, program<queue>(s), {}});
  search.files = {"/combining_queue.hpp"};
  search.prefix = "combining_queue::";
  search.run();
}

}  // namespace
