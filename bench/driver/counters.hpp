// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counters.hpp: processor time, peak memory, and, where the processor's counters may be read, instructions, cycles,
// cache misses and stalled cycles of a run.
#pragma once

#include "driver/outcome.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::bench {

/// Counts in all threads that the calling thread starts afterwards, in user mode.
class hardware_events {
 public:
  explicit hardware_events(bool wanted);
  hardware_events(const hardware_events&) = delete;
  hardware_events& operator=(const hardware_events&) = delete;
  ~hardware_events();

  /// The number of counters. All are per operation: "instructions", "cycles", "l1 misses", "last-level reads", "cache
  /// misses" (of the last level), "stalled cycles".
  static constexpr std::size_t kinds = 6;
  /// Adds the available counts to the details. If the processor cannot count all of them at once, each is counted for
  /// part of the time and scaled up.
  void add_to(outcome& result, std::uint64_t operations) const;

  /// Why this machine cannot count; empty if it can count instructions, cycles and cache misses.
  static std::string why_not();

 private:
  std::array<int, kinds> files_{-1, -1, -1, -1, -1, -1};
};

/// User and system time of all threads of this process so far.
double cpu_seconds();
/// The same for the processes that it has started and waited for.
double cpu_seconds_of_children();

/// Makes the next peak_memory() count from now, if the kernel allows it.
void reset_peak_memory();

/// The most bytes resident in this process since reset_peak_memory() (or since its start if that is refused).
std::uint64_t peak_memory();

}  // namespace muster::bench
