// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig4-simulated: what Figure 4 of the FFQ paper reads from hardware counters: where a producer and its consumer
// find their lines, by where they run and by the size of their queues.
#include "simulate/known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

namespace muster::bench {
namespace {

struct affinity {
  const char* name;
  unsigned second;  // the consumer's hardware thread; the producer's is 0
};

/// Those that the machine has.
std::vector<affinity> affinities_of(const muster_simulation::machine& m) {
  std::vector<affinity> found;
  if (m.threads_per_core > 1) found.push_back({"sibling thread", m.cores()});
  if (m.cores_per_cluster > 1) found.push_back({"other core", 1});
  if (m.clusters > 1) found.push_back({"other cluster", m.cores_per_cluster});
  return found;
}

/// Other charts of the same runs.
void add_counts(std::vector<result>& results) {
  struct count {
    const char* suffix;
    const char* what;
    const char* better;
  };
  for (const count& shown : std::array<count, 5>{{{"-l1-hits", "l1 hits", "higher"},
                                                  {"-l2-hits", "l2 hits", "higher"},
                                                  {"-l3-hits", "l3 hits", "higher"},
                                                  {"-memory-reads", "memory reads", "lower"},
                                                  {"-memory-writes", "memory writes", "lower"}}}) {
    results.push_back(results.front().also(shown.suffix, fmt::format("Simulated: {} by affinity", shown.what),
                                           {fmt::format("{} per request", shown.what), "", "", shown.better},
                                           shown.what));
  }
}

constexpr unsigned least_bits = 2;
constexpr unsigned most_bits(profile kind) { return kind == profile::full ? 20 : 14; }

study prepare(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  study made;
  result& r = made.head;
  r.setting = fmt::format(
      "{}; one producer and one consumer; 8-byte requests through one queue, answers through another of the same size; "
      "both threads on one hardware thread are left out, as the simulation has no scheduler",
      told_as_simulated(*machine));
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"simulated transfers per request", "", "", "lower"};
  for (const contender* c : s.contenders.about(model_figure4)) {
    for (const affinity& a : affinities_of(*machine)) {
      contender here = *c;
      here.name = fmt::format("{}, {}", c->name.substr(0, c->name.find(',')), a.name);
      const std::size_t line = made.add_line(here);
      for (unsigned bits = least_bits; bits <= most_bits(s.work.kind); bits += 2) {
        model_spec spec;
        spec.machine = machine;
        spec.capacity = std::size_t{1} << bits;
        spec.threads = {0, a.second};
        spec.items = std::max<std::uint64_t>(simulated_items(s), 4 * spec.capacity);
        add_simulated_point(made, *c, line, spec.capacity, spec);
      }
    }
  }
  made.value = [](const outcome& o) { return o.told("line transfers"); };
  made.finish = add_counts;
  return made;
}

}  // namespace

experiment ffq_fig4_simulated() {
  return {"ffq/fig4-simulated", "simulated", "ffq, Figure 4", "Simulated: lines that travel, by affinity", prepare};
}

}  // namespace muster::bench
