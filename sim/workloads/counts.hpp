// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counts.hpp: one number that all threads add 1 to, each of which learns the value before, on simulated threads and,
// from one text, on real ones (queues.hpp describes a group of threads).
#pragma once

#include "sim/workloads/serving.hpp"
#include "sim/workloads/spec.hpp"

#include <muster/fiber/fiber.hpp>  // fiber

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

/// All fibers of all threads count, with work between. Object(const sim_spec&), and
/// Object::handle(Object&, unsigned thread, unsigned fiber), or else Object, with std::uint64_t count(). If it has
/// serve(), which returns after stop(), the last thread calls that instead (serving.hpp).
template <class ThreadGroup, class Object>
auto sim_count(const sim_spec& spec) {
  ThreadGroup group(spec);
  const auto object = std::make_unique<Object>(spec);
  serving_thread server(*object, spec);
  const std::size_t all = server.others() * spec.fibers;
  std::vector<std::vector<std::uint64_t>> seen(spec.threads.size());
  for (auto& own : seen) own.reserve(2 * spec.items / spec.threads.size() + spec.fibers);
  auto result = group.run([&](unsigned index, auto& hand) {
    if (server.is(index)) return server.run();
    const auto last = server.client();
    const auto count_all = [&, index](unsigned fiber) {
      decltype(auto) mine = handle_of(*object, index, fiber);
      for (std::uint64_t n = model_share(spec, index * spec.fibers + fiber, all); n != 0; --n) {
        seen[index].push_back(mine.count());
        hand.delay();
      }
    };
    hand.start();
    if (spec.fibers == 1) return count_all(0);
    std::vector<fiber> fibers;
    fibers.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) fibers.emplace_back(count_all, f);
  });
  result.items = spec.items;
  result.error = wrong_counts(seen, spec.items);
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
