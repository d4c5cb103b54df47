// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig4-simulated: what Figure 4 of the FFQ paper reads from hardware counters: where a producer and its consumer
// find their lines, by where they run and by the size of their queues.
#include "driver/claims.hpp"
#include "simulate/known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

namespace muster::bench {
namespace {

struct affinity {
  const char* name;
  unsigned second;  // the consumer's hardware thread; the producer's is 0
};

/// Those that the machine has.
std::vector<affinity> affinities_of(const muster_simulation::machine& m) {
  std::vector<affinity> found;
  if (m.threads_per_core > 1) found.push_back({"sibling thread", m.cores()});
  if (m.cores_per_cluster > 1) found.push_back({"other core", 1});
  if (m.clusters > 1) found.push_back({"other cluster", m.cores_per_cluster});
  return found;
}

/// Other charts of the same runs.
void add_counts(std::vector<result>& results) {
  struct count {
    const char* suffix;
    const char* what;
    const char* better;
  };
  for (const count& shown : std::array<count, 5>{{{"-l1-hits", "l1 hits", "higher"},
                                                  {"-l2-hits", "l2 hits", "higher"},
                                                  {"-l3-hits", "l3 hits", "higher"},
                                                  {"-memory-reads", "memory reads", "lower"},
                                                  {"-memory-writes", "memory writes", "lower"}}}) {
    results.push_back(results.front().also(shown.suffix, fmt::format("Simulated: {} by affinity", shown.what),
                                           {fmt::format("{} per request", shown.what), "", "", shown.better},
                                           shown.what));
  }
}

constexpr unsigned least_bits = 2;
constexpr unsigned most_bits(profile kind) { return kind == profile::full ? 20 : 14; }

/// Of the paper's own queue.
void judge(std::vector<result>& results, unsigned up_to) {
  const auto chart = [&](const char* suffix) -> const result& {
    return *std::find_if(results.begin(), results.end(),
                         [&](const result& r) { return r.experiment.ends_with(suffix); });
  };
  const auto all_at = [&](std::initializer_list<const char*> suffixes, const char* where, unsigned bits) {
    double sum = 0;
    for (const char* suffix : suffixes)
      for (const series& line : chart(suffix).lines)
        if (line.role == "paper" && line.name.ends_with(where))
          sum += chart(suffix).at(line.name, std::size_t{1} << bits).value_or(0);
    return sum;
  };
  constexpr const char* near = "sibling thread";
  constexpr const char* far = "other core";
  const auto has = [&](const char* where) {
    const auto& lines = results.front().lines;
    return std::any_of(lines.begin(), lines.end(),
                       [&](const series& line) { return line.role == "paper" && line.name.ends_with(where); });
  };
  if (!has(near) || !has(far)) return;
  claims found;
  constexpr unsigned large = 20;
  std::string worse;
  double most_near = 0, most_far = 0;
  for (unsigned bits = least_bits; bits <= std::min(up_to, large - 2); bits += 2) {
    const double two_threads = all_at({"-l2-hits", "-l3-hits"}, near, bits),
                 two_cores = all_at({"-l2-hits", "-l3-hits"}, far, bits);
    if (two_threads < two_cores) worse += fmt::format("{}2^{}", worse.empty() ? "" : ", ", bits);
    most_near = std::max(most_near, two_threads), most_far = std::max(most_far, two_cores);
  }
  found.add(worse.empty() && most_near > most_far,
            fmt::format("two threads of one core find more lines in L2 and L3 (up to {:.3g} for a request, two cores "
                        "{:.3g}{})",
                        most_near, most_far, worse.empty() ? "" : "; fewer with " + worse + " entries"));
  if (up_to < large) {
    found.leave_open("very large queues (use --profile full)");
  } else {
    const double two_threads = all_at({"-memory-reads"}, near, large),
                 two_cores = all_at({"-memory-reads"}, far, large);
    found.add(two_threads > 1.05 * two_cores,
              fmt::format("with very large queues they read more from memory (2^{}: {:.3g} lines for a request, two "
                          "cores {:.3g})",
                          large, two_threads, two_cores));
  }
  result& r = results.front();
  found.write(r);
  if (!r.verdict.empty()) r.verdict_why = "Simulated. " + r.verdict_why;
}

study prepare(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s, "eight-clusters.json");
  study made;
  result& r = made.head;
  r.claim =
      "two threads of one core find more of their lines in L2 and L3 than two cores do, but for very large queues";
  r.setting = fmt::format(
      "{}; one producer and one consumer; 8-byte requests through one queue, answers through another of the same size; "
      "both threads on one hardware thread are left out, as the simulation has no scheduler",
      told_as_simulated(*machine));
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"simulated transfers per request", "", "", "lower"};
  for (const contender* c : s.contenders.about(model_figure4)) {
    for (const affinity& a : affinities_of(*machine)) {
      contender here = *c;
      here.name = fmt::format("{}, {}", c->name.substr(0, c->name.find(',')), a.name);
      const std::size_t line = made.add_line(here);
      for (unsigned bits = least_bits; bits <= most_bits(s.work.kind); bits += 2) {
        model_spec spec;
        spec.machine = machine;
        spec.capacity = std::size_t{1} << bits;
        spec.threads = {0, a.second};
        spec.items = std::max<std::uint64_t>(simulated_items(s), 4 * spec.capacity);
        add_simulated_point(made, *c, line, spec.capacity, spec);
      }
    }
  }
  made.value = [](const outcome& o) { return o.told("line transfers"); };
  made.finish = [up_to = most_bits(s.work.kind)](std::vector<result>& results) {
    add_counts(results);
    judge(results, up_to);
  };
  return made;
}

}  // namespace

experiment ffq_fig4_simulated() {
  return {"ffq/fig4-simulated", "simulated", "ffq, Figure 4", "Simulated: lines that travel, by affinity", prepare};
}

}  // namespace muster::bench
