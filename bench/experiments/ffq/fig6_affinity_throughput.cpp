// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig6-affinity-throughput: Figure 6 of the FFQ paper: where a producer and its consumer should run, by the size of
// their queues.
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

struct affinity {
  const char* name;
  policy how;
  unsigned cores;  // that a pair uses
};
constexpr std::array<affinity, 4> affinities{{{"sibling thread", policy::sibling, 1},
                                              {"same thread", policy::same_thread, 1},
                                              {"other core", policy::same_l3, 2},
                                              {"no affinity", policy::none, 2}}};

unsigned cores_of(const std::string& line) {
  for (const affinity& a : affinities)
    if (line.ends_with(a.name)) return a.cores;
  return 1;
}

/// From the same runs: what the paper recommends is a matter of the cores that are used.
void add_per_core(std::vector<result>& results) {
  result r = results.front().also("-per-core", "Throughput by affinity, per core that is used",
                                  {"throughput per core", "Mops/s", "", "higher"});
  for (series& line : r.lines)
    for (point& p : line.points)
      for (double& sample : p.samples) sample /= cores_of(line.name);
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.claim =
      "two threads of one core are best with small queues; one thread with queues that fit into its caches; two cores "
      "gain by large queues";
  r.setting =
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; an "
      "operation is a request and its answer";
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const affinity& a : affinities) {
    std::vector<int> pus;
    try {
      pus = s.place.with(a.how).assign(1, 1);
    } catch (const std::invalid_argument& e) {
      r.setting += fmt::format("; NOT HERE: {} ({})", a.name, e.what());
      continue;
    }
    for (const contender* c : s.contenders.about(topic::exchange)) {
      if (c->name != "spmc_queue" && c->role != "paper") continue;
      contender here = *c;
      here.name = fmt::format("{}, {}", c->name, a.name);
      const std::size_t line = made.add_line(here);
      for (unsigned bits = 2; bits <= 20; bits += 2) {
        const std::size_t capacity = std::size_t{1} << bits;
        add_exchange_point(made, *c, line, capacity, {.capacity = capacity, .pus = pus}, a.how == policy::same_thread);
      }
    }
  }
  made.value = mega_items;
  made.finish = add_per_core;
  return made;
}

}  // namespace

experiment ffq_fig6_affinity_throughput() {
  return {"ffq/fig6-affinity-throughput", "queue", "ffq, Figure 6", "Throughput by affinity", prepare};
}

}  // namespace muster::bench
