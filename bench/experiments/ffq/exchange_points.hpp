// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// exchange_points.hpp: points of the FFQ paper's micro-benchmark (driver/request.hpp), and where the paper lets its
// threads run.
#pragma once

#include "driver/experiment.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace muster::bench {

struct affinity {
  const char* name;
  policy how;
  unsigned cores;  // that a pair uses
};
inline constexpr affinity sibling_thread{"sibling thread", policy::sibling, 1},
    same_thread{"same thread", policy::same_thread, 1}, other_core{"other core", policy::same_l3, 2},
    no_affinity{"no affinity", policy::none, 2};
inline constexpr std::array affinities{sibling_thread, same_thread, other_core, no_affinity};

/// Adds a point: `spec`, with as many items as are measured, at `x` of a line. Queues are filled some times over.
inline void add_exchange_point(study& to, const contender& c, std::size_t line, abscissa x, exchange_spec spec,
                               bool maybe_slow) {
  configuration one;
  one.line = line;
  one.x = std::move(x);
  one.least_items = 4 * spec.capacity;
  one.maybe_slow = maybe_slow;
  one.run = [&c, spec](std::uint64_t items) {
    exchange_spec now = spec;
    now.items = items;
    return c.exchange(now);
  };
  to.configurations.push_back(std::move(one));
}

}  // namespace muster::bench
