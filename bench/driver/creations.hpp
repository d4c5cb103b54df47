// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// creations.hpp: how long it takes to make a fiber, and how many there can be at once, for fiber/create.
//
// A contender is a class whose objects hold fibers that have not begun, up to the number that the constructor gets:
// add() makes one, or throws if the system has no more; end() lets all run and joins them; ran() is the number that
// have run. The objects for them exist before. Every stack has as many bytes. A stack that has no guard, although it
// should, does not count as held at once.
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/thread_group.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <string>

namespace muster::bench::inline MUSTER_ABI {

inline constexpr std::size_t bytes_of_stack = std::size_t{256} << 10U;

/// The mappings of this process that nothing may access.
inline std::uint64_t inaccessible_mappings() {
  std::ifstream all("/proc/self/maps");
  std::uint64_t found = 0;
  for (std::string line; std::getline(all, line);) found += line.find(" ---p ") != std::string::npos ? 1 : 0;
  return found;
}

template <class Crowd>
outcome run_creations(const create_spec& spec) {
  using clock = std::chrono::steady_clock;
  outcome measured;
  const outcome all = run_crew(spec.pus, [&](unsigned, start_line& line) {
    Crowd crowd(spec.what == creation::again ? 1 : spec.items);
    line.arrive_and_wait();
    if (spec.what == creation::again) {
      for (int before = 0; before < 100; ++before) {
        crowd.add();
        crowd.end();
      }
      const clock::time_point begin = clock::now();
      for (std::uint64_t n = 0; n < spec.items; ++n) {
        crowd.add();
        crowd.end();
      }
      measured.seconds = std::chrono::duration<double>(clock::now() - begin).count();
      measured.items = spec.items;
      if (crowd.ran() != spec.items + 100) measured.error = "some have not run";
      return;
    }
    reset_peak_memory();
    const std::uint64_t before = peak_memory();
    const clock::time_point begin = clock::now();
    try {
      while (measured.items < spec.items) {
        crowd.add();
        ++measured.items;
      }
    } catch (const std::exception& e) {
      if (spec.what == creation::first) measured.error = e.what();
    }
    measured.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    std::uint64_t held = measured.items;
    // A library may have ignored that the kernel refused some of them.
    if constexpr (requires { Crowd::guards_are_mappings; })
      if (Crowd::guards_are_mappings) held = std::min(held, inaccessible_mappings());
    crowd.end();
    if (crowd.ran() != measured.items) measured.error = "some have not run";
    if (spec.what != creation::at_once) return;
    measured.detail["held"] = static_cast<double>(held);
    measured.detail["bytes"] =
        static_cast<double>(peak_memory() - before) / static_cast<double>(std::max<std::uint64_t>(measured.items, 1));
  });
  measured.cpu_seconds = all.cpu_seconds;
  measured.peak_memory = peak_memory();
  return measured;
}

}  // namespace muster::bench::inline MUSTER_ABI
