// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig1-ideal, osci/fig4a-one-thread: Figures 1 and 4a of "Lock Oscillation": how far the known techniques are from
// the ideal with one thread per core, and Osci and PSim-x beside them.
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <string>

namespace muster::bench {
namespace {

study by_carriers(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = fmt::format("Fetch&Multiply, local work up to 512 {}; more than {} carriers share the hardware threads",
                          work_unit(), s.place.units());
  r.x = {"carriers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  made.value = mega_items;
  return made;
}

void add(study& to, const setting& s, const contender& c, unsigned fibers, const std::string& name) {
  contender here = c;
  here.name = name;
  here.fibers = fibers;
  const std::size_t line = to.add_line(here, {}, with_fibers(here));
  for (const unsigned carriers : carrier_counts(s.place))
    add_team_point(to, c, line, carriers, {.carriers = carriers, .fibers = fibers, .work = 512}, s.place);
}

study cc_synch_and_the_ideal(const setting& s) {
  study made = by_carriers(s);
  for (const contender* c : s.contenders.about(shared_object))
    if (c->name == "cc_synch" || c->role == "limit") add(made, s, *c, 1, c->name);
  return made;
}

study one_thread_each(const setting& s) {
  study made = by_carriers(s);
  for (const contender* c : s.contenders.about(shared_object)) {
    const bool with_its_own = c->name == "osci" || c->name == "psim" || c->role == "paper" || c->role == "limit";
    if (with_its_own) add(made, s, *c, c->fibers, c->name);
    if (c->name == "psim" || !with_its_own) add(made, s, *c, 1, c->name + " x1");
  }
  return made;
}

}  // namespace

experiment osci_fig1_ideal() {
  return {"osci/fig1-ideal", "combine", "osci, Figure 1", "CC-Synch and the ideal by kernel threads",
          cc_synch_and_the_ideal};
}

experiment osci_fig4a_one_thread() {
  return {"osci/fig4a-one-thread", "combine", "osci, Figure 4a", "Osci and PSim-x beside techniques without fibers",
          one_thread_each};
}

}  // namespace muster::bench
