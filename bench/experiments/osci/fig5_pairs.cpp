// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "experiments/osci/fig5_pairs.hpp"

#include <fmt/format.h>

namespace muster::bench {

study fig5_pairs(const setting& s, topic about, std::uint64_t prefilled) {
  study made;
  result& r = made.head;
  const unsigned units = s.place.units();
  r.setting = fmt::format(
      "pairs of push and pop on a structure with {} items, after each local work up to 512 {}; each structure with its "
      "own "
      "number of fibers; more than {} carriers share the hardware threads",
      prefilled, work_unit(), units);
  r.x = {"carriers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(about)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned carriers : s.work.kind == profile::full ? oversubscribed_counts(s) : carrier_counts(s.place)) {
      if (s.work.kind != profile::full && carriers != units) continue;
      add_team_point(made, *c, line, carriers,
                     {.carriers = carriers, .fibers = c->fibers, .work = 512, .prefilled = prefilled}, s.place);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace muster::bench
