// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loop_pace.hpp: how often a loop checks for requests for work.
#pragma once

#include <muster/base/arch.hpp>    // cycles
#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// The number of turns between two checks, adapted so that a loop checks every few microseconds. The first turns run
/// one by one, so that a loop of few turns does not read the clock.
class loop_pace {
 public:
  explicit loop_pace(std::size_t grain) noexcept : turns_(grain == 0 ? 1 : grain), unmeasured_(grain == 0 ? few : 0) {}
  std::size_t turns() const noexcept { return turns_; }
  /// True if a piece may stop early when a thief asks.
  bool measured() const noexcept { return unmeasured_ != 0 || last_ != 0; }
  void after_turns() noexcept {
    if (unmeasured_ != 0) {
      if (--unmeasured_ == 0) last_ = clock();
      return;
    }
    if (last_ == 0) return;
    const std::uint32_t now = clock();
    if (now - last_ < little && turns_ < most) {
      turns_ *= 4;
    } else if (now - last_ > much && turns_ > 1) {
      turns_ /= 2;
    }
    last_ = now;
  }

 private:
  static constexpr std::uint32_t few = 16;
  static constexpr std::size_t most = std::size_t{1} << 16U;
  static constexpr std::uint32_t little = 6'000, much = 48'000;  // cycles(): 2 and 16 microseconds at 3 GHz
  /// 32 bits, because nested loops each store one. It wraps after a second or two; a piece that takes as long may be
  /// mistaken for a short one, once.
  static std::uint32_t clock() noexcept { return static_cast<std::uint32_t>(cycles()) | 1U; }

  std::size_t turns_;
  std::uint32_t unmeasured_;
  std::uint32_t last_ = 0;  // 0: not measured
};

}  // namespace muster::inline MUSTER_ABI::detail
