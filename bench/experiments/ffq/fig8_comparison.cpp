// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig8-comparison: Figure 8 of the FFQ paper: pairs of enqueue and dequeue on one queue, by the number of threads.
#include "driver/local_work.hpp"
#include "driver/team_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::bench {
namespace {

constexpr std::uint64_t pairs = 10'000'000;  // in a run
constexpr double least_ns = 50, most_ns = 150;

unsigned iterations(double ns) { return static_cast<unsigned>(std::max(1.0, ns / nanoseconds_per_iteration() + 0.5)); }

/// What the paper's figure has and this machine has not.
std::string not_here(const catalogue& all) {
  std::string told;
  for (const left_out& gone : all.missing) {
    const auto in_figure = [&](std::string_view name) { return gone.family.starts_with(name); };
    constexpr std::array names{"HTM ring", "LCRQ, rings of 2^10", "FFQ^m as printed"};
    if (std::any_of(names.begin(), names.end(), in_figure)) {
      told += fmt::format("; NOT HERE: {} ({})", gone.family, gone.reason);
    }
  }
  return told;
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const unsigned units = s.place.units();
  r.setting = fmt::format(
      "pairs of enqueue and dequeue on one queue, after each {:.0f} to {:.0f} ns of local work ({} to {} {}), which is "
      "in the time; what has a single producer or consumer runs with one thread; more than {} threads share the "
      "hardware "
      "threads{}",
      least_ns, most_ns, iterations(least_ns), iterations(most_ns), work_unit(), units, not_here(s.contenders));
  if (s.work.kind == profile::full) r.setting += "; 10^7 pairs per run, or as many as take 4 s";
  r.x = {"threads", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};

  const auto add = [&](const contender& c, std::size_t line, unsigned threads) {
    const team_spec spec{.carriers = threads, .work = iterations(most_ns) + 1, .least_work = iterations(least_ns)};
    add_team_point(made, c, line, threads, spec, s.place);
    made.configurations.back().full_items = 2 * pairs;
  };
  for (const contender* c : s.contenders.about(queue_pairs)) {
    const bool relaxed = c->role == "peer" && !c->strict;
    const std::size_t line = relaxed ? made.add_line(*c, "baseline", c->note + "; not strict FIFO") : made.add_line(*c);
    const bool all = s.work.kind == profile::full;
    for (const unsigned threads : all ? oversubscribed_counts(s) : carrier_counts(s.place)) add(*c, line, threads);
  }
  for (const contender* c : s.contenders.about(pairs_alone)) add(*c, made.add_line(*c), 1);
  made.value = mega_items;
  return made;
}

}  // namespace

experiment ffq_fig8_comparison() {
  return {"ffq/fig8-comparison", "queue", "ffq, Figure 8", "Comparison with other queues", prepare};
}

}  // namespace muster::bench
