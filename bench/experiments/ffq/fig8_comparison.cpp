// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig8-comparison: Figure 8 of the FFQ paper: pairs of enqueue and dequeue on one queue, by the number of threads.
#include "driver/claims.hpp"
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

/// Whoever shares nothing does nothing but the local work: more pairs than that allows mean that it was shorter.
bool work_is_as_long_as_told(result& r) {
  const double most = 2 * 1000 / (least_ns + most_ns);  // millions of operations in a second, one thread
  const double seen = r.at("ideal", 1U).value_or(0);
  if (seen <= noise * most) return true;
  r.setting += fmt::format(
      "; NOT JUDGED: one thread that shares nothing did {:.3g} Mops/s, and the local work allows {:.3g}, so it was "
      "shorter than told",
      seen, most);
  r.bars.clear();
  return false;
}

/// The paper's order with all hardware threads, and what a single producer saves.
void judge(result& r, unsigned units) {
  constexpr const char* many = "FFQ^m as printed";
  constexpr const char* single = "FFQ^s as printed";
  judge_order(r, medians_at(r, units, {many, "WF-10", "LCRQ, rings of 2^10", "Michael-Scott queue"}),
              "Mops/s with all hardware threads");
  const ranked alone = medians_at(r, 1U, {single, many});
  if (r.verdict.empty() || alone.size() < 2) return;
  const double gain = alone[0].second / alone[1].second;
  r.verdict_why += fmt::format(". With one thread {} has {:.2f} times the throughput of {}", single, gain, many);
  if (gain <= 1.5 && r.verdict == "reproduced") r.verdict = "partly";
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const unsigned units = s.place.units();
  r.claim =
      "FFQ^m is among the fastest at each number of threads; the wait-free queue is best of the others, LCRQ mostly a "
      "little slower; CC-Queue is best with one thread and falls behind with more; the Michael-Scott queue is the "
      "slowest; the ring of hardware transactions does not keep up; with one thread, FFQ^s gains over 50 % over FFQ^m";
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

  for (const char* ours : {"mpmc_queue", "mpmc_queue with a line for each cell"}) {
    promise_at_least(r, ours, "FFQ^m as printed", units, 1.0, "without the double-word compare-and-swap");
    promise_at_least(r, ours, "WF-10", units, 1.0, "bounded, where that one is unbounded");
  }
  made.value = mega_items;
  made.finish = [units](std::vector<result>& results) {
    if (work_is_as_long_as_told(results.front())) judge(results.front(), units);
  };
  return made;
}

}  // namespace

experiment ffq_fig8_comparison() {
  return {"ffq/fig8-comparison", "queue", "ffq, Figure 8", "Comparison with other queues", prepare};
}

}  // namespace muster::bench
