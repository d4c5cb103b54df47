// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The combining objects' mutants (mutant_search.hpp), with the programs of combine_table.hpp.
#include <gtest/gtest.h>

#include "combine_table.hpp"
#include "mutant_search.hpp"

#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

const std::vector<survivor> survivors = {
    {"osci::make_node: fetch_add skipped", true, "nodes share a key: superfluous wakes"},
    {"osci_shared::open_batch: fetch_add skipped", true, "nodes share a key: superfluous wakes"},
    {"thread_places::place_of_number: load repeated", true, "the exchange decides between threads that find no block"},
    {"thread_places::make_or_take_over: compare_exchange release -> relaxed #1", true,
     "for threads that take places over, and there is room for all"},
    {"thread_places::make_or_take_over: compare_exchange skipped #1", true, "only psim needs numbers that differ"},
    {"thread_nodes::new_key: fetch_add skipped", true, "nodes share a key: superfluous wakes"},
    {"request_list::leave: compare_exchange acquire -> relaxed", true, "only its failure needs an order"},
    {"request_list::quiescent: load repeated", true, "checks when no other thread is there"},
    {"hands_on_at_end::~hands_on_at_end: load repeated", true, "not to see a waiter the first time is correct as well"},
    {"flat_combining_technique::quiescent: load repeated", true, "checks when no other thread is there"},
    {"h_synch_technique::quiescent: load repeated", true, "checks when no other thread is there"},
    {"clh_lock::last: load repeated", true, "checks when no other thread is there"},
    // Where an owner that gets the role runs its own request, missing links make a lock of the object.
    {"request_list::link: store skipped", true, "each thread serves only itself: correct, and slow"},
    {"h_synch_technique::served: store skipped", true, "each thread serves only itself: correct, and slow"},
    {"flat_combining_technique::link: compare_exchange skipped", true,
     "each thread serves only itself: correct, and slow"},
    {"flat_combining_technique::link: load repeated", true, "the compare-exchange reads it again"},
    {"flat_combining_technique::linked: load acquire -> relaxed", false,
     "a record is dropped after more passes than the programs have"},
};

class mutants : public ::testing::TestWithParam<std::string> {};

TEST_P(mutants, are_noticed_or_explained) {
  mutant_search search;
  const auto add_programs = [&](const std::vector<combine_row>& table, auto make) {
    for (const combine_row& r : table)
      if (const std::string object = r.object; object.substr(0, object.find(' ')) == GetParam())
        for (const bool asymmetric : {true, false})
          search.programs.push_back(
              {name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), asymmetric, make(r), {}});
  };
  add_programs(combine_table, make_program);
  add_programs(combine_baseline_table, make_baseline_program);
  search.survivors = survivors;
  // clh and h_synch share a lock, mcs and dsm_synch a queue.
  search.files = {"/" + GetParam() + ".hpp", "combining/clh_lock", "combining/mcs_queue", "detail/request_list",
                  "detail/thread_nodes",     "detail/per_thread",  "detail/fiber_wait"};
  search.prefix = GetParam() + (GetParam().starts_with("osci") ? "::" : "_technique::");
  search.executions = 4096;
  search.run();
}

INSTANTIATE_TEST_SUITE_P(of, mutants, ::testing::Values("osci", "osci_shared", "cc_synch", "flat_combining"),
                         [](const auto& at) { return at.param; });
INSTANTIATE_TEST_SUITE_P(of_baseline, mutants, ::testing::Values("dsm_synch", "h_synch", "oyama", "clh", "mcs"),
                         [](const auto& at) { return at.param; });

}  // namespace
