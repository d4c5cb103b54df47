// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/idle: the processor time that a pool takes while it has nothing to do.
#include "experiments/fork/points.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

constexpr const char* a_thousandth = "0.1 % of a processor";
constexpr double idle_of_full = 1.0;  // seconds
constexpr double idle_of_quick = 0.15;

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const double seconds = s.work.kind == profile::full ? idle_of_full : idle_of_quick;
  r.setting = fmt::format(
      "{} workers; {} s, from 0.1 s after a sum over a tree on; after a run: when it has ended; within a run: the "
      "thread that has called sleeps, and the other workers have no work",
      s.place.units(), seconds);
  r.x = {"when", "", "category", ""};
  r.y = {"processor time per second", "µs", "", "lower"};
  for (const contender* c : s.contenders.about(fork_programs)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const char* x, idleness when) {
      fork_spec spec;
      spec.program = "tree";
      spec.size = 100000;
      spec.workers = s.place.units();
      spec.idle = when;
      spec.idle_seconds = seconds;
      add_fork_point(made, *c, line, x, spec, s.place);
    };
    add("after a run", idleness::outside);
    add("within a run", idleness::inside);
  }
  made.value = [](const outcome& o) { return o.told("idle"); };
  made.finish = [](std::vector<result>& results) { add_constant(results.front(), a_thousandth, 1000, "the promise"); };
  return made;
}

}  // namespace

experiment fork_idle() { return {"fork/idle", "fork", "", "A pool without work", prepare}; }

}  // namespace muster::bench
