// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/table3-latency: Table 3 of "Lock Oscillation": how long an operation takes, by the number of fibers per core.
#include "driver/team_points.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

/// From the same runs: other quantiles, and the throughput that is bought with the latency.
void add_charts(std::vector<result>& results) {
  const result first = results.front();
  const auto add = [&](const char* suffix, const char* title, axis y, const char* what) {
    results.push_back(first.also(suffix, title, std::move(y), what));
  };
  add("-p50", "Latency by fibers: median", {"latency, median", "ns", "", "lower"}, "p50");
  add("-p99", "Latency by fibers: 99th percentile", {"latency, 99th percentile", "ns", "", "lower"}, "p99");
  add("-throughput", "Latency by fibers: throughput of the same runs", {"throughput", "Mops/s", "", "higher"},
      "throughput");
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      fmt::format("{} carriers; local work up to 512 {}; one in 16 operations is timed, from the call to the return",
                  s.place.units(), work_unit());
  r.x = {"fibers per carrier", "", "log2", ""};
  r.y = {"latency, mean", "ns", "", "lower"};
  for (const contender* c : s.contenders.about(shared_object)) {
    if (c->name != "osci" && c->name != "cc_synch" && c->name != "std::mutex" && c->role != "paper") continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s.work.kind, {1, 4, 8, 32, 64}, {1, 64})) {
      if (fibers != 1 && c->fibers == 1) continue;
      add_team_point(made, *c, line, fibers,
                     {.carriers = s.place.units(), .fibers = fibers, .work = 512, .latency = true}, s.place);
    }
  }
  made.value = [](const outcome& o) { return o.told("mean"); };
  made.finish = add_charts;
  return made;
}

}  // namespace

experiment osci_table3_latency() {
  return {"osci/table3-latency", "combine", "osci, Table 3", "Latency by fibers: mean", prepare};
}

}  // namespace muster::bench
