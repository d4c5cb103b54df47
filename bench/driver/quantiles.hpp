// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// quantiles.hpp: what a run reports of its latencies.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::bench {

/// Of latencies in nanoseconds, of which there is at least one.
inline std::map<std::string, double> quantiles(std::vector<std::uint64_t> times, const std::string& prefix = "") {
  std::sort(times.begin(), times.end());
  const auto last = static_cast<double>(times.size() - 1);
  const auto at = [&](double f) { return static_cast<double>(times[static_cast<std::size_t>(f * last + 0.5)]); };
  return {
      {prefix + "p50", at(0.5)}, {prefix + "p99", at(0.99)}, {prefix + "p99.9", at(0.999)}, {prefix + "max", at(1)}};
}

/// Nanoseconds since then.
inline std::uint64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  return static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1));
}

}  // namespace muster::bench
