// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fiber/switch: what a yield costs, by the number of fibers that take turns.
#include "driver/team_points.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "1 thread; each fiber yields to the next in turn; where turns can be told, they are checked";
  r.x = {"fibers", "", "log2", ""};
  r.y = {"time per yield", "ns", "", "lower"};
  for (const contender* c : s.contenders.about(fiber_switch)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s.work.kind, {2, 16, 64, 128, 1024}, {2, 64, 1024})) {
      if (fibers > c->fibers) continue;
      add_team_point(made, *c, line, fibers, {.carriers = 1, .fibers = fibers}, s.place);
    }
  }
  made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  return made;
}

}  // namespace

experiment fiber_switch_cost() { return {"fiber/switch", "combine", "", "A yield, by number of fibers", prepare}; }

}  // namespace muster::bench
