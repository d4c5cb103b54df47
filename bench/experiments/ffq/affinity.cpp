// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig4-affinity-counters, ffq/fig6-affinity-throughput: Figures 4 and 6 of the FFQ paper: where a producer and its
// consumer should run, by the size of their queues, and what the processor counts meanwhile.
#include "driver/claims.hpp"
#include "driver/events.hpp"
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr const char* printed = "FFQ^s as printed";
constexpr unsigned least_bits = 2, medium_bits = 12, most_bits = 20;
constexpr std::size_t size_of(unsigned bits) { return std::size_t{1} << bits; }

unsigned cores_of(const std::string& line) {
  for (const affinity& a : affinities)
    if (line.ends_with(a.name)) return a.cores;
  return 1;
}

/// From the same runs: what the paper recommends is a matter of the cores that are used.
void add_per_core(std::vector<result>& results) {
  result r = results.front().also("-per-core", "Throughput by affinity, per core that is used",
                                  {"throughput per core", "Mops/s", "", "higher"});
  for (series& line : r.lines)
    for (point& p : line.points)
      for (double& sample : p.samples) sample /= cores_of(line.name);
  results.push_back(std::move(r));
}

double value_of(const result& r, const affinity& a, unsigned bits) {
  return r.at(fmt::format("{}, {}", printed, a.name), size_of(bits)).value_or(0);
}

/// What Figures 4 and 6 have in common, of the paper's own queue: with the smallest queues two threads of one core are
/// best, with those that fit into its caches one thread is, which `medium` shows. False when there is nothing to judge.
bool judge_small_and_medium(claims& found, const result& small, const char* two_threads, const result& medium,
                            const char* one_thread) {
  const auto best_of = [](const result& r, const affinity& a, const affinity& b, unsigned bits) {
    return std::max(value_of(r, a, bits), value_of(r, b, bits));
  };
  const double same = value_of(medium, same_thread, medium_bits);
  if (same == 0 || value_of(medium, other_core, medium_bits) == 0) return false;
  if (const double near = value_of(small, sibling_thread, least_bits); near == 0) {
    found.leave_open("two threads of one core, which this machine has not");
  } else {
    const double rest = best_of(small, same_thread, other_core, least_bits);
    found.add(noise * near >= rest,
              fmt::format("{} (2^{}: {:.3g}, the best other {:.3g})", two_threads, least_bits, near, rest));
  }
  const double rest = best_of(medium, sibling_thread, other_core, medium_bits);
  found.add(noise * same >= rest,
            fmt::format("{} (2^{}: {:.3g}, the best other {:.3g})", one_thread, medium_bits, same, rest));
  return true;
}

/// Figure 6: `r` is throughput, `per_core` the same over the cores in use.
void judge_throughput(result& r, const result& per_core) {
  claims found;
  if (!judge_small_and_medium(found, r, "two threads of one core are best with small queues", per_core,
                              "one thread is best for each core with queues that fit into its caches"))
    return;
  const double small = value_of(r, other_core, least_bits), large = value_of(r, other_core, most_bits);
  found.add(large > noise * small, fmt::format("two cores gain by large queues (2^{}: {:.3g}, 2^{}: {:.3g})",
                                               least_bits, small, most_bits, large));
  found.write(r);
}

/// Figure 4: instructions per cycle.
void judge_counters(result& r) {
  claims found;
  if (!judge_small_and_medium(found, r,
                              "with very small queues two threads of one core have most instructions per cycle", r,
                              "with larger ones one thread has"))
    return;
  double most = 0;
  for (unsigned bits = least_bits; bits <= most_bits; bits += 2) most = std::max(most, value_of(r, other_core, bits));
  const double largest = value_of(r, other_core, most_bits);
  found.add(
      noise * largest < most,
      fmt::format("the largest queue costs instructions per cycle (2^{}: {:.2f} of {:.2f})", most_bits, largest, most));
  found.write(r);
}

study pairs_by_affinity(const setting& s, bool events) {
  study made;
  result& r = made.head;
  r.setting =
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; an "
      "operation is a request and its answer";
  r.x = {"queue size", "entries", "log2", ""};
  for (const affinity& a : affinities) {
    std::vector<int> pus;
    try {
      pus = s.place.with(a.how).assign(1, 1);
    } catch (const std::invalid_argument& e) {
      r.setting += fmt::format("; NOT HERE: {} ({})", a.name, e.what());
      continue;
    }
    for (const contender* c : s.contenders.about(topic::exchange)) {
      if (c->name != "spmc_queue" && c->role != "paper") continue;
      contender here = *c;
      here.name = fmt::format("{}, {}", c->name, a.name);
      const std::size_t line = made.add_line(here);
      for (unsigned bits = least_bits; bits <= most_bits; bits += 2) {
        const std::size_t capacity = size_of(bits);
        add_exchange_point(made, *c, line, capacity, {.capacity = capacity, .events = events, .pus = pus},
                           a.how == policy::same_thread);
      }
    }
  }
  return made;
}

study prepare_throughput(const setting& s) {
  study made = pairs_by_affinity(s, false);
  made.head.claim =
      "two threads of one core are best with small queues; one thread with queues that fit into its caches; two cores "
      "gain by large queues";
  made.head.y = {"throughput", "Mops/s", "", "higher"};
  made.value = mega_items;
  made.finish = [](std::vector<result>& results) {
    add_per_core(results);
    judge_throughput(results.front(), results.back());
  };
  return made;
}

/// Other charts of the same runs: of what this processor counts.
void add_counts(std::vector<result>& results) {
  for (const auto& [what, suffix] :
       std::array<std::pair<const char*, const char*>, 4>{{{"instructions", "-instructions"},
                                                           {"l1 misses", "-l1-misses"},
                                                           {"last-level reads", "-last-level-reads"},
                                                           {"cache misses", "-memory"}}}) {
    result r = results.front().also(suffix, fmt::format("By affinity: {}", what),
                                    {fmt::format("{} per request", what), "", "", "lower"}, what);
    // Not every processor counts everything.
    if (std::any_of(r.lines.begin(), r.lines.end(), [](const series& line) {
          return std::any_of(line.points.begin(), line.points.end(), [](const point& p) { return !p.samples.empty(); });
        }))
      results.push_back(std::move(r));
  }
}

study prepare_counters(const setting& s) {
  const std::string why_not = hardware_events::why_not();
  study made = why_not.empty() ? pairs_by_affinity(s, true) : study();
  result& r = made.head;
  r.claim =
      "most instructions per cycle: with very small queues two threads of one core, with larger ones one thread; a "
      "queue "
      "that leaves the last cache costs memory accesses, and instructions per cycle with them";
  if (!why_not.empty())
    r.setting = "NOT HERE: " + why_not + "; ffq/fig4-simulated counts the same on a simulated machine";
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"instructions per cycle", "", "", "higher"};
  made.value = [](const outcome& o) { return o.told("instructions") / o.told("cycles"); };
  made.finish = [](std::vector<result>& results) {
    add_counts(results);
    judge_counters(results.front());
  };
  return made;
}

}  // namespace

experiment ffq_fig4_affinity_counters() {
  return {"ffq/fig4-affinity-counters", "queue", "ffq, Figure 4", "Instructions per cycle, by affinity",
          prepare_counters};
}

experiment ffq_fig6_affinity_throughput() {
  return {"ffq/fig6-affinity-throughput", "queue", "ffq, Figure 6", "Throughput by affinity", prepare_throughput};
}

}  // namespace muster::bench
