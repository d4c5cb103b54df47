// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "experiments/fork/points.hpp"

#include "driver/fork_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::bench {

std::uint64_t fork_size(std::string_view name, profile kind) {
  std::uint64_t found = 0;
  with_any_program(name, [&]<template <class> class Program>() {
    const program_sizes size = Program<serial_style<ignores_leaves>>::size;
    found = kind == profile::full ? size.full : size.quick;
  });
  return found;
}

configuration& add_fork_point(study& to, const contender& c, std::size_t line, abscissa x, fork_spec spec,
                              const placement& place) {
  spec.pus = place.assign(spec.workers, 0);
  serial_result(spec.program, spec.size);
  configuration one;
  one.line = line;
  one.x = std::move(x);
  one.fixed_items = 1;
  one.run = [&c, spec](std::uint64_t items) {
    fork_spec now = spec;
    now.items = items;
    return c.fork(now);
  };
  to.configurations.push_back(one);
  return to.configurations.back();
}

void add_fork_lines(study& to, const setting& s, topic about, std::span<const char* const> programs) {
  for (const contender* c : s.contenders.about(about)) {
    for (const unsigned workers : worker_counts(*c, s.place)) {
      contender here = *c;
      here.name = with_workers(*c, workers);
      const std::size_t line = to.add_line(here);
      for (const char* program : programs) {
        fork_spec spec;
        spec.program = program;
        spec.size = fork_size(program, s.work.kind);
        spec.workers = workers;
        add_fork_point(to, *c, line, program, spec, s.place);
      }
    }
  }
}

std::string with_workers(std::string_view name, unsigned workers) {
  if (name == plain_calls) return std::string(name);
  return fmt::format("{}, {} worker{}", name, workers, workers == 1 ? "" : "s");
}
std::string with_workers(const contender& c, unsigned workers) { return with_workers(c.name, workers); }

std::vector<unsigned> worker_counts(const contender& c, const placement& place) {
  return c.name == plain_calls ? std::vector<unsigned>{1} : carrier_counts(place);
}

bool compare_with_plain_calls(result& r, const std::function<double(double, double)>& compare) {
  const series* const found = r.named(plain_calls);
  if (found == nullptr || r.lines.size() == 1) return false;
  const series plain = *found;
  std::erase_if(r.lines, [](const series& s) { return s.name == plain_calls; });
  for (series& s : r.lines) {
    for (point& p : s.points) {
      const point* const without = plain.at(p.x);
      if (without == nullptr || without->samples.empty() || !without->checked) {
        p.samples.clear();
        continue;
      }
      const double alone = median(without->samples);
      for (double& sample : p.samples) sample = compare(sample, alone);
    }
  }
  return true;
}

void add_speed_up(std::vector<result>& results, const char* title) {
  result r = results.front().also("-speed-up", title, {"speed-up over plain calls", "", "", "higher"});
  if (compare_with_plain_calls(r, [](double with, double without) { return without / with; }))
    results.push_back(std::move(r));
}

void add_constant(result& to, const char* name, double value, const char* note) {
  series line;
  line.name = name;
  line.role = "limit";
  line.note = note;
  for (const series& other : to.lines) {
    for (const point& p : other.points) {
      if (line.at(p.x) != nullptr) continue;
      line.points.push_back({});
      line.points.back().x = p.x;
      line.points.back().samples = {value};
    }
  }
  to.lines.push_back(std::move(line));
}

}  // namespace muster::bench
