// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trace.hpp: an execution in words, one line for each step:
//
//   step  thread  place                  operation          location  value
//     12  2       queue/spmc.hpp:141     load acquire       #3        5 (from step 9)
#pragma once

#include "checker/engine.hpp"

#include <string>
#include <vector>

namespace muster_model {

std::string format_trace(const std::vector<step>& steps);

}  // namespace muster_model
