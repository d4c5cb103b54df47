// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// guarded_slots.hpp: answers to callers that are not trusted: a line for each, which the outside writes and never
// reads.
//
// Order      an answer is there when its number is. A caller that has one call at a time sees its answers in order.
// Progress   wait-free on both sides.
// Hostile    Nothing in the slots is read by the outside, so nothing in them can mislead it.
// Killed     an outside that dies leaves no half an answer that counts: the number comes last.
// Memory     a cache line for each caller.
// Source     ours. The paper's responses travel through a queue (FFQ, section V-F), of which the caller's thread takes
//            each and hands it to whose it is; a slot is where it is looked for, and cannot be full.
#pragma once

#include <muster/base/arch.hpp>    // line_size
#include <muster/base/config.hpp>  // MUSTER_HOT
#include <muster/base/sync.hpp>    // sync::atomic

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

/// Zeros when it is made.
struct alignas(line_size) guarded_slot {
  sync::atomic<std::uint64_t> number{0};
  sync::atomic<std::int64_t> result{0};
};

/// For the outside. `number` is the one that the caller waits for; never 0.
MUSTER_HOT void answer(guarded_slot& to, std::uint64_t number, std::int64_t result) noexcept {
  to.result.store(result, std::memory_order_relaxed);
  // (1) release: pairs with (2). With the number the result is found, and what the call has put elsewhere.
  to.number.store(number, std::memory_order_release);
}

/// The slots of a client, as its broker has them: to write to.
class guarded_answers {
 public:
  guarded_answers(guarded_slot* slots, std::uint32_t many) noexcept : slots_(slots), many_(many) {}

  bool has(std::uint32_t slot) const noexcept { return slot < many_; }
  /// To one that is there.
  MUSTER_HOT void give(std::uint32_t slot, std::uint64_t number, std::int64_t result) const noexcept {
    answer(slots_[slot], number, result);
  }

 private:
  guarded_slot* slots_;
  std::uint32_t many_;
};

/// For the caller: whether its answer is there, which is in `result` then.
MUSTER_HOT bool is_answered(const guarded_slot& own, std::uint64_t number, std::int64_t& result) noexcept {
  // (2) acquire: pairs with (1).
  if (own.number.load(std::memory_order_acquire) != number) return false;
  result = own.result.load(std::memory_order_relaxed);
  return true;
}

}  // namespace muster::inline MUSTER_ABI::detail
