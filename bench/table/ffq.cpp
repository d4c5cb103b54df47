// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq.cpp: the figures of the FFQ paper. Its micro-benchmark (driver/request.hpp) has requests from a producer to its
// consumers, and answers; an operation is a request and its answer.
#include "driver/counters.hpp"
#include "driver/local_work.hpp"
#include "driver/placement.hpp"
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr unsigned least_bits = 2, most_bits = 20;  // of the size of a queue
constexpr std::size_t size_of(unsigned bits) { return std::size_t{1} << bits; }

/// Where a producer and its consumer run.
struct affinity {
  const char* name;
  policy how;
  unsigned cores;  // that a pair uses
};
constexpr std::array affinities{affinity{"sibling thread", policy::sibling, 1},
                                affinity{"same thread", policy::same_thread, 1},
                                affinity{"other core", policy::same_l3, 2}, affinity{"no affinity", policy::none, 2}};

/// The affinities that this machine supports; the setting names the others and the reason.
std::vector<affinity> affinities_of(const setting& s, study& to) {
  std::vector<affinity> found;
  for (const affinity& a : affinities) {
    try {
      static_cast<void>(s.place.with(a.how).assign(1, 1));
      found.push_back(a);
    } catch (const std::invalid_argument& e) {
      to.head.setting += fmt::format("; NOT HERE: {} ({})", a.name, e.what());
    }
  }
  return found;
}

std::vector<const contender*> spmc_and_the_papers(const setting& s) {
  std::vector<const contender*> found = s.contenders.about(topic::exchange);
  std::erase_if(found, [](const contender* c) { return c->name != "spmc_queue" && c->role != "paper"; });
  return found;
}

// ------------------------------------------------------------------------------------------------------------ figure 2

constexpr const char* not_aligned = "not aligned";

/// As the paper draws it.
void add_normalized(std::vector<result>& results) {
  const result first = results.front();
  add_changed(results, "-normalized", "Layouts of cells, over cells that are not aligned",
              {"throughput over that of cells that are not aligned", "", "", "higher"},
              [&first](const series& line, point& p) {
                const std::string queue = line.name.substr(0, line.name.find(','));
                const series* const base = first.named(queue + ", " + not_aligned);
                const point* const same = base == nullptr ? nullptr : base->at(p.x);
                if (same == nullptr || same->samples.empty() || !same->checked) return p.samples.clear();
                const double of_base = median(same->samples);
                for (double& sample : p.samples) sample /= of_base;
              });
}

study layouts(const setting& s) {
  struct shape {
    const char* name;
    unsigned producers, consumers;
  };
  study made = chart(
      "queues of 4096 entries; 8-byte requests to the producer's own consumers, answers through a spsc_queue per "
      "consumer; an operation is a request and its answer",
      {"threads", "", "category", ""}, throughput, mega_items, add_normalized);
  for (const contender* c : s.contenders.about(queue_layouts)) {
    const std::size_t line = made.add_line(*c);
    for (const shape& of : {shape{"1 producer, 1 consumer", 1, 1}, shape{"1 producer, 8 consumers", 1, 8},
                            shape{"8 producers, 8 consumers each", 8, 8}}) {
      const unsigned threads = of.producers * (1 + of.consumers);
      if (!s.full() && threads > 16 * s.place.units()) continue;
      add_exchange_point(made, s, *c, line, of.name,
                         {.producers = of.producers,
                          .consumers = of.consumers,
                          .pus = s.place.assign(of.producers, of.producers * of.consumers)});
    }
  }
  return made;
}

// ------------------------------------------------------------------------------------------------------------ figure 3

study sizes(const setting& s) {
  study made = chart(
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; at most as "
      "many requests in flight as the queue has entries; an operation is a request and its answer",
      by_queue_size, throughput);
  for (const contender* c : s.contenders.about(topic::exchange)) {
    const std::size_t line = made.add_line(*c);
    for (unsigned bits = least_bits; bits <= most_bits; bits += 2)
      add_exchange_point(made, s, *c, line, size_of(bits), {.capacity = size_of(bits), .pus = s.place.assign(1, 1)});
  }
  return made;
}

// ---------------------------------------------------------------------------------------------------- figures 4 and 6

study pairs_by_affinity(const setting& s, bool events) {
  study made = chart(
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; an "
      "operation is a request and its answer",
      by_queue_size, throughput);
  for (const affinity& a : affinities_of(s, made))
    for (const contender* c : spmc_and_the_papers(s)) {
      const std::size_t line = add_line_as(made, *c, fmt::format("{}, {}", c->name, a.name));
      for (unsigned bits = least_bits; bits <= most_bits; bits += 2)
        add_exchange_point(made, s, *c, line, size_of(bits),
                           {.capacity = size_of(bits), .events = events, .pus = s.place.with(a.how).assign(1, 1)});
    }
  return made;
}

/// The paper's recommendation depends on the number of cores used.
void add_per_core(std::vector<result>& results) {
  add_changed(results, "-per-core", "Throughput by affinity, per core that is used",
              {"throughput per core", "Mops/s", "", "higher"}, [](const series& line, point& p) {
                for (const affinity& a : affinities)
                  if (line.name.ends_with(a.name))
                    for (double& sample : p.samples) sample /= a.cores;
              });
}

study affinity_throughput(const setting& s) {
  study made = pairs_by_affinity(s, false);
  made.finish = add_per_core;
  return made;
}

/// Adds a chart for each event that this processor counts.
void add_cache_counts(std::vector<result>& results) {
  for (const auto& [what, suffix] :
       std::array<std::pair<const char*, const char*>, 4>{{{"instructions", "-instructions"},
                                                           {"l1 misses", "-l1-misses"},
                                                           {"last-level reads", "-last-level-reads"},
                                                           {"cache misses", "-memory"}}}) {
    result r = results.front().derived_chart(suffix, fmt::format("By affinity: {}", what),
                                             {fmt::format("{} per request", what), "", "", "lower"}, what);
    if (std::any_of(r.lines.begin(), r.lines.end(), [](const series& line) {
          return std::any_of(line.points.begin(), line.points.end(), [](const point& p) { return !p.samples.empty(); });
        }))
      results.push_back(std::move(r));
  }
}

study affinity_counters(const setting& s) {
  const std::string why_not = hardware_events::why_not();
  study made = why_not.empty()
                   ? pairs_by_affinity(s, true)
                   : chart("NOT HERE: " + why_not + "; ffq/fig4-simulated counts the same on a simulated machine",
                           by_queue_size, throughput);
  made.head.y = {"instructions per cycle", "", "", "higher"};
  made.value = [](const outcome& o) { return o.detail_value("instructions") / o.detail_value("cycles"); };
  made.finish = add_cache_counts;
  return made;
}

/// Where the threads of `pairs` pairs run, producers first; empty when there are not so many places.
std::vector<int> places_of(const affinity& a, unsigned pairs, const placement& place) {
  const placement spread = place.with(policy::spread);
  if (a.how == policy::none || !spread.pinned()) return place.with(policy::none).assign(pairs, pairs);
  std::vector<int> producers = spread.assign(pairs, 0), consumers = producers;
  if (a.how == policy::same_l3) {  // each with the next pair's producer
    const std::vector<int> next = spread.assign(pairs + 1, 0);
    consumers.assign(next.begin() + 1, next.end());
  } else if (a.how == policy::sibling) {
    std::map<int, std::vector<int>> cores;
    const std::vector<int> used = spread.assign(place.units(), 0);
    for (const unit& u : allowed_units())
      if (std::find(used.begin(), used.end(), u.number) != used.end()) cores[u.core].push_back(u.number);
    std::erase_if(cores, [](const auto& core) { return core.second.size() < 2; });
    if (cores.size() < pairs) return {};
    auto core = cores.begin();
    for (unsigned i = 0; i < pairs; ++i, ++core) producers[i] = core->second[0], consumers[i] = core->second[1];
  }
  producers.insert(producers.end(), consumers.begin(), consumers.end());
  return producers;
}

/// As many pairs as there are hardware threads.
study by_producers(const setting& s) {
  study made = chart(
      "pairs of a producer and its consumer, with queues of their own; 8-byte requests through one, answers through "
      "another of the same size; an operation is a request and its answer; of all pairs together",
      {"producers", "", "log2", ""}, throughput);
  for (const affinity& a : affinities_of(s, made))
    for (const contender* c : spmc_and_the_papers(s))
      for (const unsigned bits : {6U, 12U, 18U}) {
        const std::size_t line = add_line_as(made, *c, fmt::format("{}, {}, 2^{} entries", c->name, a.name, bits));
        for (unsigned pairs = 1; pairs <= s.place.units(); pairs *= 2)
          if (const std::vector<int> pus = places_of(a, pairs, s.place); !pus.empty())
            add_exchange_point(made, s, *c, line, pairs, {.capacity = size_of(bits), .producers = pairs, .pus = pus});
      }
  return made;
}

/// Simulates the hardware counters of Figure 4: the caches in which a producer and its consumer find their lines.
study simulated_affinity(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s);
  study made = chart(
      fmt::format("{}; one producer and one consumer; 8-byte requests through one queue, answers through another of "
                  "the same size; both threads on one hardware thread are left out, as the simulation has no scheduler",
                  told_as_simulated(*machine)),
      by_queue_size, {"simulated transfers per request", "", "", "lower"}, detail_value("line transfers"),
      add_charts({{"-l1-hits", "Simulated: l1 hits by affinity", {"l1 hits per request", "", "", "higher"}, "l1 hits"},
                  {"-l2-hits", "Simulated: l2 hits by affinity", {"l2 hits per request", "", "", "higher"}, "l2 hits"},
                  {"-l3-hits", "Simulated: l3 hits by affinity", {"l3 hits per request", "", "", "higher"}, "l3 hits"},
                  {"-memory-reads",
                   "Simulated: memory reads by affinity",
                   {"memory reads per request", "", "", "lower"},
                   "memory reads"},
                  {"-memory-writes",
                   "Simulated: memory writes by affinity",
                   {"memory writes per request", "", "", "lower"},
                   "memory writes"}}));
  // The consumer's hardware thread; the producer's is 0.
  std::vector<std::pair<const char*, unsigned>> where;
  if (machine->threads_per_core > 1) where.emplace_back("sibling thread", machine->cores());
  if (machine->cores_per_cluster > 1) where.emplace_back("other core", 1);
  if (machine->clusters > 1) where.emplace_back("other cluster", machine->cores_per_cluster);
  for (const contender* c : s.contenders.about(model_figure4))
    for (const auto& [name, second] : where) {
      const std::size_t line = add_line_as(made, *c, fmt::format("{}, {}", c->name.substr(0, c->name.find(',')), name));
      for (unsigned bits = least_bits; bits <= (s.full() ? most_bits : 14); bits += 2) {
        sim_spec spec;
        spec.machine = machine;
        spec.capacity = size_of(bits);
        spec.threads = {0, second};
        spec.items = std::max<std::uint64_t>(simulated_items(s), 4 * spec.capacity);
        add_simulated_point(made, *c, line, spec.capacity, spec);
      }
    }
  return made;
}

// ------------------------------------------------------------------------------------------------------------ figure 7

/// The callers are fibers of some carriers, or threads. Each carrier has a thread that makes calls beside it.
study system_calls(const setting& s) {
  constexpr unsigned many_carriers = 4, fibers_of_many = 16;
  study made = chart(
      "getppid() by threads that send it through one queue to threads that make it, and get the result through "
      "another; a request has 48 bytes, a reply 16; a caller has one call under way; each carrier has a thread that "
      "makes calls beside it, which waits by looking; fibers wait by letting the others run",
      {"callers", "", "log2", ""}, {"throughput", "Mcalls/s", "", "higher"}, mega_items,
      add_charts({{"-latency",
                   "System calls through queues: what a caller waits for",
                   {"time of a call", "ns", "log2", "lower"},
                   "latency"}}));
  for (const contender& c : s.contenders.all) {
    if (!c.call) continue;
    const auto add = [&](std::size_t line, unsigned carriers, unsigned fibers) {
      add_point(made, c, line, carriers * fibers,
                call_spec{.carriers = carriers, .fibers = fibers, .pus = s.place.assign(carriers, carriers)})
          .maybe_slow = true;  // one side may wait for the time slice of a thread of another program
    };
    const std::size_t fibers = add_line_as(made, c, c.name + ", fibers of one thread");
    for (const unsigned n : points_of(s, {1, 2, 4, 8, 16, 32, 64}, {1, 8, 64})) add(fibers, 1, n);
    if (c.name.starts_with("guarded")) continue;  // an inside has one thread
    const std::size_t threads = add_line_as(made, c, c.name + ", threads");
    for (const unsigned n : points_of(s, {1, 2, 4, 8, 16, 32, 64}, {1, 8})) add(threads, n, 1);
    if (s.place.units() < 2 * many_carriers) continue;
    const std::size_t many = add_line_as(made, c, c.name + ", fibers of 4 threads");
    add(many, many_carriers, fibers_of_many);
  }
  return made;
}

/// A carrier and the thread that makes its calls are neighbours, whichever queues they use.
study simulated_system_calls(const setting& s) {
  constexpr unsigned call_ns = 120, most_carriers = 64;
  const simulated_machine machine = machine_to_simulate(s);
  study made = chart(
      fmt::format("{}; calls that take {} ns through one queue, results through another; each carrier has a thread "
                  "that makes calls on the hardware thread after its own; a caller has one call under way",
                  told_as_simulated(*machine), call_ns),
      {"simulated carriers", "", "log2", ""}, {"simulated throughput", "Mcalls/s", "log2", "higher"}, mega_items,
      add_charts({{"-latency",
                   "Simulated: what a caller waits for",
                   {"simulated time of a call", "ns", "log2", "lower"},
                   "latency"},
                  {"-transfers",
                   "Simulated: lines that travel between caches, for a call",
                   {"transfers per call", "", "log2", "lower"},
                   "line transfers"}}));
  for (const contender* c : s.contenders.about(model_figure7))
    for (const unsigned fibers : {1U, 16U}) {
      const std::size_t line =
          add_line_as(made, *c, fmt::format("{}, {} a carrier", c->name, fibers == 1 ? "1 caller" : "16 callers"));
      for (unsigned carriers = 1; carriers <= std::min(most_carriers, machine->threads() / 2);
           carriers *= s.full() || carriers > 1 ? 2 : 4) {
        sim_spec spec;
        spec.machine = machine;
        spec.fibers = fibers;
        spec.least_work = spec.most_work = call_ns;
        for (const unsigned side : {0U, 1U})
          for (unsigned i = 0; i < carriers; ++i) spec.threads.push_back(2 * i + side);
        const std::uint64_t each = s.work.kind == profile::smoke ? 1 : 20;  // callers begin and end together
        spec.items = std::max(simulated_items(s), each * carriers * fibers);
        add_simulated_point(made, *c, line, carriers, spec);
      }
    }
  return made;
}

// ------------------------------------------------------------------------------------------------------------ figure 8

constexpr double least_ns = 50, most_ns = 150;  // between two operations

unsigned iterations(double ns) { return static_cast<unsigned>(std::max(1.0, ns / nanoseconds_per_iteration() + 0.5)); }

/// Names the series of the paper's figure that this machine lacks.
std::string not_here(const catalogue& all) {
  std::string unavailable;
  for (const left_out& gone : all.missing)
    for (const std::string_view name : {"HTM ring", "LCRQ, rings of 2^10", "FFQ^m as printed"})
      if (gone.family.starts_with(name)) unavailable += fmt::format("; NOT HERE: {} ({})", gone.family, gone.reason);
  return unavailable;
}

study comparison(const setting& s) {
  constexpr std::uint64_t pairs = 10'000'000;  // in a run
  std::string text = fmt::format(
      "pairs of enqueue and dequeue on one queue, after each {:.0f} to {:.0f} ns of local work ({} to {} {}), which is "
      "in the time; what has a single producer or consumer runs with one thread; more than {} threads share the "
      "hardware threads{}",
      least_ns, most_ns, iterations(least_ns), iterations(most_ns), work_unit(), s.place.units(),
      not_here(s.contenders));
  if (s.full()) text += "; 10^7 pairs per run, or as many as take 4 s";
  study made = chart(std::move(text), {"threads", "", "log2", ""}, throughput);
  const auto add = [&](const contender& c, std::size_t line, unsigned threads) {
    add_team_point(made, s, c, line, threads,
                   {.carriers = threads, .work = iterations(most_ns) + 1, .least_work = iterations(least_ns)})
        .full_items = 2 * pairs;
  };
  for (const contender* c : s.contenders.about(queue_pairs)) {
    const std::size_t line = add_line_in_order(made, *c);
    for (const unsigned threads : s.full() ? oversubscribed_counts(s) : carrier_counts(s.place)) add(*c, line, threads);
  }
  for (const contender* c : s.contenders.about(pairs_alone)) add(*c, made.add_line(*c), 1);
  return made;
}

study simulated_comparison_on(const setting& s, const simulated_machine& machine) {
  study made = chart(
      fmt::format("{}; each thread pushes an item and pops one, with 50 to 150 ns of work between two operations, on "
                  "one queue of 4096 items; threads fill the cores of one cluster after another{}",
                  told_as_simulated(*machine),
                  machine->threads_per_core > 1 ? ", and then the cores' second threads" : ""),
      {"simulated threads", "", "log2", ""}, {"simulated throughput", "Mpairs/s", "log2", "higher"}, mega_items,
      add_charts({{"-transfers",
                   "Simulated: lines that travel between caches, for a pair of operations",
                   {"transfers per pair", "", "log2", "lower"},
                   "line transfers"}}));
  for (const contender* c : s.contenders.about(model_figure8)) {
    const std::size_t line = add_line_as(made, *c, c->name.substr(0, c->name.find(", pairs")));
    for (unsigned threads = 1; threads <= machine->threads(); threads *= 2) {
      sim_spec spec = on_first(threads, machine);
      spec.least_work = 50;
      spec.most_work = 150;
      spec.items = simulated_items(s);
      add_simulated_point(made, *c, line, threads, spec);
    }
  }
  return made;
}

study simulated_comparison(const setting& s) { return simulated_comparison_on(s, machine_to_simulate(s)); }
study simulated_comparison_on_128_cores(const setting& s) {
  return simulated_comparison_on(s, machine_to_simulate(s, "sixteen-clusters.json"));
}

}  // namespace

std::vector<experiment> ffq_rows() {
  return {
      {"ffq/fig2-layout", "queue", "ffq, Figure 2", "Layouts of cells", layouts},
      {"ffq/fig3-queue-size", "queue", "ffq, Figure 3", "Throughput by queue size", sizes},
      {"ffq/fig4-affinity-counters", "queue", "ffq, Figure 4", "Instructions per cycle, by affinity",
       affinity_counters},
      {"ffq/fig6-affinity-throughput", "queue", "ffq, Figure 6", "Throughput by affinity", affinity_throughput},
      {"ffq/fig6-producers", "queue", "ffq, Figure 6", "Throughput by affinity and number of producers", by_producers},
      {"ffq/fig7-syscalls", "syscall", "ffq, Figure 7", "System calls through queues", system_calls},
      {"ffq/fig8-comparison", "queue", "ffq, Figure 8", "Comparison with other queues", comparison},
      {"ffq/fig4-simulated", "simulated", "ffq, Figure 4", "Simulated: lines that travel, by affinity",
       simulated_affinity},
      {"ffq/fig7-simulated", "simulated", "ffq, Figure 7", "Simulated: system calls through queues",
       simulated_system_calls},
      {"ffq/fig8-simulated", "simulated", "ffq, Figure 8", "Simulated: pairs of push and pop by many threads",
       simulated_comparison},
      {"ffq/fig8-simulated-128", "simulated", "ffq, Figure 8", "Simulated: pairs of push and pop by up to 128 cores",
       simulated_comparison_on_128_cores},
  };
}

}  // namespace muster::bench
