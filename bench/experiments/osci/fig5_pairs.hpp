// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fig5_pairs.hpp: what the two halves of Figure 5 of "Lock Oscillation" have in common.
#pragma once

#include "driver/team_points.hpp"

namespace muster::bench {

/// All structures of a topic by the number of kernel threads.
study fig5_pairs(const setting& s, topic about, std::uint64_t prefilled);

}  // namespace muster::bench
