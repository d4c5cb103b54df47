// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/table2-user-threads: Table 2 of "Lock Oscillation": what many fibers per core bring to each algorithm.
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

/// How many times the throughput without fibers each has with its best number of them.
void judge_gains(std::vector<result>& results) {
  result& r = results.front();
  ranked gains;
  for (const char* name : {"psim", "h_synch", "flat_combining", "oyama", "dsm_synch", "cc_synch", "clh", "retry"}) {
    const series* line = r.named(name);
    const ranked alone = medians_at(r, 1U, {name});
    if (line == nullptr || alone.empty()) continue;
    double best = 0;
    for (const point& p : line->points) {
      for (const auto& [same, value] : medians_at(r, p.x, {name})) best = p.x == 1U ? best : std::max(best, value);
    }
    gains.emplace_back(name, best / alone.front().second);
  }
  judge_order(r, gains, "Gain by fibers");
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.claim =
      "on 64 cores fibers multiply the throughput of PSim by 5.94 (with 64), of H-Synch by 2.39 (32), of flat "
      "combining by 1.84 (24) and of Oyama's algorithm by 1.63 (16), and bring CC-Synch, DSM-Synch and CLH 1.08 to "
      "1.12 and the lock-free object 0.94. Osci with 4 fibers has almost 4 times, with 8 over 6 times what it has "
      "with one";
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
  made.finish = judge_gains;
  return made;
}

}  // namespace

experiment osci_table2_user_threads() {
  return {"osci/table2-user-threads", "combine", "osci, Table 2", "What fibers bring to each algorithm", prepare};
}

}  // namespace muster::bench
