// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loop_pace.hpp: how often a loop looks whether somebody asks for work.
#pragma once

#include <muster/base/arch.hpp>    // cycles
#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// How many turns are executed between two looks, so that a look comes every few microseconds. The first ones are
/// executed one by one, so that the clock is not read for loops of a few turns.
class loop_pace {
 public:
  explicit loop_pace(std::size_t grain) noexcept : turns_(grain == 0 ? 1 : grain), unmeasured_(grain == 0 ? few : 0) {}
  std::size_t turns() const noexcept { return turns_; }
  /// Whether turns may be left for later when somebody asks meanwhile.
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
  /// Half a word: loops lie within loops. It begins anew after a second or two, and a piece that takes as long may be
  /// thought short, once.
  static std::uint32_t clock() noexcept { return static_cast<std::uint32_t>(cycles()) | 1U; }

  std::size_t turns_;
  std::uint32_t unmeasured_;
  std::uint32_t last_ = 0;  // 0: not measured
};

}  // namespace muster::inline MUSTER_ABI::detail
