// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/small: sums over small trees, each in a run of the pool of its own: with workers that are awake because the last
// sum has just ended ("warm"), and with workers that sleep ("cold"). Here a pool shows what it costs those who have
// little to do.
#include "experiments/fork/points.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "balanced trees; a fork at each node with two children; warm: one sum after another, cold: 3 ms after the last";
  r.x = {"nodes", "", "log2", ""};
  r.y = {"time per node", "ns", "", "lower"};
  const bool full = s.work.kind == profile::full;
  for (const contender* c : s.contenders.about(fork_programs)) {
    for (const unsigned workers : worker_counts(*c, s.place)) {
      for (const bool cold : {false, true}) {
        contender here = *c;
        here.name = with_workers(*c, workers) + (cold ? ", cold" : ", warm");
        const std::size_t line = made.add_line(here);
        for (const unsigned nodes : points_of(s.work.kind, {10, 100, 1000, 10000, 100000}, {10, 1000, 100000})) {
          fork_spec spec;
          spec.program = "tree";
          spec.size = nodes;
          spec.workers = workers;
          spec.pause = cold ? 3e-3 : 0;
          add_fork_point(made, *c, line, nodes, spec, s.place).fixed_items = cold ? nodes * (full ? 100U : 10U) : 0;
        }
      }
    }
  }
  made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  return made;
}

}  // namespace

experiment fork_small() { return {"fork/small", "fork", "", "Small trees, warm and cold", prepare}; }

}  // namespace muster::bench
