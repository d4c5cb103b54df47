// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// team_points.hpp: what the experiments with fibers have in common: which points each profile measures, and how a point
// becomes a configuration.
#pragma once

#include "driver/experiment.hpp"

#include <string>
#include <vector>

namespace muster::bench {

/// The points of a profile: full, quick (also smoke). Those of quick should be among those of full.
std::vector<unsigned> points_of(profile kind, std::vector<unsigned> full, std::vector<unsigned> quick);

/// 1, 2, 4, … and the number of hardware threads: one carrier each.
std::vector<unsigned> carrier_counts(const placement& place);
/// The same up to eight carriers for each hardware thread; in the quick profile one and four.
std::vector<unsigned> oversubscribed_counts(const setting& s);

/// Adds a point: `c` with so many carriers and fibers. Where these are too many for the mappings that Linux allows to a
/// process, there are fewer fibers.
void add_team_point(study& to, const contender& c, std::size_t line, abscissa x, team_spec spec,
                    const placement& place);

/// Such as "64 fibers per carrier", for the note of a line.
std::string with_fibers(const contender& c);

/// "dummy iterations (0.61 ns each)": the unit in which local work is given.
std::string work_unit();

}  // namespace muster::bench
