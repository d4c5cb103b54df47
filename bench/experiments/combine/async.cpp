// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine/async: many requests of one thread under way at once, with fibers and without them.
#include "driver/team_points.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "Fetch&Multiply on a float, and a count; no local work; one carrier per hardware thread";
  r.x = {"carriers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(without_waiting)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned carriers : carrier_counts(s.place)) {
      add_team_point(made, *c, line, carriers, {.carriers = carriers, .fibers = c->fibers}, s.place);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment combine_async() { return {"combine/async", "combine", "", "Many requests of a thread at once", prepare}; }

}  // namespace muster::bench
