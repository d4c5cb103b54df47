// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/table2-user-threads: Table 2 of "Lock Oscillation": what many fibers per core bring to each algorithm.
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      fmt::format("{} carriers, one per hardware thread; local work up to 512 {}", s.place.units(), work_unit());
  r.x = {"fibers per carrier", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(shared_object)) {
    if (c->role == "limit") continue;  // fibers are nothing to it
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s.work.kind, {1, 2, 4, 8, 16, 32, 64}, {1, 64})) {
      add_team_point(made, *c, line, fibers, {.carriers = s.place.units(), .fibers = fibers, .work = 512}, s.place);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment osci_table2_user_threads() {
  return {"osci/table2-user-threads", "combine", "osci, Table 2", "What fibers bring to each algorithm", prepare};
}

}  // namespace muster::bench
