// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mapped_places.hpp: where this process has the memory of its anonymous queues: one address for each mapping.
#pragma once

#include <cstdint>
#include <fstream>
#include <set>
#include <string>

namespace muster_test {

inline std::set<std::uintptr_t> mapped_places() {
  std::set<std::uintptr_t> starts;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:muster") != line.npos) starts.insert(std::stoull(line, nullptr, 16));
  return starts;
}

}  // namespace muster_test
