// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counters.hpp: processor time, peak memory, and, where the processor may be asked, instructions, cycles, cache misses
// and stalled cycles of a run.
#pragma once

#include "driver/outcome.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::bench {

/// Counts in all threads that the calling thread makes afterwards, in user mode.
class hardware_events {
 public:
  explicit hardware_events(bool wanted);
  hardware_events(const hardware_events&) = delete;
  hardware_events& operator=(const hardware_events&) = delete;
  ~hardware_events();

  /// What is counted, all per operation: "instructions", "cycles", "l1 misses", "last-level reads", "cache misses" (of
  /// the last level), "stalled cycles".
  static constexpr std::size_t kinds = 6;
  /// Adds those that can be had to the details. With more than the processor counts at once, each is counted for a part
  /// of the time, and told as if for all of it.
  void add_to(outcome& result, std::uint64_t operations) const;

  /// Why this machine cannot count; empty when it can count instructions, cycles and cache misses.
  static std::string why_not();

 private:
  std::array<int, kinds> files_{-1, -1, -1, -1, -1, -1};
};

/// User and system time of all threads of this process so far.
double cpu_seconds();
/// The same of the processes that it has started and waited for.
double cpu_seconds_of_children();

/// Makes the next peak_memory() count from now, where the kernel allows it.
void reset_peak_memory();

/// Most bytes this process had resident since reset_peak_memory() (or since its start where that is refused).
std::uint64_t peak_memory();

}  // namespace muster::bench
