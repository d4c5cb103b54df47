// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// switches.hpp: fibers of one thread that only yield, and the check that they take turns.
//
// A runner calls, on the fiber with number f of n, turns.begin() once and then turns.take(f) before each yield.
#pragma once

#include "driver/contender.hpp"

#include <chrono>
#include <cstdint>

namespace muster::bench {

class turn_taking {
 public:
  explicit turn_taking(const team_spec& spec) : fibers_(spec.fibers), laps_(spec.items / spec.fibers) {}

  /// The number of yields of each fiber.
  std::uint64_t laps() const noexcept { return laps_; }
  void take(unsigned fiber) noexcept {
    wrong_ += fiber == expected_ ? 0 : 1;
    expected_ = fiber + 1 == fibers_ ? 0 : fiber + 1;
    ++taken_;
  }
  void begin() noexcept { begin_ = clock::now(); }
  /// After the last turn.
  void end(outcome& to) const {
    to.seconds = std::chrono::duration<double>(clock::now() - begin_).count();
    to.items = taken_;
    if (taken_ != laps_ * fibers_) to.error = "yields are missing";
    if (wrong_ != 0) to.error = "the fibers do not take turns";
  }

 private:
  using clock = std::chrono::steady_clock;
  const unsigned fibers_;
  const std::uint64_t laps_;
  unsigned expected_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t taken_ = 0;
  clock::time_point begin_{};
};

}  // namespace muster::bench
