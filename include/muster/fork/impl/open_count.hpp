// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// open_count.hpp: counts the queued asyncs of a scope that have not ended; the owner can sleep until all have.
#pragma once

#include <muster/base/sync.hpp>           // sync::atomic
#include <muster/fork/impl/sleepers.hpp>  // parking_place

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class open_count {
 public:
  /// `place`: the owner's; it must outlive the count.
  explicit open_count(parking_place& place) noexcept : place_(place) {}
  open_count(const open_count&) = delete;
  open_count& operator=(const open_count&) = delete;

  /// Called by the owner, or by an async that has not ended.
  void begin() noexcept { open_.fetch_add(1, std::memory_order_relaxed); }
  /// The caller must not access the scope afterwards.
  void end() noexcept {
    parking_place& place = place_;
    // (1) acq_rel: pairs with (2), (3), and with itself: the last call has seen the effects of all others.
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == awaited + 1) place.unpark();
  }
  /// For the owner.
  bool all_ended() const noexcept {
    // (2) acquire: pairs with (1).
    return open_.load(std::memory_order_acquire) == 0;
  }
  /// For the owner, once, or again after withdraw(). Returns true if it may sleep until end() gives its place a token;
  /// false if all have ended already.
  bool may_sleep() noexcept {
    // (3) acquire: pairs with (1).
    return open_.fetch_add(awaited, std::memory_order_acquire) != 0;
  }
  /// For the owner, after may_sleep() has returned true and before it has the token. Returns true if no token will
  /// come; false if all have ended and a token comes. Relaxed: taking that token acquires their effects.
  bool withdraw() noexcept { return open_.fetch_sub(awaited, std::memory_order_relaxed) != awaited; }
  /// For the owner, after all have ended and it has taken its token: it may sleep again later. Relaxed: no other thread
  /// uses the count now.
  void begin_anew() noexcept { open_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t awaited = std::uint64_t{1} << 63U;
  parking_place& place_;
  sync::atomic<std::uint64_t> open_{0};  // plus `awaited` once the owner sleeps
};

}  // namespace muster::inline MUSTER_ABI::detail
