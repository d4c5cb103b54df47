// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// guarded_slots.hpp: answers to untrusted callers: a line for each, which the outside writes and never reads.
//
// Order      an answer is valid once its number is there. A caller with one call at a time sees its answers in order.
// Progress   wait-free on both sides.
// Hostile    The outside reads nothing in the slots, so they cannot mislead it.
// Killed     a dead outside leaves no partial answer: the number is written last.
// Memory     a cache line per caller.
// Source     ours. The paper's responses travel through a queue (FFQ, section V-F), from which the caller's thread
//            hands each to its owner. Here the owner reads its own slot, which cannot be full.
#pragma once

#include <muster/base/arch.hpp>    // line_size
#include <muster/base/config.hpp>  // MUSTER_HOT
#include <muster/base/sync.hpp>    // sync::atomic

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

/// Initially zero.
struct alignas(line_size) guarded_slot {
  sync::atomic<std::uint64_t> number{0};
  sync::atomic<std::int64_t> result{0};
};

/// For the outside. `number` is the one that the caller waits for; never 0.
MUSTER_HOT void answer(guarded_slot& to, std::uint64_t number, std::int64_t result) noexcept {
  to.result.store(result, std::memory_order_relaxed);
  // (1) release: pairs with (2). The result, and data written elsewhere by the call, are visible with the number.
  to.number.store(number, std::memory_order_release);
}

/// The broker's write-only view of its client's slots.
class guarded_answers {
 public:
  guarded_answers(guarded_slot* slots, std::uint32_t many) noexcept : slots_(slots), many_(many) {}

  bool has(std::uint32_t slot) const noexcept { return slot < many_; }
  /// Requires has(slot).
  MUSTER_HOT void give(std::uint32_t slot, std::uint64_t number, std::int64_t result) const noexcept {
    answer(slots_[slot], number, result);
  }

 private:
  guarded_slot* slots_;
  std::uint32_t many_;
};

/// For the caller: returns true if its answer is there, and stores it in `result`.
MUSTER_HOT bool is_answered(const guarded_slot& own, std::uint64_t number, std::int64_t& result) noexcept {
  // (2) acquire: pairs with (1).
  if (own.number.load(std::memory_order_acquire) != number) return false;
  result = own.result.load(std::memory_order_relaxed);
  return true;
}

}  // namespace muster::inline MUSTER_ABI::detail
