// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// syscall.cpp: the cost of system calls that another process makes, and of beginning such a process.
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

struct sides {
  const char* name;
  policy how;
};
const axis by_fibers_at_once{"fibers", "", "log2", ""};
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

/// Adds a chart of the processor time of the same runs: of both sides, their beginnings and ends included.
void add_cpu_time(std::vector<result>& results, const char* suffix, const char* title) {
  add_changed(results, suffix, title, {"processor time of a call, of both sides", "ns", "log2", "lower"},
              [](const series&, point& p) {
                for (std::size_t i = 0; i < p.samples.size(); ++i)
                  p.samples[i] = p.cpu_seconds[i] * 1e9 / static_cast<double>(p.items);
              });
}

/// Adds a chart of a value that some of the runs have recorded.
void add_told(std::vector<result>& results, const char* suffix, const char* title, axis y, const char* what) {
  result r = results.front().derived_chart(suffix, title, std::move(y), what);
  for (series& line : r.lines) std::erase_if(line.points, [](const point& p) { return p.samples.empty(); });
  std::erase_if(r.lines, [](const series& line) { return line.points.empty(); });
  results.push_back(std::move(r));
}

/// The contenders of a family that this machine lacks, and why.
std::string not_here(const catalogue& all, std::string_view family) {
  std::string text;
  for (const left_out& gone : all.missing)
    if (gone.family == family) text += fmt::format("; NOT HERE: {} ({})", gone.family, gone.reason);
  return text;
}

study getppid_by_others(const setting& s) {
  study made = chart(
      "getppid() of one process, made by another; fibers of its thread call at the same time where that is possible; "
      "each way with both processes on one processor and with a processor each",
      by_fibers_at_once, {"time of a call", "ns", "log2", "lower"}, nanoseconds_per_item,
      [](std::vector<result>& results) {
        add_better_placement(results);
        add_cpu_time(results, "-cpu", "A system call that another process makes: processor time");
      });
  for (const contender& c : s.contenders.all) {
    if (!c.call_between) continue;
    for (const sides& where : placements) {
      const std::size_t line = add_line_as(made, c, c.name + where.name, c.note);
      for (const unsigned fibers : {1U, 8U, 64U}) {
        if (fibers > c.fibers) continue;
        add_point(made, c, line, fibers, call_spec{.fibers = fibers, .pus = s.place.with(where.how).assign(1, 1)})
            .maybe_slow = true;  // beside other load
      }
    }
  }
  return made;
}

study pread_by_others(const setting& s) {
  study made =
      chart(fmt::format(
                "reads of {} bytes by offset from a file of {} that is in memory, whose contents are checked; as many "
                "at once as x says; a sandbox with both sides on one processor and with a processor each{}",
                read_spec::bytes, read_spec::bytes * read_spec::pages, not_here(s.contenders, "io_uring")),
            {"reads at once", "", "log2", ""}, {"time of a read", "ns", "log2", "lower"}, nanoseconds_per_item,
            [](std::vector<result>& results) {
              add_better_placement(results);
              add_cpu_time(results, "-cpu", "Pages that another process reads: processor time");
            });
  for (const contender& c : s.contenders.all) {
    if (!c.read) continue;
    const auto add_line = [&](const std::string& name, policy how) {
      const std::size_t line = add_line_as(made, c, name, c.note);
      for (const unsigned at_once : {1U, 8U, 64U}) {
        if (at_once > c.fibers) continue;
        add_point(made, c, line, at_once, read_spec{{.fibers = at_once, .pus = s.place.with(how).assign(1, 1)}});
      }
    };
    if (c.role != "ours") add_line(c.name, policy::spread);
    else
      for (const sides& where : placements) add_line(c.name + where.name, where.how);
  }
  return made;
}

constexpr const char* a_process = "a process";
constexpr const char* a_job = "a job";

study starts(const setting& s) {
  study made = chart(
      fmt::format("from the beginning of a process until its first result is there: that of a job, or the exit status; "
                  "or of a job in a sandbox that runs, with both sides on one processor and with a processor each{}",
                  not_here(s.contenders, "bubblewrap")),
      {"what begins", "", "category", ""}, {"time", "ns", "log2", "lower"}, nanoseconds_per_item,
      [](std::vector<result>& results) {
        add_better_placement(results);
        add_told(results, "-whole", "From the beginning of a process until all of it is given back",
                 {"time", "ns", "log2", "lower"}, "whole");
      });
  for (const contender& c : s.contenders.all) {
    if (!c.start) continue;
    if (c.name.starts_with("job")) {
      for (const sides& where : placements)
        add_point(made, c, add_line_as(made, c, c.name + where.name, c.note), a_job,
                  start_spec{.pus = s.place.with(where.how).assign(1, 1)})
            .maybe_slow = true;  // on one processor, beside other load
      continue;
    }
    const bool smoke = s.work.kind == profile::smoke;
    add_point(made, c, made.add_line(c), a_process, start_spec{}).fixed_items = smoke ? 5 : s.full() ? 1000 : 50;
  }
  return made;
}

study fairness(const setting& s) {
  using other = crowd_spec::other;
  const unsigned units = s.place.units();
  const std::vector<int> all = s.place.with(policy::spread).assign(units, 0);
  const unsigned half = units / 2;
  study made = chart(
      "getppid() of a sandbox with one fiber, timed one by one, alone; while two processes compute; and while 64 "
      "fibers "
      "of another sandbox make calls without end. Apart: each of the two, with its broker, has one half of the "
      "processors; together: both have all",
      {"beside", "", "category", ""}, {"99th percentile of the time of a call", "ns", "log2", "lower"},
      detail_value("p99"), [](std::vector<result>& results) {
        add_told(results, "-median", "How long a call takes beside a client that floods: the median",
                 {"median of the time of a call", "ns", "log2", "lower"}, "median");
        add_told(results, "-thousandth", "How long a call takes beside a client that floods: the last thousandth",
                 {"99.9th percentile of the time of a call", "ns", "log2", "lower"}, "p99.9");
        add_told(results, "-max", "How long a call takes beside a client that floods: the longest",
                 {"longest call", "ns", "log2", "lower"}, "max");
        add_told(results, "-flood", "Calls of the client that floods",
                 {"calls of the other client", "Mcalls/s", "", "higher"}, "flood");
      });
  const std::vector<int> first(all.begin(), all.begin() + std::max(half, 1U)), last(all.begin() + half, all.end());
  for (const contender& c : s.contenders.all) {
    if (!c.crowd) continue;
    const auto add_line = [&](const char* name, const std::vector<int>& pus, const std::vector<int>& pus_beside) {
      const std::size_t line = add_line_as(made, c, c.name + name, c.note);
      for (const auto& [x, beside] : {std::pair{"alone", other::none}, std::pair{"busy threads", other::busy},
                                      std::pair{"a flood", other::flood}})
        add_point(made, c, line, x, crowd_spec{.beside = beside, .pus = pus, .pus_beside = pus_beside}).maybe_slow =
            true;
    };
    if (half != 0) add_line(", apart", first, last);
    add_line(", together", all, all);
  }
  return made;
}

}  // namespace

std::vector<experiment> syscall_rows() {
  return {
      {"syscall/getppid", "syscall", "", "A system call that another process makes", getppid_by_others},
      {"syscall/pread", "syscall", "", "Pages that another process reads", pread_by_others},
      {"syscall/start", "syscall", "", "How soon a sandbox has its first result", starts},
      {"syscall/fairness", "syscall", "", "How long a call takes beside a client that floods", fairness},
  };
}

}  // namespace muster::bench
