// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig3-techniques: Figure 3 of "Lock Oscillation": all algorithms, by the number of kernel threads.
#include "driver/team_points.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const unsigned units = s.place.units();
  r.claim =
      "on 64 cores Osci has up to 7.5 times the throughput of CC-Synch and 6.8 times that of flat combining with 24 "
      "fibers, PSim-x 4.6 times that of CC-Synch; Osci is within 25 % of the ideal; with one core all are alike";
  r.setting = fmt::format(
      "each algorithm with its own number of fibers; local work up to 512 {}; more than {} carriers share the {} "
      "hardware threads, and the ideal does not grow any more",
      work_unit(), units, units);
  r.x = {"carriers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(shared_object)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned carriers : oversubscribed_counts(s)) {
      add_team_point(made, *c, line, carriers, {.carriers = carriers, .fibers = c->fibers, .work = 512}, s.place);
    }
  }
  promise_at_least(r, "osci", "ideal", units, 0.9, "the paper: 0.75");
  promise_at_least(r, "osci", "cc_synch", units, 1.0, "7.5 times on the paper's 64 cores");
  promise_at_least(r, "osci", "flat_combining", units, 1.0, "6.8 times on the paper's 64 cores");
  made.value = mega_items;
  made.finish = [units](std::vector<result>& results) {
    const std::vector<const char*> order{"osci",     "psim",  "h_synch", "flat_combining",
                                         "cc_synch", "oyama", "retry",   "clh"};
    judge_order(results.front(), medians_at(results.front(), units, order), "Mops/s with all hardware threads");
  };
  return made;
}

}  // namespace

experiment osci_fig3_techniques() {
  return {"osci/fig3-techniques", "combine", "osci, Figure 3", "All algorithms by kernel threads", prepare};
}

}  // namespace muster::bench
