// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/waiting: how far a program comes in which a mutex is held over a join.
#include "experiments/fork/points.hpp"

namespace muster::bench {
namespace {

constexpr const char* all = "all";

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "every other part of a loop forks and joins while it holds a mutex; it is a deadlock when a thread wants the "
      "mutex that it holds itself, or gets it not within 0.3 s (a part takes less than a millisecond)";
  r.x = {"workers", "", "category", ""};
  r.y = {"parts before a deadlock", "of 1000", "", "higher"};
  for (const contender* c : s.contenders.about(fork_programs)) {
    if (c->name == plain_calls) continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned workers : {2U, 4U}) {
      fork_spec spec;
      spec.program = "locked";
      spec.size = fork_size("locked", s.work.kind);
      spec.workers = workers;
      add_fork_point(made, *c, line, workers == 2 ? "2" : "4", spec, s.place);
    }
  }
  made.value = [](const outcome& o) { return o.told("before a deadlock"); };
  made.finish = [](std::vector<result>& results) { add_constant(results.front(), all, 1000, "the promise"); };
  return made;
}

}  // namespace

experiment fork_waiting() { return {"fork/waiting", "fork", "", "Locks held over a join", prepare}; }

}  // namespace muster::bench
