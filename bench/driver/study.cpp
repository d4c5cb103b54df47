// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::bench {
namespace {

constexpr double patience_seconds = 20;     // for a run that should take a fraction of one
constexpr double longest_full_seconds = 4;  // for a run whose number of items is given

struct state {
  std::uint64_t items = 0;
  bool failed = false;
};

outcome attempt(const configuration& c, std::uint64_t items, double expected_seconds) {
  return run_isolated([&] { return c.run(items); }, patience_seconds + 20 * expected_seconds);
}

std::uint64_t scaled(std::uint64_t items, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(items) * factor);
}

/// With which the choice starts.
std::uint64_t least(const configuration& c, const effort& e) {
  constexpr std::uint64_t few = 2000;
  return std::max(c.maybe_slow ? few : e.least_items, c.least_items);
}

/// Doubles and more until a run is long enough to predict from, then predicts. The outcome tells of a failure.
outcome calibrate(const configuration& c, const effort& e, std::uint64_t& items) {
  items = least(c, e);
  for (int round = 0;; ++round) {
    const outcome o = attempt(c, items, e.seconds);
    if (!o.error.empty()) return o;
    const double factor = e.seconds / std::max(o.seconds, 1e-6);
    const bool long_enough = o.seconds > e.seconds / 4 || round == 5;
    items = std::max({scaled(items, long_enough ? factor : std::clamp(factor / 2, 1.0, 16.0)), least(c, e)});
    if (!long_enough) continue;
    if (e.kind == profile::full && c.full_items != 0) {
      const double rate = static_cast<double>(o.items) / o.seconds;
      items = std::min(c.full_items, static_cast<std::uint64_t>(rate * longest_full_seconds));
    }
    return o;
  }
}

void record(series& line, point& p, const study& s, const outcome& o) {
  if (!o.error.empty()) {
    p.checked = false;
    if (line.failed.empty())
      line.failed = fmt::format("at {}: {}", p.x.is_string() ? p.x.get<std::string>() : p.x.dump(), o.error);
    return;
  }
  p.items = o.items;
  p.samples.push_back(s.value(o));
  p.cpu_seconds.push_back(o.cpu_seconds);
  p.peak_memory = std::max(p.peak_memory, o.peak_memory);
  p.out_of_order += o.out_of_order;
  for (const auto& [name, value] : o.detail) p.detail[name].push_back(value);
}

}  // namespace

effort effort_of(profile kind) {
  switch (kind) {
    case profile::smoke: return {kind, 1, 0, 20000};
    case profile::quick: return {kind, 3, 0.15, 20000};
    case profile::full: return {kind, 10, 1.0, 100000};
  }
  return {};
}

std::size_t study::add_line(const contender& c, std::string role, std::string note) {
  series line;
  line.name = c.name;
  line.role = role.empty() ? c.role : std::move(role);
  line.note = note.empty() ? c.note : std::move(note);
  head.lines.push_back(std::move(line));
  return head.lines.size() - 1;
}

double mega_items(const outcome& o) { return static_cast<double>(o.items) / o.seconds * 1e-6; }

std::size_t runs(const study& s, const effort& e) {
  return s.configurations.size() * (e.samples + (e.kind == profile::smoke ? 0 : 1));
}

std::vector<result> measure(study s, const effort& e, std::mt19937_64& random, progress& bar) {
  result r = s.head;
  const auto& all = s.configurations;
  for (const configuration& c : all) {
    r.lines[c.line].points.push_back({});
    r.lines[c.line].points.back().x = c.x;
  }
  const auto point_of = [&](const configuration& c) -> point& {
    auto& points = r.lines[c.line].points;
    return *std::find_if(points.begin(), points.end(), [&](const point& p) { return p.x == c.x; });
  };

  std::vector<state> states(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const configuration& c = all[i];
    states[i].items = c.fixed_items != 0 ? c.fixed_items : least(c, e);
    if (e.kind == profile::smoke) {
      if (c.fixed_items == 0) states[i].items = std::min(states[i].items, e.least_items);
      continue;
    }
    bar.step(r.experiment, fmt::format("choosing the length of {}", r.lines[c.line].name));
    if (c.fixed_items != 0) continue;
    const outcome o = calibrate(c, e, states[i].items);
    if (!o.error.empty()) {
      states[i].failed = true;
      record(r.lines[c.line], point_of(c), s, o);
    }
  }

  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (unsigned sample = 0; sample < e.samples; ++sample) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const configuration& c = all[i];
      bar.step(r.experiment, r.lines[c.line].name);
      if (states[i].failed) continue;  // a queue that is wrong once is wrong; its reason is kept
      if (c.once && sample != 0) continue;
      const outcome o = attempt(c, states[i].items, e.seconds);
      states[i].failed = !o.error.empty();
      record(r.lines[c.line], point_of(c), s, o);
    }
  }
  std::vector<result> results{r};
  if (s.finish) s.finish(results);
  return results;
}

}  // namespace muster::bench
