// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine.cpp: the figures and tables of "Lock Oscillation": one object, or a queue or a stack, that carriers with many
// fibers use together; and what an operation, and a fiber and its switches, cost alone.
#include "driver/counters.hpp"
#include "table/points.hpp"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr unsigned usual_work = 512;  // the paper's dummy iterations between two operations, at most

/// A line for `c` with so many fibers, by the number of carriers.
void add_by_carriers(study& to, const setting& s, const contender& c, unsigned fibers, const std::string& name) {
  contender here = c;
  here.fibers = fibers;
  const std::size_t line = add_line_as(to, here, name, with_fibers(here));
  for (const unsigned n : carrier_counts(s.place))
    add_team_point(to, s, c, line, n, {.carriers = n, .fibers = fibers, .work = usual_work});
}

study one_thread_on_each(const setting& s) {
  return chart(fmt::format("Fetch&Multiply, local work up to {} {}; more than {} carriers share the hardware threads",
                           usual_work, work_unit(), s.place.units()),
               by_carriers, throughput);
}

study cc_synch_and_the_ideal(const setting& s) {
  study made = one_thread_on_each(s);
  for (const contender* c : s.contenders.about(concurrent_object))
    if (c->name == "cc_synch" || c->role == "limit") add_by_carriers(made, s, *c, 1, c->name);
  return made;
}

study without_fibers(const setting& s) {
  study made = one_thread_on_each(s);
  for (const contender* c : s.contenders.about(concurrent_object)) {
    const bool with_its_own = c->name == "osci" || c->name == "psim" || c->role == "paper" || c->role == "limit";
    if (with_its_own) add_by_carriers(made, s, *c, c->fibers, c->name);
    if (c->name == "psim" || !with_its_own) add_by_carriers(made, s, *c, 1, c->name + " x1");
  }
  return made;
}

study osci_by_fibers(const setting& s) {
  study made = chart(fmt::format("Fetch&Multiply, local work up to {} {}; a line for each number of carriers",
                                 usual_work, work_unit()),
                     by_fibers, throughput);
  for (const contender* c : s.contenders.about(concurrent_object)) {
    if (c->name != "osci" && c->role != "paper") continue;
    for (const unsigned n : carrier_counts(s.place)) {
      const std::size_t line = add_line_as(made, *c, fmt::format("{}, {} carrier{}", c->name, n, n == 1 ? "" : "s"));
      for (const unsigned fibers : points_of(s, {1, 2, 4, 8, 16, 32, 64, 96, 128}, {1, 8, 64}))
        add_team_point(made, s, *c, line, fibers, {.carriers = n, .fibers = fibers, .work = usual_work});
    }
  }
  return made;
}

study techniques(const setting& s) {
  const unsigned units = s.place.units();
  study made = chart(
      fmt::format("each algorithm with its own number of fibers; local work up to {} {}; more than {} carriers share "
                  "the {} hardware threads, and the ideal does not grow any more",
                  usual_work, work_unit(), units, units),
      by_carriers, throughput);
  for (const contender* c : s.contenders.about(concurrent_object)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned n : oversubscribed_counts(s))
      add_team_point(made, s, *c, line, n, {.carriers = n, .fibers = c->fibers, .work = usual_work});
  }
  return made;
}

study local_work(const setting& s) {
  const unsigned units = s.place.units();
  study made =
      chart(fmt::format("{} carriers, one per hardware thread, each algorithm with its own number of fibers; {}", units,
                        work_unit()),
            {"local work", "iterations", "log2", ""}, throughput);
  for (const contender* c : s.contenders.about(concurrent_object)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned work : points_of(s, {1, 64, 512, 4096, 16384}, {1, 64, 512}))
      add_team_point(made, s, *c, line, work, {.carriers = units, .fibers = c->fibers, .work = work});
  }
  return made;
}

study what_fibers_bring(const setting& s) {
  const unsigned units = s.place.units();
  study made =
      chart(fmt::format("{} carriers, one per hardware thread; local work up to {} {}", units, usual_work, work_unit()),
            by_fibers, throughput);
  for (const contender* c : s.contenders.about(concurrent_object)) {
    if (c->role == "limit") continue;  // fibers are nothing to it
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s, {1, 2, 4, 8, 16, 32, 64}, {1, 64}))
      add_team_point(made, s, *c, line, fibers, {.carriers = units, .fibers = fibers, .work = usual_work});
  }
  return made;
}

study latency(const setting& s) {
  const unsigned units = s.place.units();
  study made = chart(
      fmt::format("{} carriers; local work up to {} {}; one in 16 operations is timed, from the call to the return",
                  units, usual_work, work_unit()),
      by_fibers, {"latency, mean", "ns", "", "lower"}, detail_value("mean"),
      add_charts(
          {{"-p50", "Latency by fibers: median", {"latency, median", "ns", "", "lower"}, "p50"},
           {"-p99", "Latency by fibers: 99th percentile", {"latency, 99th percentile", "ns", "", "lower"}, "p99"},
           {"-throughput", "Latency by fibers: throughput of the same runs", throughput, "throughput"}}));
  for (const contender* c : s.contenders.about(concurrent_object)) {
    if (c->name != "osci" && c->name != "cc_synch" && c->name != "std::mutex" && c->role != "paper") continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s, {1, 4, 8, 32, 64}, {1, 64}))
      if (fibers == 1 || c->fibers != 1)
        add_team_point(made, s, *c, line, fibers,
                       {.carriers = units, .fibers = fibers, .work = usual_work, .latency = true});
  }
  return made;
}

/// Adds the counts of the processor and of the atomics, without charts that have no number at all.
void add_counts(std::vector<result>& results) {
  const result first = results.front();
  for (const auto& [what, suffix] : {std::pair{"read-modify-writes", "-rmw"}, std::pair{"cache misses", "-cache"},
                                     std::pair{"stalled cycles", "-stalls"}}) {
    std::string title = fmt::format("{} of each algorithm", what);
    title[0] = static_cast<char>(std::toupper(title[0]));
    result r =
        first.derived_chart(suffix, std::move(title), {fmt::format("{} per operation", what), "", "", "lower"}, what);
    bool any = false;
    for (series& line : r.lines) {
      for (const point& p : line.points) any = any || !p.samples.empty();
      std::erase_if(line.points, [](const point& p) { return p.samples.empty() && p.checked; });
    }
    if (any) results.push_back(std::move(r));
  }
}

study combining_degrees(const setting& s) {
  const unsigned units = s.place.units();
  const std::string why_not = hardware_events::why_not();
  study made = chart(
      fmt::format("{} carriers; local work up to 64 {}; the combining degree is the number of operations that one "
                  "carrier executes without a break; cache misses and stalled cycles: {}",
                  units, work_unit(), why_not.empty() ? "counted in user mode" : "not counted, " + why_not),
      {"carriers", "", "category", ""}, {"combining degree", "", "", "higher"}, detail_value("degree"), add_counts);
  for (const contender* c : s.contenders.about(counted))
    for (const unsigned fibers : {c->fibers, 1U}) {
      if (fibers == 1 && c->fibers != 1 && c->name != "psim" && c->name != "cc_synch" && c->name != "osci") continue;
      add_team_point(made, s, *c, add_line_as(made, *c, fmt::format("{} x{}", c->name, fibers)),
                     fmt::format("{} carriers", units),
                     {.carriers = units, .fibers = fibers, .work = 64, .events = true});
      if (c->fibers == 1) break;
    }
  return made;
}

study pairs_on_a_structure(const setting& s, topic about, std::uint64_t prefilled) {
  const unsigned units = s.place.units();
  study made =
      chart(fmt::format("pairs of push and pop on a structure with {} items, after each local work up to {} {}; each "
                        "structure with its own number of fibers; more than {} carriers share the hardware threads",
                        prefilled, usual_work, work_unit(), units),
            by_carriers, throughput);
  for (const contender* c : s.contenders.about(about)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned n : s.full() ? oversubscribed_counts(s) : std::vector{units})
      add_team_point(made, s, *c, line, n,
                     {.carriers = n, .fibers = c->fibers, .work = usual_work, .prefilled = prefilled});
  }
  return made;
}

/// With the local work of Figure 5 the ideal is hardly faster than LCRQ, and so no structure can be.
study pairs_by_work(const setting& s, topic about) {
  const unsigned units = s.place.units();
  study made =
      chart(fmt::format("pairs of push and pop on an empty structure, local work after each; {} carriers, one per "
                        "hardware thread; each structure with its own number of fibers; {}",
                        units, work_unit()),
            {"local work", "iterations", "log2", ""}, throughput);
  for (const contender* c : s.contenders.about(about)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (const unsigned work : points_of(s, {1, 16, 64, 512}, {1, 64}))
      add_team_point(made, s, *c, line, work, {.carriers = units, .fibers = c->fibers, .work = work});
  }
  return made;
}

// ----------------------------------------------------------------- on a machine with as many cores as the paper's has

// 512 and 64 of the paper's dummy iterations, of six cycles each at 3.4 GHz (driver/local_work.hpp).
constexpr unsigned work_512 = 900;
constexpr unsigned work_64 = 113;

unsigned most_cores(const setting& s, const muster_simulation::machine& m) {
  return s.work.kind == profile::smoke ? std::min(4U, m.cores()) : m.cores();
}

/// Osci as printed looks at its nodes so often that the quick profile has no time for it.
std::vector<const contender*> objects_for(const setting& s) {
  std::vector<const contender*> found = s.contenders.about(sim_objects);
  if (s.work.kind == profile::quick) std::erase_if(found, [](const contender* c) { return c->role == "paper"; });
  return found;
}

/// One thread on each of the first cores. Each fiber has some operations at least, but for very many fibers.
sim_spec on_cores(const setting& s, const simulated_machine& machine, unsigned cores, unsigned fibers,
                  unsigned most_work) {
  struct length {
    std::uint64_t each;
    std::uint64_t least;
    std::uint64_t most;
  };
  const length here = s.full()                        ? length{12, 20'000, 50'000}
                      : s.work.kind == profile::quick ? length{4, fibers == 1 ? 10'000U : 3'000U, 16'384}
                                                      : length{2, 1'000, 2'000};
  sim_spec spec = on_first(cores, machine);
  spec.fibers = fibers;
  spec.most_work = most_work;
  spec.items = std::clamp(here.each * cores * fibers, here.least, here.most);
  return spec;
}

study simulated(const simulated_machine& machine, unsigned most_work, const std::string& more, axis x, axis y,
                std::function<double(const outcome&)> value) {
  return chart(
      fmt::format("{}; Fetch&Multiply, one thread on each core, 0 to {} ns of work between two operations of a "
                  "fiber; {}",
                  told_as_simulated(*machine), most_work, more),
      std::move(x), std::move(y), std::move(value),
      add_charts({{"-transfers",
                   "Simulated: lines that travel between caches, for an operation",
                   {"transfers per operation", "", "", "lower"},
                   "line transfers"}}));
}
const axis simulated_throughput{"simulated throughput", "Mops/s", "", "higher"};

study simulated_fibers(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s);
  const unsigned cores = most_cores(s, *machine);
  study made = simulated(machine, work_512, fmt::format("{} cores", cores), {"fibers per core", "", "log2", ""},
                         simulated_throughput, mega_items);
  for (const contender* c : objects_for(s)) {
    if (c->name != "osci" && c->role != "paper") continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s, {1, 2, 4, 8, 16, 32, 64, 96, 128}, {1, 4, 8, 64}))
      add_simulated_point(made, *c, line, fibers, on_cores(s, machine, cores, fibers, work_512));
  }
  return made;
}

study simulated_cores(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s);
  study made =
      simulated(machine, work_512,
                "cores of one cluster after another; each algorithm with its own number of fibers, for which it yields",
                {"simulated cores", "", "log2", ""}, simulated_throughput, mega_items);
  const unsigned most = most_cores(s, *machine);
  const unsigned step = s.full() ? 2 : 8;
  for (const contender* c : objects_for(s)) {
    const std::size_t line = made.add_line(*c, {}, with_fibers(*c));
    for (unsigned cores = 1; cores < most * step; cores *= step) {
      const unsigned here = std::min(cores, most);
      if (here < c->least_threads) continue;
      add_simulated_point(made, *c, line, here, on_cores(s, machine, here, c->fibers, work_512));
    }
  }
  return made;
}

/// The rows of the paper's table.
study simulated_degrees(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s);
  const unsigned cores = most_cores(s, *machine);
  study made = simulated(
      machine, work_64, "the combining degree is the number of operations that one core executes without a break",
      {"simulated cores", "", "category", ""}, {"combining degree", "", "", "higher"}, detail_value("degree"));
  for (const contender* c : objects_for(s)) {
    const bool both_ways = c->name == "osci" || c->name == "psim";
    if (!both_ways && c->name != "h_synch" && c->name != "cc_synch" && c->role != "paper") continue;
    for (const unsigned fibers : {c->fibers, 1U}) {
      if (fibers != c->fibers && !both_ways) continue;
      add_simulated_point(made, *c, add_line_as(made, *c, fmt::format("{} x{}", c->name, fibers)),
                          fmt::format("{} cores", cores), on_cores(s, machine, cores, fibers, work_64));
      if (c->fibers == 1) break;
    }
  }
  return made;
}

// --------------------------------------------------------------------------------------------------- costs of our own

study nobody_else(const setting& s) {
  study made = chart("1 thread, no fibers, Fetch&Multiply on a float, no local work", {"case", "", "category", ""},
                     {"time per operation", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender* c : s.contenders.about(concurrent_object))
    add_team_point(made, s, *c, made.add_line(*c), "1 thread alone", {.carriers = 1, .fibers = 1});
  return made;
}

/// With fibers and without them.
study many_at_once(const setting& s) {
  study made = chart("Fetch&Multiply on a float, and a count; no local work; one carrier per hardware thread",
                     by_carriers, throughput);
  for (const contender* c : s.contenders.about(without_waiting)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned n : carrier_counts(s.place))
      add_team_point(made, s, *c, line, n, {.carriers = n, .fibers = c->fibers});
  }
  return made;
}

/// Alone, with another thread, on more threads than processors, and with the fibers of each.
study counters(const setting& s) {
  const unsigned units = s.place.units();
  study made =
      chart("a number that all add 1 to, each of which learns the value before; no work between two operations",
            {"threads", "", "category", ""}, throughput);
  for (const contender* c : s.contenders.about(counting)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const std::string& x, unsigned carriers, unsigned fibers) {
      add_team_point(made, s, *c, line, x, {.carriers = carriers, .fibers = fibers, .work = 0, .least_work = 0});
    };
    add("1", 1, 1);
    if (units > 1) add("one each", units, 1);
    add("four each", 4 * units, 1);
    add("one each, 64 fibers", units, 64);
  }
  return made;
}

/// The last point has two threads on each core.
study simulated_counters(const setting& s) {
  const simulated_machine machine = machine_to_simulate(s);
  study made = simulated(machine, work_64,
                         "a number that all add 1 to, instead of Fetch&Multiply; cores of one cluster after another, "
                         "then the second threads of all cores",
                         {"simulated threads", "", "log2", ""}, simulated_throughput, mega_items);
  const unsigned most = s.work.kind == profile::smoke ? std::min(4U, machine->threads()) : machine->threads();
  const unsigned step = s.full() ? 2 : 8;
  for (const contender* c : s.contenders.about(sim_counting)) {
    const std::size_t line = made.add_line(*c);
    for (unsigned threads = 1; threads < most * step; threads *= step) {
      const unsigned here = std::min(threads, most);
      if (here < c->least_threads) continue;
      add_simulated_point(made, *c, line, here, on_cores(s, machine, here, c->fibers, work_64));
    }
  }
  return made;
}

/// Two points: a thread on each processor, and sixteen.
study tails(const setting& s) {
  const unsigned units = s.place.units();
  const unsigned milliseconds = s.full() ? 2000 : s.work.kind == profile::quick ? 150 : 20;
  study made = chart(
      fmt::format(
          "threads without fibers on {} hardware threads use one object for {} ms, without local work; one in 16 "
          "operations is timed, from the call to the return; a thread's share counts operations, 1 is an equal one",
          units, milliseconds),
      {"threads", "", "category", ""}, {"latency, 99.9th percentile", "ns", "", "lower"}, detail_value("p99.9"),
      add_charts({{"-p50", "Tails: median", {"latency, median", "ns", "", "lower"}, "p50"},
                  {"-p99", "Tails: 99th percentile", {"latency, 99th percentile", "ns", "", "lower"}, "p99"},
                  {"-max", "Tails: the longest", {"latency, maximum", "ns", "", "lower"}, "max"},
                  {"-throughput", "Tails: throughput of the same runs", throughput, "throughput"},
                  {"-share",
                   "Tails: the thread with the fewest operations",
                   {"least share", "equal shares", "", "higher"},
                   "least share"}}));
  for (const contender* c : s.contenders.about(by_turns)) {
    const std::size_t line = made.add_line(*c);
    for (const auto& [x, each] : {std::pair{"one on each", 1U}, std::pair{"16 on each", 16U}}) {
      configuration& one =
          add_point(made, *c, line, x,
                    share_spec{.work = 1, .milliseconds = milliseconds, .pus = s.place.assign(each * units, 0)});
      one.fixed_items = 1;
    }
  }
  return made;
}

study yields(const setting& s) {
  study made = chart("1 thread; each fiber yields to the next in turn; the order is checked where it is visible",
                     {"fibers", "", "log2", ""}, {"time per yield", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender* c : s.contenders.about(fiber_switch)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned fibers : points_of(s, {2, 16, 64, 128, 1024}, {2, 64, 1024}))
      if (fibers <= c->fibers) add_team_point(made, s, *c, line, fibers, {.carriers = 1, .fibers = fibers});
  }
  return made;
}

/// As many as half of the free memory has room for, two pages each, but no more than this.
std::uint64_t crowd_of_fibers(const setting& s) {
  const std::uint64_t wanted = s.full() ? 1'000'000 : s.work.kind == profile::quick ? 36'000 : 1'000;
  const auto free_pages = static_cast<std::uint64_t>(::sysconf(_SC_AVPHYS_PAGES));
  return std::min(wanted, free_pages / 4 / 1000 * 1000);
}

/// The charts of the runs that ask for many at once.
void add_crowds(std::vector<result>& results) {
  const result first = results.front();
  for (result r : {first.derived_chart("-held", "Fibers at once: how many there can be",
                                       {"fibers at once", "", "", "higher"}, "held"),
                   first.derived_chart("-memory", "Fibers at once: memory of each that has not run",
                                       {"memory of each", "bytes", "", "lower"}, "bytes")}) {
    for (series& line : r.lines)
      std::erase_if(line.points, [](const point& p) { return p.samples.empty() && p.checked; });
    std::erase_if(r.lines, [](const series& line) { return line.points.empty(); });
    results.push_back(std::move(r));
  }
}

study creations(const setting& s) {
  const std::uint64_t crowd = crowd_of_fibers(s);
  study made = chart(
      fmt::format("1 thread; stacks of 256 KiB; first: each is made on a stack that was never used, while those before "
                  "wait for their first turns; again: one at a time is made, runs and is joined; at once: as first, "
                  "until the system has no more or {} exist",
                  crowd),
      {"fibers", "", "category", ""}, {"time for each", "ns", "", "lower"}, nanoseconds_per_item, add_crowds);
  const std::uint64_t firsts = s.full() ? 20'000 : s.work.kind == profile::quick ? 10'000 : 300;
  for (const contender* c : s.contenders.about(fiber_create)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const char* x, creation what) -> configuration& {
      return add_point(made, *c, line, x, create_spec{.what = what, .pus = s.place.assign(1, 0)});
    };
    add("first", creation::first).fixed_items = std::min(firsts, c->most_created);
    if (c->role == "limit") continue;
    add("again", creation::again).maybe_slow = true;
    add("at once", creation::at_once).fixed_items = std::min(crowd, c->most_created);
  }
  return made;
}

}  // namespace

std::vector<experiment> combine_rows() {
  return {
      {"osci/fig1-ideal", "combine", "osci, Figure 1", "CC-Synch and the ideal by kernel threads",
       cc_synch_and_the_ideal},
      {"osci/fig3-techniques", "combine", "osci, Figure 3", "All algorithms by kernel threads", techniques},
      {"osci/fig4a-one-thread", "combine", "osci, Figure 4a", "Osci and PSim-x beside techniques without fibers",
       without_fibers},
      {"osci/fig4-local-work", "combine", "osci, Figure 4", "Throughput by local work", local_work},
      {"osci/table2-user-threads", "combine", "osci, Table 2", "Each algorithm with and without fibers",
       what_fibers_bring},
      {"osci/fig2-fibers", "combine", "osci, Figure 2", "Osci by fibers per core", osci_by_fibers},
      {"osci/table3-latency", "combine", "osci, Table 3", "Latency by fibers: mean", latency},
      {"osci/table4-misses", "combine", "osci, Table 4", "Combining degree of each algorithm", combining_degrees},
      {"osci/fig5a-queues", "combine", "osci, Figure 5a", "Queues by kernel threads",
       [](const setting& s) { return pairs_on_a_structure(s, queue_by_fibers, 0); }},
      {"osci/fig5a-prefilled", "combine", "osci, Figure 5a", "Queues by kernel threads, with 8192 items at the start",
       [](const setting& s) { return pairs_on_a_structure(s, queue_by_fibers, 8192); }},
      {"osci/fig5b-stacks", "combine", "osci, Figure 5b", "Stacks by kernel threads",
       [](const setting& s) { return pairs_on_a_structure(s, stack_by_fibers, 0); }},
      {"osci/fig2-simulated", "simulated", "osci, Figure 2", "Simulated: Osci by fibers per core", simulated_fibers},
      {"osci/fig3-simulated", "simulated", "osci, Figure 3", "Simulated: techniques by cores", simulated_cores},
      {"osci/table4-simulated", "simulated", "osci, Table 4", "Simulated: combining degree of each algorithm",
       simulated_degrees},
      {"combine/uncontended", "combine", "", "One operation, no other thread", nobody_else},
      {"combine/async", "combine", "", "Many requests of a thread at once", many_at_once},
      {"fiber/switch", "combine", "", "A yield, by number of fibers", yields},
      {"combine/counter", "combine", "", "Counters", counters},
      {"combine/counter-simulated", "simulated", "", "Simulated: counters by threads", simulated_counters},
      {"combine/tails", "combine", "", "Tails: 99.9th percentile", tails},
      {"osci/fig5a-little-work", "combine", "osci, Figure 5a", "Queues by local work",
       [](const setting& s) { return pairs_by_work(s, queue_by_fibers); }},
      {"osci/fig5b-little-work", "combine", "osci, Figure 5b", "Stacks by local work",
       [](const setting& s) { return pairs_by_work(s, stack_by_fibers); }},
      {"fiber/create", "combine", "", "A fiber is made", creations},
  };
}

}  // namespace muster::bench
