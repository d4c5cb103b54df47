// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// edited.cpp: compiled with a header that edits.py has changed. Runs the programs of queue_table.hpp until one of them
// fails; that is success, and its first line says which. Exit status 1: no program has noticed a change. Compiled with
// the headers as they are it must come to that, or what the programs notice would not be the changes.
#include "queue_table.hpp"

#include <cstdint>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  using namespace muster_model_test;
  if (argc != 2) {
    std::cerr << "say whose programs to run: spsc, spmc, mpmc or all\n";
    return 2;
  }
  const std::string queue = argv[1];
  for (std::uint64_t executions = 64; executions <= 4096; executions *= 8)
    for (const row& r : table) {
      if (queue != "all" && queue != r.queue) continue;
      for (const bool asymmetric : {true, false}) {
        mm::settings().asymmetric_fences = asymmetric;
        for (const auto how : {mm::strategy::priorities, mm::strategy::random}) {
          const mm::limits within{.how = how, .executions = executions, .steps = 2000, .depth = 4};
          const mm::result found = mm::explore(within, make_program(r));
          if (!found.failed) continue;
          std::cout << "noticed by " << name_of(r) << (asymmetric ? "" : ", without the asymmetric fence") << '\n'
                    << found.failed->what << '\n';
          return 0;
        }
      }
    }
  std::cout << "no program has noticed a change\n";
  return 1;
}
