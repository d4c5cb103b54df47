// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/study.hpp"

#include "driver/placement.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::bench {
namespace {

constexpr double patience_seconds = 20;     // for a run that should take a fraction of a second
constexpr double longest_full_seconds = 4;  // for a run with a given number of items

struct state {
  std::uint64_t items = 0;
  bool failed = false;
};

double limit(const effort& e) { return patience_seconds + 20 * e.seconds; }

outcome attempt(const configuration& c, std::uint64_t items, const effort& e) {
  return run_isolated([&] { return c.run(items); }, limit(e));
}

std::uint64_t scaled(std::uint64_t items, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(items) * factor);
}

/// The number of items with which the choice starts.
std::uint64_t least(const configuration& c, const effort& e) {
  return std::max(c.maybe_slow ? c.few : e.least_items, c.least_items);
}

/// Raises the number of items until a run is long enough to predict from, then predicts. The outcome reports a failure.
outcome calibrate(const configuration& c, const effort& e, std::uint64_t& items) {
  items = least(c, e);
  for (int round = 0;; ++round) {
    const outcome o = attempt(c, items, e);
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

/// Runs `count` configurations on all processors at once, and calls use(number, outcome) as they end.
void run_together(std::size_t count, const effort& e, const std::function<outcome(std::size_t)>& run,
                  const std::function<void(std::size_t, const outcome&)>& use) {
  const std::size_t together = allowed_units().size();
  std::vector<std::pair<std::size_t, isolated_run>> under_way;
  for (std::size_t next = 0; next < count || !under_way.empty();) {
    if (next < count && under_way.size() < together) {
      under_way.emplace_back(next, isolated_run([&] { return run(next); }));
      ++next;
      continue;
    }
    std::vector<pollfd> watched;
    for (const auto& [number, one] : under_way) watched.push_back({one.descriptor(), POLLIN, 0});
    poll(watched.data(), watched.size(), static_cast<int>(1e3 * limit(e)));
    const auto ended = std::find_if(watched.begin(), watched.end(), [](const pollfd& p) { return p.revents != 0; });
    const auto at = under_way.begin() + (ended == watched.end() ? 0 : ended - watched.begin());
    use(at->first, at->second.wait(limit(e)));
    under_way.erase(at);
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

std::vector<result> measure(study s, const effort& e, std::mt19937_64& random, progress& bar, shared_outcomes& shared) {
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

  std::vector<std::size_t> certain;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].once && !states[i].failed) certain.push_back(i);
  run_together(
      certain.size(), e, [&](std::size_t n) { return all[certain[n]].run(states[certain[n]].items); },
      [&](std::size_t n, const outcome& o) {
        const configuration& c = all[certain[n]];
        bar.step(r.experiment, r.lines[c.line].name);
        record(r.lines[c.line], point_of(c), s, o);
      });

  std::vector<std::vector<outcome>> none;
  auto& known = s.same_runs.empty() ? none : shared[s.same_runs];
  const bool measured_before = !known.empty();
  known.resize(all.size());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (unsigned sample = 0; sample < e.samples; ++sample) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const configuration& c = all[i];
      if (c.once && sample == 0) continue;  // already run above
      bar.step(r.experiment, r.lines[c.line].name);
      if (c.once || states[i].failed) continue;  // one failure disqualifies a queue; its error is kept
      if (!measured_before) known[i].push_back(attempt(c, states[i].items, e));
      const outcome& o = known[i][sample];
      states[i].failed = !o.error.empty();
      record(r.lines[c.line], point_of(c), s, o);
    }
  }
  std::vector<result> results{r};
  if (s.finish) s.finish(results);
  return results;
}

}  // namespace muster::bench
