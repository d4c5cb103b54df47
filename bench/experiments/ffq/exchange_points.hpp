// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// exchange_points.hpp: points of the FFQ paper's micro-benchmark (driver/request.hpp).
#pragma once

#include "driver/experiment.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::bench {

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
