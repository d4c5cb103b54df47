// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/team_points.hpp"

#include "driver/local_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::bench {
namespace {

constexpr unsigned most_fibers = 16384;  // each has a stack and its guard: two of 65530 mappings

}  // namespace

std::vector<unsigned> points_of(profile kind, std::vector<unsigned> full, std::vector<unsigned> quick) {
  return kind == profile::full ? full : quick;
}

std::vector<unsigned> carrier_counts(const placement& place) {
  std::vector<unsigned> found;
  for (unsigned n = 1; n < place.units(); n *= 2) found.push_back(n);
  found.push_back(place.units());
  return found;
}

std::vector<unsigned> oversubscribed_counts(const setting& s) {
  const unsigned units = s.place.units();
  std::vector<unsigned> found = carrier_counts(s.place);
  if (s.work.kind != profile::full) found = {units};
  if (s.work.kind == profile::full) found.push_back(2 * units);
  found.push_back(4 * units);
  if (s.work.kind == profile::full) found.push_back(8 * units);
  return found;
}

void add_team_point(study& to, const contender& c, std::size_t line, abscissa x, team_spec spec,
                    const placement& place) {
  spec.fibers = std::max(1U, std::min(spec.fibers, most_fibers / spec.carriers));
  spec.pus = place.assign(spec.carriers, 0);
  configuration one;
  one.line = line;
  one.x = std::move(x);
  one.maybe_slow = spec.carriers > place.units();  // a queue lock's next holder may have to wait for its time slice
  one.run = [&c, spec](std::uint64_t items) {
    team_spec now = spec;
    now.items = items;
    return c.team(now);
  };
  to.configurations.push_back(one);
}

std::string with_fibers(const contender& c) {
  const std::string fibers = c.fibers == 1 ? "no fibers" : fmt::format("{} fibers per carrier", c.fibers);
  return c.note.empty() ? fibers : fmt::format("{}; {}", fibers, c.note);
}

std::string work_unit() { return fmt::format("dummy iterations, {:.2f} ns each here", nanoseconds_per_iteration()); }

}  // namespace muster::bench
