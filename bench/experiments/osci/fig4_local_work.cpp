// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig4-local-work: Figure 4 of "Lock Oscillation": all algorithms by the work between two operations.
#include "driver/team_points.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.claim =
      "Osci and PSim-x are ahead of all others, Osci by up to 11 times (64 cores); at 4096 iterations still by 1.5 "
      "times; from 16384 on all are alike. At 512 Osci is within 25 % of the ideal; ours within 10 %";
  r.setting = fmt::format("{} carriers, one per hardware thread, each algorithm with its own number of fibers; {}",
                          s.place.units(), work_unit());
  r.x = {"local work", "iterations", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  const auto points = points_of(s.work.kind, {1, 64, 512, 4096, 16384}, {1, 64, 512});
  for (const contender* c : s.contenders.about(shared_object)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned work : points) {
      add_team_point(made, *c, line, work, {.carriers = s.place.units(), .fibers = c->fibers, .work = work}, s.place);
    }
  }
  promise_at_least(r, "osci", "Osci as printed", 1U, 1.5, "the same fibers under both");
  promise_at_least(r, "osci", "Osci as printed", 64U, 1.2, "the same fibers under both");
  promise_at_least(r, "osci", "Osci as printed", 512U, 1.0, "the same fibers under both");
  promise_at_least(r, "osci", "cc_synch", 64U, 1.0, "7.5 to 11 times on the paper's 64 cores");
  promise_at_least(r, "osci", "cc_synch", 512U, 1.0, "7.5 times on the paper's 64 cores");
  promise_at_least(r, "osci", "ideal", 512U, 0.9, "the paper: 0.75");
  made.value = mega_items;
  made.finish = [](std::vector<result>& results) {
    const std::vector<const char*> order{"osci", "psim", "cc_synch", "flat_combining"};
    judge_order(results.front(), medians_at(results.front(), 64U, order), "Mops/s with local work up to 64");
  };
  return made;
}

}  // namespace

experiment osci_fig4_local_work() {
  return {"osci/fig4-local-work", "combine", "osci, Figure 4", "Throughput by local work", prepare};
}

}  // namespace muster::bench
