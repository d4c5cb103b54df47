// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shares.hpp: Fetch&Multiply by threads that use one object for a fixed time: how long operations take, the rare ones
// among them, and how evenly the threads come to theirs. (If each thread had a fixed number of operations, a thread
// that starves would have the object to itself in the end.)
//
// An object takes part through the adapter of driver/concurrent_object.hpp; the check is the same.
#pragma once

#include "driver/concurrent_object.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// The measured loop of a thread. Returns how many operations it has had.
template <class Handle>
std::uint64_t multiply_until(Handle& mine, const share_spec& spec, std::uint64_t seed, sighting& seen,
                             const std::atomic<bool>& over) {
  using clock = std::chrono::steady_clock;
  constexpr unsigned one_in = 16;
  local_work work(1, spec.work, seed);
  dice choose(~seed);
  std::uint64_t sum = 0, n = 0;
  for (; !over.load(std::memory_order_relaxed); ++n) {
    if (choose.below(one_in) != 0) {
      sum += std::bit_cast<std::uint32_t>(mine.multiply());
    } else {
      const clock::time_point begin = clock::now();
      sum += std::bit_cast<std::uint32_t>(mine.multiply());
      seen.times.push_back(nanoseconds_since(begin));
    }
    work();
  }
  seen.sum = sum;
  return n;
}

template <class Object>
outcome run_shares(const share_spec& spec) {
  const auto threads = static_cast<unsigned>(spec.pus.size());
  const team_spec team{.carriers = threads, .work = spec.work, .pus = spec.pus};
  team_turn::crowded = shares_processors(spec.pus);
  std::vector<sighting> seen(threads);
  for (sighting& one : seen) one.times.reserve(1U << 16U);
  std::vector<std::uint64_t> had(threads);
  const auto object = std::make_unique<Object>(team);
  std::atomic<bool> over{false};
  std::vector<int> pus = spec.pus;
  pus.push_back(-1);  // of the thread that ends the run
  outcome result = run_crew(pus, [&](unsigned i, start_line& line) {
    if (i == threads) {
      line.arrive_and_wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(spec.milliseconds));
      over.store(true, std::memory_order_relaxed);
      return;
    }
    decltype(auto) mine = handle_of(*object, i, 0U);
    line.arrive_and_wait();
    had[i] = multiply_until(mine, spec, i, seen[i], over);
  });
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < threads; ++i) {
    result.items += had[i];
    sum += seen[i].sum;
  }
  if (sum != expected_sum(result.items)) result.error = "the results are not those of operations one after another";
  add_latency(result, seen);
  result.detail["throughput"] = static_cast<double>(result.items) / result.seconds * 1e-6;
  result.detail["least share"] = static_cast<double>(*std::min_element(had.begin(), had.end())) * threads /
                                 static_cast<double>(std::max<std::uint64_t>(result.items, 1));
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
