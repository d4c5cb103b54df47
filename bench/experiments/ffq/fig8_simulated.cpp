// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig8-simulated: Figure 8 of the FFQ paper on a machine that is not there: pairs of push and pop by up to as many
// threads as the machine of the simulation has.
#include "simulate/known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

/// From the same runs.
void add_transfers(std::vector<result>& results) {
  results.push_back(results.front().also("-transfers",
                                         "Simulated: lines that travel between caches, for a pair of operations",
                                         {"transfers per pair", "", "log2", "lower"}, "line transfers"));
}

study prepare(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  study made;
  result& r = made.head;
  r.setting = fmt::format(
      "{}; each thread pushes an item and pops one, with 50 to 150 ns of work between two operations, on one queue of "
      "4096 items; threads fill the cores of one cluster after another, and then the cores' second threads",
      told_as_simulated(*machine));
  r.x = {"simulated threads", "", "log2", ""};
  r.y = {"simulated throughput", "Mpairs/s", "log2", "higher"};
  for (const contender* c : s.contenders.about(model_figure8)) {
    contender here = *c;
    here.name = here.name.substr(0, here.name.find(", pairs"));
    const std::size_t line = made.add_line(here);
    for (unsigned threads = 1; threads <= machine->threads(); threads *= 2) {
      model_spec spec;
      spec.machine = machine;
      spec.least_work = 50;
      spec.most_work = 150;
      spec.items = simulated_items(s);
      spec.threads.resize(threads);
      std::iota(spec.threads.begin(), spec.threads.end(), 0U);
      add_simulated_point(made, *c, line, threads, spec);
    }
  }
  made.value = mega_items;
  made.finish = add_transfers;
  return made;
}

}  // namespace

experiment ffq_fig8_simulated() {
  return {"ffq/fig8-simulated", "simulated", "ffq, Figure 8", "Simulated: pairs of push and pop by many threads",
          prepare};
}

}  // namespace muster::bench
