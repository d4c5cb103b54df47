// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/claim_order.hpp: whether a pop of a queue with many consumers claims a rank before its item is there.
//
// A ticket, which is a claim in advance, costs one fetch-add, and nothing can overtake it. But its item waits for this
// one consumer. If several consumers sleep with tickets, because they are more than the processors or the items, every
// item wakes another of them, although one that is awake could take it: that is 10 times slower. So for a while after
// such a sleep, pops wait for an item first, and then claim it.
#pragma once

#include <muster/base/detail/native.hpp>  // native::atomic

namespace muster::inline MUSTER_ABI::detail {

/// The consumers of a queue share one object.
class claim_order {
 public:
  bool is_ticket_first() const noexcept { return item_first_.load(std::memory_order_relaxed) == 0; }
  /// Call when a consumer with a ticket is about to sleep, while others wait with tickets too.
  void note_crowd() noexcept { item_first_.store(pops, std::memory_order_relaxed); }
  /// Call at each pop that waits for an item first.
  void note_pop() noexcept {
    const unsigned left = item_first_.load(std::memory_order_relaxed);
    if (left != 0) item_first_.store(left - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned pops = 1024;

  // How many pops will still wait for an item first. Relaxed: a hint, which the model checker need not see. If two
  // threads store at once, one store is lost.
  native::atomic<unsigned> item_first_{0};
};

}  // namespace muster::inline MUSTER_ABI::detail
