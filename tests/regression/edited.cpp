// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// edited.cpp: compiled with a header that edits.py has changed, for the queue that MUSTER_MODEL_QUEUE names. Runs the
// programs of that queue until one of them fails; that is success, and the first line of output names it. Exit status
// 1: no program notices a change. Compiled with the headers as they are it must end with that status, or the programs
// would notice something else than the changes.
#if defined(MUSTER_MODEL_SHARED)
#include "shared_deaths.hpp"
#include "shared_queue_table.hpp"
#else
#include "queue_table.hpp"
#endif

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

std::vector<tried> programs() {
  std::vector<tried> found;
#if defined(MUSTER_MODEL_SHARED)
  for (const shared_row& r : shared_table) found.push_back({name_of(r), make_program(r)});
  for (const death_row& d : deaths()) found.push_back({d.name, d.program, 1});
  for (const death_row& d : handovers()) found.push_back({d.name, d.program});
#else
  for (const row& r : table)
    if (compiled(r.queue)) found.push_back({name_of(r), make_program(r)});
#endif
  return found;
}

}  // namespace
}  // namespace muster_model_test

int main() {
  using namespace muster_model_test;
  const std::vector<tried> all = programs();
  for (std::uint64_t executions = 64; executions <= 4096; executions *= 8)
    for (const tried& one : all)
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
