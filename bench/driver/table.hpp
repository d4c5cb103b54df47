// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// table.hpp: a result as text: medians by series and x.
#pragma once

#include "driver/result.hpp"

#include <string>

namespace muster::bench {

std::string table(const result& r);

}  // namespace muster::bench
