// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// points.hpp: what the rows of the table are made of: charts, lines, points, and other charts of the same runs.
#pragma once

#include "simulate/machine.hpp"
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
inline const axis by_queue_size{"queue size", "entries", "log2", ""};

double nanoseconds_per_item(const outcome& o);
double milliseconds(const outcome& o);
/// What a run has told beside its time.
std::function<double(const outcome&)> told(const char* what);

/// A study without lines.
study chart(std::string setting, axis x, axis y, std::function<double(const outcome&)> value = mega_items,
            std::function<void(std::vector<result>&)> finish = {});

/// For study::finish: other charts of the same runs, each of something that they have told.
struct other_chart {
  const char* suffix;
  const char* title;
  axis y;
  const char* what;
};
std::function<void(std::vector<result>&)> add_charts(std::vector<other_chart> all);

/// Another chart of the same runs, whose samples are changed one by one.
void add_changed(std::vector<result>& results, const char* suffix, const char* title, axis y,
                 const std::function<void(const series&, point&)>& change);

/// A line of one value, to compare with: where all others have points.
void add_constant(result& to, const char* name, double value, const char* note);

// --------------------------------------------------------------------------------------------------------------- lines

/// A peer that is no FIFO of all items is a baseline where that matters.
std::size_t add_line_in_order(study& to, const contender& c);
/// A line with another name.
std::size_t add_line_as(study& to, const contender& c, std::string name, std::string note = {});
/// Such as "64 fibers per carrier", for the note of a line.
std::string with_fibers(const contender& c);

// -------------------------------------------------------------------------------------------------------------- points

/// Adds a point: `spec`, with as many items as are measured, at `x` of a line. Returns it, for those who want more.
template <class Spec>
configuration& add_point(study& to, const contender& c, std::size_t line, abscissa x, Spec spec) {
  configuration& one = to.configurations.emplace_back();
  one.line = line;
  one.x = std::move(x);
  one.run = [&c, spec = std::move(spec)](std::uint64_t items) {
    Spec now = spec;
    now.items = items;
    return c.run(now);
  };
  return one;
}

/// The points of a profile: full, quick (also smoke). Those of quick should be among those of full.
std::vector<unsigned> points_of(const setting& s, std::vector<unsigned> full, std::vector<unsigned> quick);

/// 1, 2, 4, … and the number of hardware threads: one carrier each.
std::vector<unsigned> carrier_counts(const placement& place);
/// The same up to eight carriers for each hardware thread; in the quick profile one and four.
std::vector<unsigned> oversubscribed_counts(const setting& s);

/// "dummy iterations (0.61 ns each)": the unit in which local work is given.
std::string work_unit();

/// A queue between threads, or, of a contender that has it, between processes.
configuration& add_stream_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                                unsigned producers, unsigned consumers);

/// Requests and answers; queues are filled some times over.
configuration& add_exchange_point(study& to, const contender& c, std::size_t line, abscissa x, exchange_spec spec,
                                  bool maybe_slow);

/// Carriers with fibers. Where these are too many for the mappings that Linux allows to a process, there are fewer.
configuration& add_team_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              team_spec spec);

/// A program that forks, executed once, and checked against the serial program, which is executed here the first time.
configuration& add_fork_point(study& to, const setting& s, const contender& c, std::size_t line, abscissa x,
                              fork_spec spec);
/// Adds a line for each contender of a topic and each number of workers, with a point for each program.
void add_fork_lines(study& to, const setting& s, topic about, std::span<const char* const> programs);
/// The size of a program in a profile.
std::uint64_t fork_size(std::string_view program, profile kind);

constexpr const char* plain_calls = "plain calls";
/// Such as "muster, 2 workers"; plain calls have none.
std::string with_workers(const contender& c, unsigned workers);
/// 1, 2, 4, … and the number of hardware threads; for plain calls just 1.
std::vector<unsigned> worker_counts(const contender& c, const placement& place);
/// Leaves the plain calls out, and replaces each sample of the others by compare(sample, median of the plain calls).
/// Returns false when there is nothing to compare.
bool compare_with_plain_calls(result& r, const std::function<double(double, double)>& compare);
/// Another chart of the same runs, which have been timed: how many times as fast as the plain calls.
std::function<void(std::vector<result>&)> add_speed_up(const char* title);

// --------------------------------------------------------------------------------------------------------- simulations

using simulated_machine = std::shared_ptr<const muster_simulation::machine>;

/// The machine that the command line names, or else the one of that file.
simulated_machine machine_to_simulate(const setting& s, const std::string& file = "eight-clusters.json");
/// The machine that the command line names, or else the first with this processor, or else the one of that file.
simulated_machine machine_like_this(const setting& s, const std::string& otherwise);
/// How many items suffice: a simulation has no noise, but it should be long against its beginning.
std::uint64_t simulated_items(const setting& s);
/// A program on the first hardware threads of a machine.
model_spec on_first(unsigned threads, const simulated_machine& machine);
configuration& add_simulated_point(study& to, const contender& c, std::size_t line, abscissa x, const model_spec& spec);
/// How a chart of a simulation begins to say what it shows.
std::string told_as_simulated(const muster_simulation::machine& m);

}  // namespace muster::bench
