// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared_recovery.hpp: seats, and clearing up after a process that has died in one.
//
// One keeper at a time clears up a seat: it writes its process into seat.keeper, and whoever finds a dead one there
// takes its place. So nobody still clears up when the seat is given to somebody else, and a keeper that is killed is
// followed by another. Each step may be done twice:
//   a cell written by the dead     its rank becomes a gap, then the cell is free
//   a cell taken by the dead       its item, which no pop has returned, is given to the caller; then the cell is free.
//                                  Of an only consumer: or it is handed over to whoever has its place, now or later,
//                                  which is how seat 0 reads in a cell
// Nobody waits for it: consumers wait for a cell that the dead have written, and clear that up themselves (help()).
#pragma once

#include <muster/queue/guards.hpp>                 // finally
#include <muster/queue/impl/shared_consumers.hpp>  // the class and the macros

#include <type_traits>  // std::is_same_v

namespace muster::inline MUSTER_ABI::detail {

// A free seat, now `process`'s; 0: there is none.
MUSTER_SHARED
unsigned MUSTER_SHARED_ENGINE::sit_down(std::uint64_t process, std::uint32_t role) {
  for (unsigned s = 1; s < facts_.seats; ++s) {
    std::uint64_t nobody = 0;
    // (12) acquire: pairs with (13).
    if (seats_[s].holder.load(std::memory_order_relaxed) != 0 ||
        !seats_[s].holder.compare_exchange_strong(nobody, process, std::memory_order_acquire,
                                                  std::memory_order_relaxed))
      continue;
    seats_[s].role.store(role, std::memory_order_relaxed);
    return s;
  }
  return 0;
}

// Makes a seat the only one of its kind. False when somebody else is, and lives, or has left items.
MUSTER_SHARED
template <class Give>
bool MUSTER_SHARED_ENGINE::own(sync::atomic<std::uint32_t>& place, unsigned me, std::uint64_t process, Give give) {
  for (;;) {
    std::uint32_t owner = 0;
    // (14) acquire: pairs with (15). We go on where the one before us has stopped.
    if (place.compare_exchange_strong(owner, me, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    const cleared before_us = clear_up(owner, process, give);
    if (before_us != cleared::done && place.load(std::memory_order_relaxed) == owner) return false;
  }
}

// The first item that dead owners of the only consumer's place have claimed and not taken. For who has it now.
MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::inherited_item() const noexcept -> claimed {
  claimed first = queue_status::empty;
  for (std::size_t i = 0; i < facts_.cells; ++i) {
    cell& c = cells_of(0)[i];
    const rank_t now = c.word.load(std::memory_order_relaxed);
    if (now != word::make(word::rank_of(now), word::taken)) continue;
    if (!first || before(word::rank_of(now), first.rank())) first = {word::rank_of(now), c};
  }
  return first;
}

MUSTER_SHARED
void MUSTER_SHARED_ENGINE::stand_up(unsigned me) {
  for (unsigned ring = 0; ring < facts_.rings; ++ring)
    for (sync::atomic<std::uint32_t>* place : {&ends_[ring].producer, &ends_[ring].consumer}) {
      std::uint32_t owner = me;
      // (15) release: pairs with (14).
      place->compare_exchange_strong(owner, 0, std::memory_order_release, std::memory_order_relaxed);
    }
  // Now, not by the next holder: if it is killed at once, nobody must take for its doing what was ours.
  seats_[me].role.store(0, std::memory_order_relaxed);
  seats_[me].last.store(0, std::memory_order_relaxed);
  seats_[me].items.store(0, std::memory_order_relaxed);
  seats_[me].holder.store(0, std::memory_order_release);  // (13) release: pairs with (12), (22).
}

// If whoever holds seat `s` is dead: clears up. `give(item)` for each item that it had claimed.
MUSTER_SHARED
template <class Give>
cleared MUSTER_SHARED_ENGINE::clear_up(unsigned s, std::uint64_t process, Give give) {
  if (s >= facts_.seats) return cleared::nobody_dead;  // nonsense, written by somebody
  shared_seat& seat = seats_[s];
  const auto is_dead = [&] {
    const std::uint64_t holder = seat.holder.load(std::memory_order_relaxed);
    return holder != 0 && !Life::alive(holder);
  };
  if (!is_dead()) return cleared::nobody_dead;
  std::uint64_t keeper = seat.keeper.load(std::memory_order_relaxed);
  if (keeper != 0 && Life::alive(keeper)) return cleared::by_another;
  // (16) acquire: pairs with (17). A keeper before us has done its work, or is dead.
  if (!seat.keeper.compare_exchange_strong(keeper, process, std::memory_order_acquire, std::memory_order_relaxed))
    return cleared::by_another;
  const finally done([&] { seat.keeper.store(0, std::memory_order_release); });  // (17) release: pairs with (16).
  if (!is_dead()) return cleared::nobody_dead;

  bool left = false;
  for (unsigned ring = 0; ring < facts_.rings; ++ring)
    for (std::size_t i = 0; i < facts_.cells; ++i) {
      cell& c = cells_of(ring)[i];
      // Relaxed: whoever finds a process dead sees all that it did, because the kernel was in between.
      const rank_t now = c.word.load(std::memory_order_relaxed);
      if (word::seat_of(now) != s) continue;
      if (word::state_of(now) == word::written) {
        make_gap(c, word::rank_of(now));
        give_back(ring, word::rank_of(now));
      } else if constexpr (std::is_same_v<Give, leave_items>) {
        left = true;
      } else if constexpr (std::is_same_v<Give, hand_over>) {
        c.word.store(word::make(word::rank_of(now), word::taken), std::memory_order_relaxed);
      } else {
        give(c.item.get().value);
        give_back(ring, word::rank_of(now));
      }
    }
  if (left) return cleared::left;
  header_->deaths.fetch_add(1, std::memory_order_relaxed);  // first: rather twice than never
  stand_up(s);
  return cleared::done;
}

// After a wait in vain: clears up what has died in the way of consumers, all of it: a process may have died with many
// ports, and nobody is to wait for each of them. Every turn but the last frees a seat.
MUSTER_SHARED
void MUSTER_SHARED_ENGINE::help(unsigned ring, std::uint64_t process) {
  for (std::size_t most = facts_.seats; most != 0; --most) {
    rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
    if (walk(ring, rank) != outlook::written) return;
    const unsigned owner = word::seat_of(at(ring, rank).word.load(std::memory_order_relaxed));
    if (owner == 0 || clear_up(owner, process, leave_items{}) != cleared::done) return;
  }
}

#undef MUSTER_SHARED
#undef MUSTER_SHARED_ENGINE

}  // namespace muster::inline MUSTER_ABI::detail
