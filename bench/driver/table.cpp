// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace muster::bench {
namespace {

std::string text(const abscissa& x) { return x.is_string() ? x.get<std::string>() : x.dump(); }

/// Three digits that matter.
std::string number(double v) {
  if (v >= 100 || v == 0) return fmt::format("{:.0f}", v);
  return fmt::format("{:.{}f}", v, v >= 10 ? 1 : v >= 0.1 ? 2 : 4);
}

std::string cell(const series& s, const abscissa& x) {
  const point* p = s.at(x);
  if (p == nullptr) return "";
  if (!p->checked) return "FAILED";
  return p->samples.empty() ? "-" : number(median(p->samples));
}

}  // namespace

std::string table(const result& r) {
  std::vector<abscissa> xs;
  std::size_t names = std::max<std::size_t>(10, r.x.name.size() + 2);
  std::size_t cells = 9;
  for (const series& s : r.lines) {
    names = std::max(names, s.name.size() + 2);
    for (const point& p : s.points) {
      if (std::find(xs.begin(), xs.end(), p.x) == xs.end()) xs.push_back(p.x);
      cells = std::max(cells, text(p.x).size() + 2);
    }
  }
  std::string out = fmt::format("\n{}: {}\n  {}{}{} ({} is better), medians; {}\n", r.experiment, r.title, r.y.name,
                                r.y.unit.empty() ? "" : ", ", r.y.unit, r.y.better, r.setting);
  if (r.lines.empty()) return out;
  out += fmt::format("  {:<{}}{:<9}", r.x.name, names, "role");
  for (const abscissa& x : xs) out += fmt::format("{:>{}}", text(x), cells);
  out += '\n';
  for (const series& s : r.lines) {
    out += fmt::format("  {:<{}}{:<9}", s.name, names, s.role);
    for (const abscissa& x : xs) out += fmt::format("{:>{}}", cell(s, x), cells);
    out += '\n';
    if (!s.failed.empty()) out += fmt::format("    failed {}\n", s.failed);
    std::uint64_t strays = 0;
    for (const point& p : s.points) strays += p.out_of_order;
    if (strays != 0) out += fmt::format("    {} items out of order, which this queue does not exclude\n", strays);
    if (s.points.empty()) out += fmt::format("    not measured: {}\n", s.note);
  }
  return out;
}

}  // namespace muster::bench
