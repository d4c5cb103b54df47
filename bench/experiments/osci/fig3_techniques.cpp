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
  made.value = mega_items;
  return made;
}

}  // namespace

experiment osci_fig3_techniques() {
  return {"osci/fig3-techniques", "combine", "osci, Figure 3", "All algorithms by kernel threads", prepare};
}

}  // namespace muster::bench
