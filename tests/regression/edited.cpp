// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// edited.cpp: compiled with a header that edits.py has changed. Runs the programs of a queue until one of them fails;
// that is success, and its first line says which. Exit status 1: no program has noticed a change. Compiled with the
// headers as they are it must come to that, or what the programs notice would not be the changes.
#include "queue_table.hpp"
#include "shared_deaths.hpp"
#include "shared_queue_table.hpp"

#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace muster_model_test {
namespace {

struct tried {
  std::string name;
  std::function<void()> program;
  int freeze = -1;  // this thread may die
};

std::vector<tried> programs_of(const std::string& queue) {
  std::vector<tried> found;
  for (const row& r : table)
    if (queue == "all" || queue == r.queue) found.push_back({name_of(r), make_program(r)});
  if (queue == "shared") {
    for (const shared_row& r : shared_table) found.push_back({name_of(r), make_program(r)});
    for (const death_row& d : deaths()) found.push_back({d.name, d.program, 1});
    for (const death_row& d : handovers()) found.push_back({d.name, d.program});
  }
  return found;
}

}  // namespace
}  // namespace muster_model_test

int main(int argc, char** argv) {
  using namespace muster_model_test;
  if (argc != 2) {
    std::cerr << "say whose programs to run: spsc, spmc, mpmc, lanes, shared or all\n";
    return 2;
  }
  const std::vector<tried> programs = programs_of(argv[1]);
  for (std::uint64_t executions = 64; executions <= 4096; executions *= 8)
    for (const tried& one : programs)
      for (const bool asymmetric : {true, false}) {
        mm::settings().asymmetric_fences = asymmetric;
        for (const auto how : {mm::strategy::priorities, mm::strategy::random}) {
          const mm::limits within{
              .how = how, .executions = executions, .steps = 2000, .depth = 4, .freeze = one.freeze};
          const mm::result found = mm::explore(within, one.program);
          if (!found.failed) continue;
          std::cout << "noticed by " << one.name << (asymmetric ? "" : ", without the asymmetric fence") << '\n'
                    << found.failed->what << '\n';
          return 0;
        }
      }
  std::cout << "no program has noticed a change\n";
  return 1;
}
