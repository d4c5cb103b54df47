// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// open_count.hpp: how many of the things that a scope keeps have not ended, and how its owner sleeps until all have.
#pragma once

#include <muster/base/sync.hpp>           // sync::atomic
#include <muster/fork/impl/sleepers.hpp>  // parking_place

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class open_count {
 public:
  /// `place`: the owner's, which outlives the count.
  explicit open_count(parking_place& place) noexcept : place_(place) {}
  open_count(const open_count&) = delete;
  open_count& operator=(const open_count&) = delete;

  /// By the owner, or on behalf of something that has not ended.
  void begin() noexcept { open_.fetch_add(1, std::memory_order_relaxed); }
  /// After it nothing of the scope may be touched.
  void end() noexcept {
    parking_place& place = place_;
    // (1) acq_rel: pairs with (2), (3), and with itself: the last one has seen what all have done.
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == awaited + 1) place.unpark();
  }
  /// For the owner.
  bool all_ended() const noexcept {
    // (2) acquire: pairs with (1).
    return open_.load(std::memory_order_acquire) == 0;
  }
  /// For the owner, once, or again after withdraw(): returns true when it may sleep until its place is given a token,
  /// which end() does; false when all have ended already.
  bool may_sleep() noexcept {
    // (3) acquire: pairs with (1).
    return open_.fetch_add(awaited, std::memory_order_acquire) != 0;
  }
  /// For the owner, after may_sleep() has returned true and before it has the token: returns true when no token comes;
  /// false when all have ended, and one comes. Relaxed: then that token tells what they have done.
  bool withdraw() noexcept { return open_.fetch_sub(awaited, std::memory_order_relaxed) != awaited; }
  /// For the owner, when all have ended and it has been given its token: it may sleep once more. Relaxed: nobody else
  /// knows of it.
  void begin_anew() noexcept { open_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t awaited = std::uint64_t{1} << 63U;
  parking_place& place_;
  sync::atomic<std::uint64_t> open_{0};  // and `awaited`, once the owner sleeps
};

}  // namespace muster::inline MUSTER_ABI::detail
