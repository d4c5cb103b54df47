// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/team_points.hpp"

#include "driver/claims.hpp"
#include "driver/local_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::bench {
namespace {

constexpr unsigned most_fibers = 16384;  // each has a stack and its guard: two of 65530 mappings

bar promise(const char* ours, const char* against, abscissa x, const char* note) {
  bar b;
  b.ours = ours;
  b.against = against;
  b.x = std::move(x);
  b.note = note;
  return b;
}

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

ranked medians_at(const result& r, const abscissa& x, const std::vector<const char*>& names) {
  ranked found;
  for (const char* name : names)
    if (const std::optional<double> value = r.at(name, x)) found.emplace_back(name, *value);
  return found;
}

void judge_order(result& r, const ranked& in_the_papers_order, const char* what) {
  if (in_the_papers_order.size() < 2) return;
  bool all = true;
  bool first = true;
  std::string told;
  for (std::size_t i = 0; i < in_the_papers_order.size(); ++i) {
    const auto& [name, value] = in_the_papers_order[i];
    if (i != 0) {
      all = all && value <= noise * in_the_papers_order[i - 1].second;
      first = first && value <= noise * in_the_papers_order[0].second;
    }
    told += fmt::format("{}{} {:.3g}", i == 0 ? "" : ", ", name, value);
  }
  r.verdict = all ? "reproduced" : first ? "partly" : "not";
  r.verdict_why = fmt::format("{}, in the paper's order, best first: {}. {}", what, told,
                              all     ? "The order is the same here"
                              : first ? "The first is the best here, too; the others are in another order"
                                      : "Here the order is another");
}

void promise_at_least(result& r, const char* ours, const char* against, abscissa x, double at_least, const char* note) {
  bar b = promise(ours, against, std::move(x), note);
  b.at_least = at_least;
  r.bars.push_back(b);
}

void promise_at_most(result& r, const char* ours, const char* against, abscissa x, double at_most, const char* note) {
  bar b = promise(ours, against, std::move(x), note);
  b.at_most = at_most;
  r.bars.push_back(b);
}

}  // namespace muster::bench
