// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// table.hpp: a result as text: medians by series and x, and what became of the promises.
#pragma once

#include "driver/result.hpp"

#include <string>

namespace muster::bench {

/// Without verdicts, nothing is compared: for runs too short to mean anything.
std::string table(const result& r, bool with_verdicts);

}  // namespace muster::bench
