// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// syscall.cpp: what a system call of a process costs that another process makes.
#include "table/points.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace muster::bench {
namespace {

struct sides {
  const char* name;
  policy how;
};
constexpr std::array placements{sides{", one processor", policy::same_thread},
                                sides{", two processors", policy::spread}};

/// For each contender a line with its better placement at each point.
void add_better_placement(std::vector<result>& results) {
  result& r = results.front();
  std::vector<series> better;
  for (const series& one : r.lines) {
    if (!one.name.ends_with(placements[0].name)) continue;
    series line = one;
    line.name.erase(line.name.rfind(placements[0].name));
    const series* const other = r.named(line.name + placements[1].name);
    for (point& p : line.points) {
      const point* const there = other == nullptr ? nullptr : other->at(p.x);
      if (there == nullptr || there->samples.empty() || !there->checked) continue;
      if (p.samples.empty() || !p.checked || median(there->samples) < median(p.samples)) p = *there;
    }
    line.note += line.note.empty() ? "the better placement" : "; the better placement";
    better.push_back(std::move(line));
  }
  r.lines.insert(r.lines.end(), better.begin(), better.end());
}

study getppid_by_others(const setting& s) {
  study made = chart(
      "getppid() of one process, made by another; fibers of its thread call at the same time where that is possible; "
      "each way with both processes on one processor and with a processor each",
      {"fibers", "", "log2", ""}, {"time of a call", "ns", "log2", "lower"}, nanoseconds_per_item,
      add_better_placement);
  for (const contender& c : s.contenders.all) {
    if (!c.call_between) continue;
    for (const sides& where : placements) {
      const std::size_t line = add_line_as(made, c, c.name + where.name, c.note);
      for (const unsigned fibers : {1U, 8U, 64U}) {
        if (fibers > c.fibers) continue;
        add_point(made, c, line, fibers, call_spec{.fibers = fibers, .pus = s.place.with(where.how).assign(1, 1)});
      }
    }
  }
  return made;
}

}  // namespace

std::vector<experiment> syscall_rows() {
  return {{"syscall/getppid", "syscall", "", "A system call that another process makes", getppid_by_others}};
}

}  // namespace muster::bench
