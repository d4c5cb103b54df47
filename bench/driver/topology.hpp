// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// topology.hpp: the machine's processing units and caches, as hwloc sees them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::bench {

struct unit {
  int number;  // the operating system's number
  int core;    // equal for the hardware threads of one core
  int l3;      // equal for units under one L3 (or under one package where no L3 is reported)
};

/// The units this process may run on, in the machine's order. Never empty.
std::vector<unit> allowed_units();

unsigned core_count();
unsigned unit_count();

/// L1 for data, L2 and L3 of the first unit.
struct cache {
  std::uint64_t size = 0;  // bytes; 0: there is none, or it is not known
  int sharers = 0;         // units
};
std::array<cache, 3> caches();

/// For example "L1d 48 KiB, L2 2 MiB, L3 32 MiB shared by 8".
std::string describe_caches();

}  // namespace muster::bench
