// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine/uncontended: what an operation costs when nobody else is there.
#include "driver/team_points.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "1 thread, no fibers, Fetch&Multiply on a float, no local work";
  r.x = {"case", "", "category", ""};
  r.y = {"time per operation", "ns", "", "lower"};
  const abscissa x = "1 thread alone";
  for (const contender* c : s.contenders.about(shared_object)) {
    add_team_point(made, *c, made.add_line(*c), x, {.carriers = 1, .fibers = 1}, s.place);
  }
  made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  return made;
}

}  // namespace

experiment combine_uncontended() {
  return {"combine/uncontended", "combine", "", "One operation, nobody else there", prepare};
}

}  // namespace muster::bench
