// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// serial_gate.hpp: lets numbered items pass one at a time in the order of their numbers, and no thread waits: an item
// that comes too early stays at the gate, and the thread that lets the item before it leave takes it along.
//
// Each number has a slot, where the item that arrives and the item before, which leaves, meet. The first to come leaves
// its mark, and the second one takes the item through.
//
// Slots      as many as items may be under way at a time, or more. The items that have not passed the gate are
//            consecutive and all under way. So the item that had a slot before has passed when a later number uses it.
// Progress   wait-free: one exchange to enter, and one to leave.
// Killed     a thread that stops inside the gate keeps all later items there.
#pragma once

#include <muster/base/sync.hpp>  // sync::atomic

#include <bit>      // std::bit_ceil
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t
#include <memory>   // the slots

namespace muster::inline MUSTER_ABI::detail {

template <class Item>
class serial_gate {
 public:
  /// For so many items under way at a time. The first has number 0.
  explicit serial_gate(std::size_t most)
      : mask_(std::bit_ceil(most) - 1), slots_(new sync::atomic<Item*>[mask_ + 1] {}) {
    slots_[0].store(open(), std::memory_order_relaxed);
  }

  /// Returns true if the item may pass. Otherwise a later leave() returns it, maybe to another thread, and at once.
  bool enter(Item& item, std::uint64_t number) noexcept {
    // (1) acq_rel: pairs with itself, and with (2). The second to come sees what the first has done before.
    if (slot(number).exchange(&item, std::memory_order_acq_rel) == nullptr) return false;
    slot(number).store(nullptr, std::memory_order_relaxed);  // for a later number, which comes after this item has left
    return true;
  }
  /// The item with this number has passed. Returns the next item if it is at the gate: it may pass.
  Item* leave(std::uint64_t number) noexcept {
    // (2) acq_rel: pairs with (1).
    Item* const next = slot(number + 1).exchange(open(), std::memory_order_acq_rel);
    if (next != nullptr) slot(number + 1).store(nullptr, std::memory_order_relaxed);
    return next;
  }

 private:
  sync::atomic<Item*>& slot(std::uint64_t number) noexcept { return slots_[number & mask_]; }
  /// The mark of the item before; no item is there.
  Item* open() noexcept { return reinterpret_cast<Item*>(this); }

  const std::uint64_t mask_;
  const std::unique_ptr<sync::atomic<Item*>[]> slots_;  // null, the item that waits, or open()
};

}  // namespace muster::inline MUSTER_ABI::detail
