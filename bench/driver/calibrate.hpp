// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// calibrate.hpp: measures the values of a machine file on this machine.
#pragma once

#include "driver/placement.hpp"
#include "sim/cache/machine.hpp"

namespace muster::bench {

/// Takes some seconds. Throws std::invalid_argument if the process may not use two cores.
muster_simulation::machine calibrate(const placement& place);

}  // namespace muster::bench
