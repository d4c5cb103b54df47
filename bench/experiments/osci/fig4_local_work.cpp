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
  made.value = mega_items;
  return made;
}

}  // namespace

experiment osci_fig4_local_work() {
  return {"osci/fig4-local-work", "combine", "osci, Figure 4", "Throughput by local work", prepare};
}

}  // namespace muster::bench
