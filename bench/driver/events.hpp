// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// events.hpp: cache misses and stalled cycles of a run, counted by the processor where we may ask it.
#pragma once

#include "driver/outcome.hpp"

#include <array>
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

  /// Adds "cache misses" and "stalled cycles" per operation to the details, those that can be had.
  void add_to(outcome& result, std::uint64_t operations) const;

  /// Why this machine cannot count; empty when it can count cache misses.
  static std::string why_not();

 private:
  std::array<int, 2> files_{-1, -1};
};

}  // namespace muster::bench
