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
    {"request_list::leave: compare_exchange acquire -> relaxed", true, "only its failure needs an order"},
    {"osci_shared::open_fat: fetch_add skipped", true, "nodes share a key: superfluous wakes"},
    {"osci_shared::pass_door: load repeated", true, "decides how long a thread looks before it tries again"},
};

class mutants : public ::testing::TestWithParam<std::string> {};

TEST_P(mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const combine_row& r : combine_table)
    if (std::string(r.object).starts_with(GetParam()))
      for (const bool asymmetric : {true, false})
        search.programs.push_back(
            {name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), asymmetric, make_program(r), {}});
  search.survivors = survivors;
  search.files = {"combine/"};
  search.files = {"impl/" + GetParam() + ".hpp", "impl/request_list", "impl/waiting"};
  search.prefix = GetParam() + "::";
  search.executions = 4096;
  search.run();
}

INSTANTIATE_TEST_SUITE_P(of, mutants, ::testing::Values("osci", "osci_shared"),
                         [](const auto& at) { return at.param; });

}  // namespace
