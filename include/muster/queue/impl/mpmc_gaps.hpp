// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/mpmc_gaps.hpp: the definitions of what mpmc_queue does with ranks that have no item. The cases are at the top of
// impl/mpmc.hpp.
#pragma once

#include <muster/queue/impl/mpmc.hpp>  // the macros

namespace muster::inline MUSTER_ABI {

// No item will have this rank, unless its producer is writing it already.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::make_gap(rank_t rank) noexcept {
  cell& c = at(rank);
  rank_t known = c.gap.load(std::memory_order_relaxed);
  while (before(known, rank)) {
    // (3) relaxed: alone, as (2) and (5) meet in its value, and nobody needs what its maker knew.
    if (c.gap.compare_exchange_weak(known, rank, std::memory_order_relaxed, std::memory_order_relaxed)) break;
  }
  gaps_[gaps_made_.fetch_add(1, std::memory_order_relaxed) % gap_count_].store(rank, std::memory_order_relaxed);
  rank_t end = gaps_end_.load(std::memory_order_relaxed);
  while (!before(rank, end) &&
         !gaps_end_.compare_exchange_weak(end, rank + step, std::memory_order_relaxed, std::memory_order_relaxed)) {
  }
  signal_rank(rank);
  signal_room();  // a gap takes no place
}

// Frees the cell of a claimed rank that is a gap.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::give_back(rank_t rank) noexcept {
  at(rank).word.store(free(rank), std::memory_order_release);  // (8)
  signal_rank(rank);
  signal_room();
}

// Whether an item of this rank fits because some of the ranks before it are gaps. `head`: a value that head_ has had.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::fits_beside_gaps(rank_t rank, rank_t head) const noexcept {
  // All relaxed: a gap that is not seen yet takes a place, and its maker tells those who sleep.
  if (!before(head, gaps_end_.load(std::memory_order_relaxed))) [[likely]]
    return false;
  rank_t end = room_end(head);
  for (std::size_t i = 0; i < gap_count_; ++i) {
    const rank_t gap = gaps_[i].load(std::memory_order_relaxed);
    if (!before(gap, head) && before(gap, rank)) end += step;
  }
  return before(rank, end) && before(rank, head + step * cells_.cells());
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/mpmc_consumers.hpp>  // the rest of the definitions
