// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine.hpp: describes the machine and the build that a result comes from.
#pragma once

#include "driver/contender.hpp"

#include <nlohmann/json.hpp>

namespace muster::bench {

nlohmann::json describe_machine();

/// The average number of runnable threads over the last minute.
double load_average();

/// Commit, compiler, flags, and the installed version of each peer.
nlohmann::json describe_build(const catalogue& contenders);

}  // namespace muster::bench
