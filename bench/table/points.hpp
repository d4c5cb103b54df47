// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// points.hpp: the building blocks of rows: charts, lines, points, and charts derived from the same runs.
#pragma once

#include "sim/cache/machine.hpp"
#include "table/experiment.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::bench {

// -------------------------------------------------------------------------------------------------------------- charts

inline const axis throughput{"throughput", "Mops/s", "", "higher"};
inline const axis by_carriers{"carriers", "", "log2", ""};
inline const axis by_fibers{"fibers per carrier", "", "log2", ""};
inline const axis by_quantile{"quantile", "", "category", ""};
inline const axis by_queue_size{"queue size", "entries", "log2", ""};

double nanoseconds_per_item(const outcome& o);
double milliseconds(const outcome& o);
/// A value that a run reports beside its time.
std::function<double(const outcome&)> detail_value(const char* what);

/// Makes a study without lines.
study chart(std::string setting, axis x, axis y, std::function<double(const outcome&)> value = mega_items,
            std::function<void(std::vector<result>&)> finish = {});

/// For study::finish: adds a chart for each of these values that the runs report.
struct other_chart {
  const char* suffix;
  const char* title;
  axis y;
  const char* what;
};
std::function<void(std::vector<result>&)> add_charts(std::vector<other_chart> all);

/// Adds a chart of the same runs, with each point passed through `change`.
void add_changed(std::vector<result>& results, const char* suffix, const char* title, axis y,
                 const std::function<void(const series&, point&)>& change);

/// For study::finish: shows, in place of each series' one point, the quantiles that the runs report with this prefix.
void show_quantiles(result& of, const std::string& prefix = "");

/// Adds a constant line with a point wherever another line has one.
void add_constant(result& to, const char* name, double value, const char* note);

// --------------------------------------------------------------------------------------------------------------- lines

/// Adds a line; a peer that is not FIFO over all producers gets the role of a baseline.
std::size_t add_line_in_order(study& to, const contender& c);
/// Adds a line under another name.
std::size_t add_line_as(study& to, const contender& c, std::string name, std::string note = {});
/// The note of a line, such as "64 fibers per carrier".
std::string with_fibers(const contender& c);

// -------------------------------------------------------------------------------------------------------------- points

// The fields that a dry run shows.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(stream_spec, capacity, producers, consumers, demand_order, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(tail_spec, capacity, producers, consumers, demand_order, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(try_spec, state, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(message_spec, size, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(exchange_spec, capacity, producers, consumers, events, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(round_trip_spec, in_flight, servers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(event_loop_spec, in_flight, servers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(process_trip_spec, in_flight, servers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(stall_spec, capacity, period_ns, sleep_ns, sleep_every, demand_order, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(team_spec, carriers, fibers, work, least_work, prefilled, latency, events, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(share_spec, work, milliseconds, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(create_spec, what, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(fork_spec, program, size, workers, items, one_run, pause, idle, idle_seconds, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(graph_spec, shape, width, workers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(algorithm_spec, what, size, workers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(task_spec, what, workers, latency, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(loop_spec, what, turns, workers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(sort_spec, shape, type, size, workers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(heap_spec, active, items, filled, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(heap_size_spec, bytes, items, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(heap_case_spec, what, bytes, items, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(call_spec, carriers, fibers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(read_spec, fibers, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(start_spec, pus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(crowd_spec, beside, pus, pus_beside)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(sim_spec, capacity, producers, fibers, least_work, most_work, items, seed, threads)

/// Adds a point at `x` of a line, which runs `spec` with the number of items that is being measured.
template <class Spec>
configuration& add_point(study& to, const contender& c, std::size_t line, abscissa x, Spec spec) {
  configuration& one = to.configurations.emplace_back();
  one.line = line;
  one.x = std::move(x);
  one.contender = c.name;
  one.spec = spec;
  one.run = [&c, spec = std::move(spec)](std::uint64_t items) {
    Spec now = spec;
    now.items = items;
    return c.run(now);
  };
  return one;
}

/// Selects the points of the profile; quick and smoke share theirs, which should be a subset of the full ones.
std::vector<unsigned> points_of(const setting& s, std::vector<unsigned> full, std::vector<unsigned> quick);

/// 1, 2, 4, … and the number of hardware threads: one carrier each.
std::vector<unsigned> carrier_counts(const placement& place);
/// The same up to eight carriers for each hardware thread; in the quick profile one and four.
std::vector<unsigned> oversubscribed_counts(const setting& s);

/// "dummy iterations (0.61 ns each)": the unit in which local work is given.
std::string work_unit();

/// Adds a point of a stream of items, between processes if the contender supports that and between threads otherwise.
configuration& add_stream_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                                unsigned producers, unsigned consumers);

/// Adds a point of requests and answers, with enough items to fill the queue several times.
configuration& add_exchange_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                                  exchange_spec spec);

/// Adds a point of carriers with fibers. The number of fibers is reduced to the mappings that Linux allows a process.
configuration& add_team_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              team_spec spec);

/// Adds a point of a fork/join program, executed once and checked against its serial version, which runs here once.
configuration& add_fork_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              fork_spec spec);
/// Adds a line for each contender of a topic and each number of workers, with a point for each program.
void add_fork_lines(study& to, const setting& s, topic about, std::span<const char* const> programs);
/// The size of a program in a profile.
std::uint64_t fork_size(std::string_view program, profile kind);

constexpr const char* plain_calls = "plain calls";
/// The name of a line, such as "muster, 2 workers"; plain calls have no workers.
std::string with_workers(const contender& c, unsigned workers);
/// 1, 2, 4, … and the number of hardware threads; for plain calls just 1.
std::vector<unsigned> worker_counts(const contender& c, const placement& place);
/// Removes the line of plain calls and replaces each sample of the others by compare(sample, median of plain calls).
/// Returns false if there is nothing to compare.
bool compare_with_plain_calls(result& r, const std::function<double(double, double)>& compare);
/// For study::finish: adds the chart of speed-ups over plain calls.
std::function<void(std::vector<result>&)> add_speed_up(const char* title);

// --------------------------------------------------------------------------------------------------------- simulations

using simulated_machine = std::shared_ptr<const muster_simulation::machine>;

/// Reads the machine named on the command line, or else this file.
simulated_machine machine_to_simulate(const setting& s, const std::string& file = "eight-clusters.json");
/// Reads the machine named on the command line, or else a known one with this processor, or else this file.
simulated_machine machine_like_this(const setting& s, const std::string& otherwise);
/// A simulation has no noise; this many items make its start-up negligible.
std::uint64_t simulated_items(const setting& s);
/// A program on the first hardware threads of a machine.
sim_spec on_first(unsigned threads, const simulated_machine& machine);
configuration& add_simulated_point(study& to, const contender& c, std::size_t line, abscissa x, const sim_spec& spec);
/// The beginning of the setting of every simulated chart.
std::string told_as_simulated(const muster_simulation::machine& m);

}  // namespace muster::bench
