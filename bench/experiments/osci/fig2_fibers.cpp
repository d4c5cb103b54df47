// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig2-fibers: Figure 2 of "Lock Oscillation": Osci, by the number of fibers per core.
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

/// More fibers, more throughput, up to 64.
void judge_growth(std::vector<result>& results) {
  result& r = results.front();
  const auto all_carriers =
      std::find_if(r.lines.rbegin(), r.lines.rend(), [](const series& s) { return s.role == "ours"; });
  if (all_carriers == r.lines.rend()) return;
  ranked growing;
  for (const unsigned fibers : {64U, 8U, 1U}) {
    for (const auto& [name, value] : medians_at(r, fibers, {all_carriers->name.c_str()})) {
      growing.emplace_back(fmt::format("{} with {}", name, fibers), value);
    }
  }
  judge_order(r, growing, "Mops/s");
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.claim =
      "throughput grows with the fibers of a core, almost 4 times with 4 and over 6 times with 8, hardly beyond 32; it "
      "falls slightly after 64 (AMD, 64 cores) or 96 (Intel)";
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
  made.finish = judge_growth;
  return made;
}

}  // namespace

experiment osci_fig2_fibers() {
  return {"osci/fig2-fibers", "combine", "osci, Figure 2", "Osci by fibers per core", prepare};
}

}  // namespace muster::bench
