// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counts.hpp: one number that all threads add 1 to, each of which learns the value before, on simulated threads and,
// from one text, on real ones (queues.hpp describes a group of threads).
#pragma once

#include "sim/workloads/serving.hpp"
#include "sim/workloads/spec.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Returns the mistake in the values that each thread got; empty if they are 0, 1, … without gaps, `total` in number.
inline std::string wrong_counts(const std::vector<std::vector<std::uint64_t>>& seen, std::uint64_t total) {
  std::vector<bool> found(total);
  std::uint64_t many = 0;
  for (const auto& own : seen) {
    for (const std::uint64_t value : own) {
      if (value >= total || found[value]) return "a value is too large, or two threads have the same";
      found[value] = true;
    }
    many += own.size();
  }
  return many == total ? "" : "a value is missing";
}

/// All fibers of all threads count: sim_shared() with std::uint64_t count().
template <class ThreadGroup, class Object>
auto sim_count(const sim_spec& spec) {
  ThreadGroup group(spec);
  const auto object = std::make_unique<Object>(spec);
  std::vector<std::vector<std::uint64_t>> seen(spec.threads.size());
  for (auto& own : seen) own.reserve(2 * spec.items / spec.threads.size() + spec.fibers);
  auto result =
      sim_shared(group, spec, *object, [&](auto& mine, unsigned thread) { seen[thread].push_back(mine.count()); });
  result.error = wrong_counts(seen, spec.items);
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
