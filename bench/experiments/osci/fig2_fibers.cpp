// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig2-fibers: Figure 2 of "Lock Oscillation": Osci, by the number of fibers per core.
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = fmt::format("Fetch&Multiply, local work up to 512 {}; a line for each number of carriers", work_unit());
  r.x = {"fibers per carrier", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(shared_object)) {
    if (c->name != "osci" && c->role != "paper") continue;
    for (const unsigned carriers : carrier_counts(s.place)) {
      contender here = *c;
      here.name += fmt::format(", {} carrier{}", carriers, carriers == 1 ? "" : "s");
      const std::size_t line = made.add_line(here);
      for (const unsigned fibers : points_of(s.work.kind, {1, 2, 4, 8, 16, 32, 64, 96, 128}, {1, 8, 64})) {
        add_team_point(made, *c, line, fibers, {.carriers = carriers, .fibers = fibers, .work = 512}, s.place);
      }
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment osci_fig2_fibers() {
  return {"osci/fig2-fibers", "combine", "osci, Figure 2", "Osci by fibers per core", prepare};
}

}  // namespace muster::bench
