// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig4-affinity-counters, ffq/fig6-affinity-throughput: Figures 4 and 6 of the FFQ paper: where a producer and its
// consumer should run, by the size of their queues, and what the processor counts meanwhile.
#include "driver/events.hpp"
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr unsigned least_bits = 2, most_bits = 20;
constexpr std::size_t size_of(unsigned bits) { return std::size_t{1} << bits; }

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

study pairs_by_affinity(const setting& s, bool events) {
  study made;
  result& r = made.head;
  r.setting =
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; an "
      "operation is a request and its answer";
  r.x = {"queue size", "entries", "log2", ""};
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
      for (unsigned bits = least_bits; bits <= most_bits; bits += 2) {
        const std::size_t capacity = size_of(bits);
        add_exchange_point(made, *c, line, capacity, {.capacity = capacity, .events = events, .pus = pus},
                           a.how == policy::same_thread);
      }
    }
  }
  return made;
}

study prepare_throughput(const setting& s) {
  study made = pairs_by_affinity(s, false);
  made.head.y = {"throughput", "Mops/s", "", "higher"};
  made.value = mega_items;
  made.finish = add_per_core;
  return made;
}

/// Other charts of the same runs: of what this processor counts.
void add_counts(std::vector<result>& results) {
  for (const auto& [what, suffix] :
       std::array<std::pair<const char*, const char*>, 4>{{{"instructions", "-instructions"},
                                                           {"l1 misses", "-l1-misses"},
                                                           {"last-level reads", "-last-level-reads"},
                                                           {"cache misses", "-memory"}}}) {
    result r = results.front().also(suffix, fmt::format("By affinity: {}", what),
                                    {fmt::format("{} per request", what), "", "", "lower"}, what);
    // Not every processor counts everything.
    if (std::any_of(r.lines.begin(), r.lines.end(), [](const series& line) {
          return std::any_of(line.points.begin(), line.points.end(), [](const point& p) { return !p.samples.empty(); });
        }))
      results.push_back(std::move(r));
  }
}

study prepare_counters(const setting& s) {
  const std::string why_not = hardware_events::why_not();
  study made = why_not.empty() ? pairs_by_affinity(s, true) : study();
  result& r = made.head;
  if (!why_not.empty())
    r.setting = "NOT HERE: " + why_not + "; ffq/fig4-simulated counts the same on a simulated machine";
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"instructions per cycle", "", "", "higher"};
  made.value = [](const outcome& o) { return o.told("instructions") / o.told("cycles"); };
  made.finish = add_counts;
  return made;
}

}  // namespace

experiment ffq_fig4_affinity_counters() {
  return {"ffq/fig4-affinity-counters", "queue", "ffq, Figure 4", "Instructions per cycle, by affinity",
          prepare_counters};
}

experiment ffq_fig6_affinity_throughput() {
  return {"ffq/fig6-affinity-throughput", "queue", "ffq, Figure 6", "Throughput by affinity", prepare_throughput};
}

}  // namespace muster::bench
