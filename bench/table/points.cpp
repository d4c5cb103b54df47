// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "table/points.hpp"

#include "driver/fork_run.hpp"
#include "driver/local_work.hpp"
#include "driver/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace muster::bench {

// -------------------------------------------------------------------------------------------------------------- charts

double nanoseconds_per_item(const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); }
double milliseconds(const outcome& o) { return o.seconds * 1e3; }
std::function<double(const outcome&)> detail_value(const char* what) {
  return [what](const outcome& o) { return o.detail_value(what); };
}

study chart(std::string setting, axis x, axis y, std::function<double(const outcome&)> value,
            std::function<void(std::vector<result>&)> finish) {
  study made;
  made.head.setting = std::move(setting);
  made.head.x = std::move(x);
  made.head.y = std::move(y);
  made.value = std::move(value);
  made.finish = std::move(finish);
  return made;
}

std::function<void(std::vector<result>&)> add_charts(std::vector<other_chart> all) {
  return [all = std::move(all)](std::vector<result>& results) {
    for (const other_chart& one : all)
      results.push_back(results.front().derived_chart(one.suffix, one.title, one.y, one.what));
  };
}

void add_changed(std::vector<result>& results, const char* suffix, const char* title, axis y,
                 const std::function<void(const series&, point&)>& change) {
  result r = results.front().derived_chart(suffix, title, std::move(y));
  for (series& line : r.lines)
    for (point& p : line.points) change(line, p);
  results.push_back(std::move(r));
}

void show_quantiles(result& of, const std::string& prefix) {
  for (series& line : of.lines) {
    std::vector<point> shown;
    for (const point& run : line.points)
      for (const char* x : {"p50", "p99", "p99.9", "max"}) {
        shown.push_back(run);
        shown.back().x = x;
        shown.back().samples = run.detail_values(prefix + x);
        shown.back().detail.clear();
      }
    line.points = std::move(shown);
  }
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

// --------------------------------------------------------------------------------------------------------------- lines

std::size_t add_line_in_order(study& to, const contender& c) {
  const bool relaxed = c.role == "peer" && !c.strict;
  return relaxed ? to.add_line(c, "baseline", c.note + "; not strict FIFO") : to.add_line(c);
}

std::size_t add_line_as(study& to, const contender& c, std::string name, std::string note) {
  const std::size_t line = to.add_line(c, {}, std::move(note));
  to.head.lines[line].name = std::move(name);
  return line;
}

std::string with_fibers(const contender& c) {
  const std::string fibers = c.fibers == 1 ? "no fibers" : fmt::format("{} fibers per carrier", c.fibers);
  return c.note.empty() ? fibers : fmt::format("{}; {}", fibers, c.note);
}

// -------------------------------------------------------------------------------------------------------------- points

std::vector<unsigned> points_of(const setting& s, std::vector<unsigned> full, std::vector<unsigned> quick) {
  return s.full() ? full : quick;
}

std::vector<unsigned> carrier_counts(const placement& place) {
  std::vector<unsigned> found;
  for (unsigned n = 1; n < place.units(); n *= 2) found.push_back(n);
  found.push_back(place.units());
  return found;
}

std::vector<unsigned> oversubscribed_counts(const setting& s) {
  const unsigned units = s.place.units();
  if (!s.full()) return {units, 4 * units};
  std::vector<unsigned> found = carrier_counts(s.place);
  found.insert(found.end(), {2 * units, 4 * units, 8 * units});
  return found;
}

std::string work_unit() { return fmt::format("dummy iterations, {:.2f} ns each here", nanoseconds_per_iteration()); }

configuration& add_stream_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                                unsigned producers, unsigned consumers) {
  return add_point(to, c, line, std::move(x),
                   stream_spec{.producers = producers,
                               .consumers = consumers,
                               .demand_order = c.order,
                               .pus = s.place.assign(producers, consumers)});
}

configuration& add_exchange_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                                  exchange_spec spec) {
  const std::size_t fillings = (s.full() ? 4 : 2) * spec.capacity;
  configuration& one = add_point(to, c, line, std::move(x), std::move(spec));
  one.least_items = fillings;
  // A request to a thread that another program keeps from its processor waits for that one's time slice.
  one.maybe_slow = true;
  return one;
}

configuration& add_team_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              team_spec spec) {
  constexpr unsigned most_fibers = 16384;  // each has a stack and its guard: two of 65530 mappings
  spec.fibers = std::max(1U, std::min(spec.fibers, most_fibers / spec.carriers));
  spec.pus = s.place.assign(spec.carriers, 0);
  // A queue lock's next holder may have to wait for its time slice.
  const bool maybe_slow = spec.carriers > s.place.units();
  configuration& one = add_point(to, c, line, std::move(x), std::move(spec));
  one.maybe_slow = maybe_slow;
  return one;
}

configuration& add_fork_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              fork_spec spec) {
  spec.pus = s.place.assign(spec.workers, 0);
  serial_result(spec.program, spec.size);
  configuration& one = add_point(to, c, line, std::move(x), std::move(spec));
  one.fixed_items = 1;
  return one;
}

void add_fork_lines(study& to, const setting& s, topic about, std::span<const char* const> programs) {
  for (const contender* c : s.contenders.about(about))
    for (const unsigned workers : worker_counts(*c, s.place)) {
      const std::size_t line = add_line_as(to, *c, with_workers(*c, workers));
      for (const char* program : programs)
        add_fork_point(to, s, *c, line, program,
                       {.program = program, .size = fork_size(program, s.work.kind), .workers = workers});
    }
}

std::uint64_t fork_size(std::string_view name, profile kind) {
  std::uint64_t found = 0;
  with_any_program(name, [&]<template <class> class Program>() {
    const program_sizes size = Program<serial_style<ignores_leaves>>::size;
    found = kind == profile::full ? size.full : size.quick;
  });
  return found;
}

std::string with_workers(const contender& c, unsigned workers) {
  if (c.name == plain_calls) return c.name;
  return fmt::format("{}, {} worker{}", c.name, workers, workers == 1 ? "" : "s");
}

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

std::function<void(std::vector<result>&)> add_speed_up(const char* title) {
  return [title](std::vector<result>& results) {
    result r = results.front().derived_chart("-speed-up", title, {"speed-up over plain calls", "", "", "higher"});
    if (compare_with_plain_calls(r, [](double with, double without) { return without / with; }))
      results.push_back(std::move(r));
  };
}

// --------------------------------------------------------------------------------------------------------- simulations

simulated_machine machine_to_simulate(const setting& s, const std::string& file) {
  using namespace muster_simulation;
  return std::make_shared<machine>(
      read_machine(s.machine.empty() ? known_machines() / file : std::filesystem::path(s.machine)));
}

simulated_machine machine_like_this(const setting& s, const std::string& otherwise) {
  using namespace muster_simulation;
  const std::string here = describe_machine().value("cpu", "");
  if (s.machine.empty())
    for (const auto& file : std::filesystem::directory_iterator(known_machines()))
      if (machine known = read_machine(file.path()); known.name == here)
        return std::make_shared<machine>(std::move(known));
  return machine_to_simulate(s, otherwise);
}

std::uint64_t simulated_items(const setting& s) {
  return s.work.kind == profile::smoke ? 2'000 : s.work.kind == profile::quick ? 10'000 : 100'000;
}

sim_spec on_first(unsigned threads, const simulated_machine& machine) {
  sim_spec spec;
  spec.machine = machine;
  spec.threads.resize(threads);
  std::iota(spec.threads.begin(), spec.threads.end(), 0U);
  return spec;
}

configuration& add_simulated_point(study& to, const contender& c, std::size_t line, abscissa x, const sim_spec& spec) {
  configuration& one = to.configurations.emplace_back();
  one.line = line;
  one.x = std::move(x);
  one.fixed_items = spec.items;
  one.once = true;
  one.contender = c.name;
  one.spec = spec;
  one.run = [&c, spec](std::uint64_t) { return c.model(spec); };
  return one;
}

std::string told_as_simulated(const muster_simulation::machine& m) {
  return "SIMULATED, not measured: the algorithms' own code on a model of the caches of \"" + m.name + "\"";
}

}  // namespace muster::bench
