// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// selection.hpp: --only.
#pragma once

#include "driver/contender.hpp"

#include <string>
#include <vector>

namespace muster::bench {

/// Keeps the contenders whose name or family is among `wanted`, without regard to case; all when it is empty.
/// Throws std::invalid_argument for a name that is not there, saying why when the peer is known but not installed.
void keep_only(catalogue& contenders, const std::vector<std::string>& wanted);

}  // namespace muster::bench
