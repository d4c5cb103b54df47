// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// points.hpp: what the experiments with fork/join programs have in common.
#pragma once

#include "driver/experiment.hpp"
#include "driver/team_points.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

/// The size of a program in a profile.
std::uint64_t fork_size(std::string_view program, profile kind);

/// Adds a point: `spec` executed once, and checked against the serial program, which is executed here the first time.
/// Returns it, for those who want something else.
configuration& add_fork_point(study& to, const contender& c, std::size_t line, abscissa x, fork_spec spec,
                              const placement& place);

/// Adds a line for each contender of a topic and each number of workers, with a point for each program.
void add_fork_lines(study& to, const setting& s, topic about, std::span<const char* const> programs);

/// Such as "muster, 2 workers"; plain calls have none.
std::string with_workers(std::string_view name, unsigned workers);
std::string with_workers(const contender& c, unsigned workers);
/// 1, 2, 4, … and the number of hardware threads; for plain calls just 1.
std::vector<unsigned> worker_counts(const contender& c, const placement& place);

constexpr const char* plain_calls = "plain calls";

/// Leaves the plain calls out, and replaces each sample of the others by compare(sample, median of the plain calls).
/// Returns false when there is nothing to compare.
bool compare_with_plain_calls(result& r, const std::function<double(double, double)>& compare);

/// Another chart of the same runs, which have been timed: how many times as fast as the plain calls.
void add_speed_up(std::vector<result>& results, const char* title);

/// A line of one value, to compare with: where all others have points.
void add_constant(result& to, const char* name, double value, const char* note);

}  // namespace muster::bench
