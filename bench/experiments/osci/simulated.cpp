// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig2-simulated, osci/fig3-simulated, osci/table4-simulated: Figures 2 and 3 and Table 4 of "Lock Oscillation" on
// a machine that is not there, with as many cores as the paper's.
#include "driver/team_points.hpp"
#include "simulate/known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

// 512 and 64 of the paper's dummy iterations, of six cycles each at 3.4 GHz (driver/local_work.hpp).
constexpr unsigned work_512 = 900;
constexpr unsigned work_64 = 113;

unsigned most_cores(const setting& s, const muster_simulation::machine& m) {
  return s.work.kind == profile::smoke ? std::min(4U, m.cores()) : m.cores();
}

/// Osci as printed looks at its nodes so often that the quick profile has no time for it.
std::vector<const contender*> objects_for(const setting& s) {
  std::vector<const contender*> found = s.contenders.about(model_objects);
  if (s.work.kind == profile::quick) std::erase_if(found, [](const contender* c) { return c->role == "paper"; });
  return found;
}

/// One thread on each of the first cores. Each fiber has some operations at least, but for very many fibers.
model_spec on_cores(const setting& s, const simulated_machine& machine, unsigned cores, unsigned fibers,
                    unsigned most_work) {
  struct length {
    std::uint64_t each;
    std::uint64_t least;
    std::uint64_t most;
  };
  const length here = s.work.kind == profile::full    ? length{12, 20'000, 50'000}
                      : s.work.kind == profile::quick ? length{4, fibers == 1 ? 10'000U : 3'000U, 16'384}
                                                      : length{2, 1'000, 2'000};
  model_spec spec;
  spec.machine = machine;
  spec.fibers = fibers;
  spec.most_work = most_work;
  spec.items = std::clamp(here.each * cores * fibers, here.least, here.most);
  spec.threads.resize(cores);
  std::iota(spec.threads.begin(), spec.threads.end(), 0U);
  return spec;
}

std::string told(const muster_simulation::machine& m, unsigned most_work) {
  return fmt::format(
      "{}; Fetch&Multiply, one thread on each core, 0 to {} ns of work between two operations of a fiber",
      told_as_simulated(m), most_work);
}

/// From the same runs.
void add_transfers(std::vector<result>& results) {
  results.push_back(results.front().also("-transfers", "Simulated: lines that travel between caches, for an operation",
                                         {"transfers per operation", "", "", "lower"}, "line transfers"));
}

study by_fibers(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  const unsigned cores = most_cores(s, *machine);
  study made;
  made.head.setting = fmt::format("{}; {} cores", told(*machine, work_512), cores);
  made.head.x = {"fibers per core", "", "log2", ""};
  made.head.y = {"simulated throughput", "Mops/s", "", "higher"};
  for (const contender* c : objects_for(s)) {
    if (c->name != "osci" && c->role != "paper") continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s.work.kind, {1, 2, 4, 8, 16, 32, 64, 96, 128}, {1, 4, 8, 64}))
      add_simulated_point(made, *c, line, fibers, on_cores(s, machine, cores, fibers, work_512));
  }
  made.value = mega_items;
  made.finish = add_transfers;
  return made;
}

study by_cores(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  const unsigned most = most_cores(s, *machine);
  study made;
  made.head.setting = fmt::format(
      "{}; cores of one cluster after another; each algorithm with its own number of fibers, for which it yields",
      told(*machine, work_512));
  made.head.x = {"simulated cores", "", "log2", ""};
  made.head.y = {"simulated throughput", "Mops/s", "", "higher"};
  const unsigned step = s.work.kind == profile::full ? 2 : 8;
  for (const contender* c : objects_for(s)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (unsigned cores = 1; cores < most * step; cores *= step) {
      const unsigned here = std::min(cores, most);
      add_simulated_point(made, *c, line, here, on_cores(s, machine, here, c->fibers, work_512));
    }
  }
  made.value = mega_items;
  made.finish = add_transfers;
  return made;
}

study of_each_algorithm(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  const unsigned cores = most_cores(s, *machine);
  study made;
  made.head.setting =
      fmt::format("{}; the combining degree is the number of operations that one core executes without a break",
                  told(*machine, work_64));
  made.head.x = {"simulated cores", "", "category", ""};
  made.head.y = {"combining degree", "", "", "higher"};
  for (const contender* c : objects_for(s)) {
    // The rows of the paper's table.
    const bool both_ways = c->name == "osci" || c->name == "psim";
    if (!both_ways && c->name != "h_synch" && c->name != "cc_synch" && c->role != "paper") continue;
    for (const unsigned fibers : {c->fibers, 1U}) {
      if (fibers != c->fibers && !both_ways) continue;
      contender here = *c;
      here.name += fmt::format(" x{}", fibers);
      add_simulated_point(made, *c, made.add_line(here), fmt::format("{} cores", cores),
                          on_cores(s, machine, cores, fibers, work_64));
      if (c->fibers == 1) break;
    }
  }
  made.value = [](const outcome& o) { return o.told("degree"); };
  made.finish = add_transfers;
  return made;
}

}  // namespace

experiment osci_fig2_simulated() {
  return {"osci/fig2-simulated", "simulated", "osci, Figure 2", "Simulated: Osci by fibers per core", by_fibers};
}

experiment osci_fig3_simulated() {
  return {"osci/fig3-simulated", "simulated", "osci, Figure 3", "Simulated: techniques by cores", by_cores};
}

experiment osci_table4_simulated() {
  return {"osci/table4-simulated", "simulated", "osci, Table 4", "Simulated: combining degree of each algorithm",
          of_each_algorithm};
}

}  // namespace muster::bench
