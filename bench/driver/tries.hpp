// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// tries.hpp: operations that never wait: try_push on a full queue, try_pop on an empty one, both in turns on one that
// is half full. Each thread is a producer and a consumer; producers of driver/stream.hpp need try_push(item) as well.
//
// The check: what was popped, during the run and after it, is what was pushed; and no push into a full queue succeeds.
#pragma once

#include "driver/shared_pairs.hpp"
#include "driver/stream.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <vector>

namespace muster::bench {

template <class Q>
outcome run_tries(const try_spec& spec) {
  constexpr std::size_t capacity = 4096;
  const auto threads = static_cast<unsigned>(spec.pus.size());
  const bool pushes = spec.state != fullness::empty;
  const bool pops = spec.state != fullness::full;
  std::vector<traffic> seen(threads);
  std::vector<std::uint64_t> done(threads);  // what fails in a full or an empty queue, what succeeds in another
  std::mutex one_by_one;
  std::atomic<bool> overfull{false};

  reset_peak_memory();
  const auto queue = std::make_unique<Q>(capacity, threads, threads);
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    decltype(auto) to = producer_of(*queue, index);
    decltype(auto) from = consumer_of(*queue, index);
    traffic own;
    std::uint64_t sent = 0;
    const auto push = [&] {
      const item value = make_item(index, sent + 1);
      if (!to.try_push(value)) return false;
      ++sent;
      own.pushed(value);
      return true;
    };
    {
      const std::lock_guard<std::mutex> lock(one_by_one);
      const std::uint64_t share = pops ? capacity / 2 / threads : 16 * capacity;  // more than any queue should take
      while (pushes && sent < share && push()) {
      }
    }
    std::uint64_t failed = 0;
    const std::uint64_t rounds = spec.items / threads / (pushes && pops ? 2 : 1) + 1;
    line.arrive_and_wait();
    for (std::uint64_t n = 0; n < rounds; ++n) {
      if (pushes && !push()) ++failed;
      if (!pops) continue;
      item value = 0;
      if (from.try_pop(value)) own.popped(value);
      else ++failed;
    }
    done[index] = pushes && pops ? 2 * rounds - failed : failed;
    seen[index] = own;
    if (!pops && failed != rounds) overfull.store(true, std::memory_order_relaxed);
  });
  result.peak_memory = peak_memory();
  result.items = std::accumulate(done.begin(), done.end(), std::uint64_t{0});
  decltype(auto) rest = consumer_of(*queue, 0);
  for (item value = 0; rest.try_pop(value);) seen[0].popped(value);
  result.error = overfull ? "a push into a full queue succeeded" : judge_traffic(seen);
  return result;
}

}  // namespace muster::bench
