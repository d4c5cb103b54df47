// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/table4-misses: Table 4 of "Lock Oscillation": what stands behind the throughput of each algorithm.
#include "driver/events.hpp"
#include "driver/team_points.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

/// From the same runs, what the processor and the atomics have counted; charts without a single number are left out.
void add_charts(std::vector<result>& results) {
  const result first = results.front();
  for (const char* what : {"read-modify-writes", "cache misses", "stalled cycles"}) {
    result r = first;
    r.experiment += *what == 'r' ? "-rmw" : *what == 'c' ? "-cache" : "-stalls";
    r.title = fmt::format("{} of each algorithm", what);
    r.title[0] = static_cast<char>(r.title[0] - 'a' + 'A');
    r.y = {fmt::format("{} per operation", what), "", "", "lower"};
    bool any = false;
    for (series& s : r.lines) {
      for (point& p : s.points) {
        p.samples = p.told(what);
        any = any || !p.samples.empty();
      }
      std::erase_if(s.points, [](const point& p) { return p.samples.empty() && p.checked; });
    }
    if (any) results.push_back(std::move(r));
  }
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const std::string why_not = hardware_events::why_not();
  r.setting = fmt::format(
      "{} carriers; local work up to 64 {}; the combining degree is the number of operations that one carrier executes "
      "without a break; cache misses and stalled cycles: {}",
      s.place.units(), work_unit(), why_not.empty() ? "counted in user mode" : "not counted, " + why_not);
  r.x = {"carriers", "", "category", ""};
  r.y = {"combining degree", "", "", "higher"};
  const abscissa x = fmt::format("{} carriers", s.place.units());
  for (const contender* c : s.contenders.about(counted)) {
    for (const unsigned fibers : {c->fibers, 1U}) {
      if (fibers == 1 && c->fibers != 1 && c->name != "psim" && c->name != "cc_synch" && c->name != "osci") continue;
      contender here = *c;
      here.name += fmt::format(" x{}", fibers);
      add_team_point(made, *c, made.add_line(here), x,
                     {.carriers = s.place.units(), .fibers = fibers, .work = 64, .events = true}, s.place);
      if (c->fibers == 1) break;
    }
  }
  made.value = [](const outcome& o) { return o.told("degree"); };
  made.finish = add_charts;
  return made;
}

}  // namespace

experiment osci_table4_misses() {
  return {"osci/table4-misses", "combine", "osci, Table 4", "Combining degree of each algorithm", prepare};
}

}  // namespace muster::bench
