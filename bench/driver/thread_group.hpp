// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread_group.hpp: the threads of one run: placed, started together, timed from the start to the end of the last one.
#pragma once

#include "driver/counters.hpp"
#include "driver/outcome.hpp"
#include "driver/placement.hpp"
#include "sim/workloads/wait.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Runs `body(index, line)` on `pus.size()` threads; each body prepares, calls `line.arrive_and_wait()` once, then
/// works. Fills seconds and CPU seconds. An exception ends the process, because the other threads may be waiting for
/// the one that failed; the isolated run reports it. Not a template: there are many contenders, and each compiles only
/// its body.
inline outcome run_crew(const std::vector<int>& pus, const std::function<void(unsigned, start_line&)>& body) {
  using clock = std::chrono::steady_clock;
  const auto threads = static_cast<unsigned>(pus.size());
  start_line line(threads);
  std::vector<clock::time_point> ends(threads);
  outcome result;

  std::vector<std::jthread> group;
  group.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    group.emplace_back([&, i] {
      pin_this_thread(pus[i]);
      body(i, line);
      ends[i] = clock::now();
    });
  }
  line.wait_for_all();
  const double cpu = cpu_seconds();
  const clock::time_point begin = clock::now();
  line.open();
  group.clear();  // joins
  result.cpu_seconds = cpu_seconds() - cpu;
  for (const clock::time_point end : ends) {
    result.seconds = std::max(result.seconds, std::chrono::duration<double>(end - begin).count());
  }
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
