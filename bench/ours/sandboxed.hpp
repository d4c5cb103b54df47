// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sandboxed.hpp: runs sandboxes on the processors that an experiment names.
#pragma once

#include <muster/syscall/sandbox.hpp>

#include <sched.h>
#include <algorithm>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Lets the inside run on these units. A list that is empty, or contains -1, changes nothing.
inline void pin_inside(const sandbox& box, const std::vector<int>& units) {
  if (units.empty() || std::find(units.begin(), units.end(), -1) != units.end()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int unit : units) CPU_SET(static_cast<std::size_t>(unit), &set);
  ::sched_setaffinity(box.process(), sizeof set, &set);
}

}  // namespace muster::bench::inline MUSTER_ABI
