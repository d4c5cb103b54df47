// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues under the checker: every program is searched in every way that its row allows, on a machine with the
// asymmetric fence and on one without. A search within bounds must be complete.
#include <gtest/gtest.h>

#include "queue_programs.hpp"

#include <bit>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

struct row {
  const char* queue;
  std::size_t capacity;
  const char* text;
  int preemptions;            // −1: no bound
  int stale;                  // −1: no bound
  std::uint64_t chances = 0;  // not 0: so many executions by chance and as many by priorities instead of the search
};

// Named in the output as NUMBER of the row.
const std::vector<row> table = {
    // Complete: all executions there are.
    {"spsc", 1, "try_push*3 | try_pop*3", -1, -1},
    {"spsc", 2, "try_push*4 | try_pop*2 try_pop_n*2", -1, -1},
    {"spmc", 1, "try_push*2 | try_pop*2", -1, -1},
    {"spmc", 1, "try_push*2 | try_pop | try_pop", -1, -1},
    {"mpmc", 1, "try_push | try_push | try_pop", -1, -1},
    // Complete within bounds.
    {"spsc", 1, "push*3 | pop*3", 2, 1},
    {"spsc", 2, "push_n*3 | pop_n*2 pop", 2, 1},
    {"spsc", 1, "push push_bad push close | drain", 2, 1},
    {"spsc", 1, "close | push*2 | drain", 1, 1},
    {"spsc", 1, "close | try_push*3 | drain_try", 1, 1},
    {"spmc", 1, "try_push*2 | pop", 2, 1},
    {"spmc", 1, "push*2 | pop | pop", 1, 1},
    {"spmc", 1, "close | push*2 | drain", 1, 1},
    {"spmc", 2, "push_n*3 close | drain_n*2", 2, 1},
    {"mpmc", 1, "push | push | pop*2", 1, 1},
    {"mpmc", 1, "close | push | drain", 1, 1},
    {"mpmc", 2, "try_push | try_push_bad try_push | try_pop*2", 1, 1},
    // By chance: more threads, and everything mixed.
    {"spsc", 1, "stop | push_stop*2 | pop_stop*3", -1, -1, 20'000},
    {"spsc", 2, "close | push_n*3 | drain_n*2", -1, -1, 20'000},
    {"spsc", 1, "close | push push_bad try_push | try_pop drain", -1, -1, 20'000},
    {"spsc", 1, "push_for*2 | pop_for*2 | close", -1, -1, 20'000},
    {"spmc", 2, "close | push*3 | drain | drain", -1, -1, 20'000},
    {"spmc", 1, "close | push*3 | drain | try_pop*2 drain_for", -1, -1, 20'000},
    {"spmc", 2, "close | try_push*3 | drain_for | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "push*4 | pop*2 | pop_stop*2", -1, -1, 20'000},
    {"spmc", 2, "push*3 close | pop_stop | drain | drain", -1, -1, 20'000},
    {"spmc", 1, "try_pop | push push_bad push*2 close | drain | drain", -1, -1, 20'000},
    {"spmc", 2, "close | push_n*4 | drain | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "close | push_n*2 push_n*3 | drain_n*3 | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "push_for*3 close | pop_for*2 | drain_for", -1, -1, 20'000},
    {"spmc", 1, "stop | push_stop*3 | pop_stop*2 | pop_stop*2", -1, -1, 20'000},
    {"mpmc", 2, "push*2 | push*2 | pop*2 | pop*2", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | push*2 | drain | drain", -1, -1, 20'000},
    {"mpmc", 2, "close | push*2 | try_push*2 | drain | drain_for", -1, -1, 20'000},
    {"mpmc", 1, "push_stop*2 | push_stop*2 | pop*4", -1, -1, 20'000},
    {"mpmc", 1, "push_bad push | push*2 | pop*3", -1, -1, 20'000},
    {"mpmc", 2, "push*2 | push*2 | pop_stop*2 | pop_stop*2", -1, -1, 20'000},
    {"mpmc", 1, "try_push_bad | push", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | push_bad push_stop | drain | drain_n*2", -1, -1, 20'000},
    {"mpmc", 2, "try_push*2 | try_push | try_pop*2 | try_pop*2", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | close | drain", -1, -1, 20'000},
    {"mpmc", 2, "push*3 | try_pop_n*2 | try_pop_n*2 | close", -1, -1, 20'000},
    {"mpmc", 1, "close | try_push*2 | try_push*2 | drain_try", -1, -1, 20'000},
    {"mpmc", 1, "push_for*3 close | push_for | pop_for*2 | drain_for", -1, -1, 20'000},
};

template <template <class, class, class> class Queue>
std::function<void()> make(const row& r, bool consumers_hold_cells, bool early) {
  queue_setup setup;
  setup.capacity = r.capacity;
  setup.threads = 1;  // few cells, so that each is used again
  setup.cells = std::max<std::size_t>(2, std::bit_ceil(r.capacity + (consumers_hold_cells ? 1 : 0)));
  setup.full_may_be_early = early;
  return queue_program<Queue<item, muster::layout::packed, muster::wait::park>>(setup, parse(r.text));
}

std::function<void()> make(const row& r) {
  const std::string queue = r.queue;
  if (queue == "spsc") return make<muster::spsc_queue>(r, false, false);
  if (queue == "spmc") return make<muster::spmc_queue>(r, true, false);
  return make<muster::mpmc_queue>(r, true, true);
}

class queue_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(queue_model, has_no_execution_that_breaks_a_promise) {
  const row& r = table[GetParam()];
  const std::function<void()> program = make(r);
  const std::string name = std::string(r.queue) + " of " + std::to_string(r.capacity) + ": " + r.text;
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    std::vector<mm::limits> searches(1);
    if (r.chances == 0) {
      searches[0] = {.preemptions = r.preemptions, .stale = r.stale, .executions = 1'000'000};
    } else {
      searches.push_back({});
      searches[0] = {.how = mm::strategy::random, .executions = r.chances};
      searches[1] = {.how = mm::strategy::priorities, .executions = r.chances, .depth = 4};
    }
    for (const mm::limits& within : searches) {
      const mm::result found = mm::explore(within, program);
      ASSERT_FALSE(found.failed) << name << (asymmetric ? "" : ", without the asymmetric fence") << '\n'
                                 << found.failed->what << '\n'
                                 << found.failed->trace << mm::write_replay(name, found.failed->path);
      EXPECT_TRUE(found.complete || r.chances != 0) << "not complete after " << found.executions << " executions";
      std::cout << name << ": " << found.executions << " executions" << (found.complete ? ", complete" : "") << '\n';
    }
  }
}

INSTANTIATE_TEST_SUITE_P(programs, queue_model, ::testing::Range(std::size_t{0}, table.size()), [](const auto& at) {
  return std::string(table[at.param].queue) + "_" + std::to_string(at.param);
});

}  // namespace
