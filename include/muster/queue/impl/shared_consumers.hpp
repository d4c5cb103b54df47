// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared_consumers.hpp: the definitions of shared_engine's consumers, and close().
#pragma once

#include <muster/queue/impl/shared_engine.hpp>  // the class and the macros

namespace muster::inline MUSTER_ABI::detail {

// Moves `rank` on to the first one that is not done with.
MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::walk(unsigned ring, rank_t& rank) const noexcept -> outlook {
  for (rank_t next = 0;; rank = next) {
    // (4) acquire: pairs with (7) and (20).
    const rank_t now = at(ring, rank).word.load(std::memory_order_acquire);
    if (now == word::make(rank, word::published)) [[likely]]
      return outlook::ready;
    if (const outlook seen = look_closer(ring, rank, now, next); seen != outlook::passed) return seen;
  }
}

// What has become of `rank`, whose cell's word was `now`. When it is done with: the rank to look at next.
MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::look_closer(unsigned ring, rank_t rank, rank_t now, rank_t& next) const noexcept -> outlook {
  if (before(word::rank_of(now), rank)) {
    const cell& c = at(ring, rank);
    // (5) seq_cst: pairs with (2).
    if (before(c.gap.load(std::memory_order_seq_cst), rank)) {
      const bool over =
          (header_->consumers.flags() & closed) != 0 && !before(rank, ends_[ring].end.load(std::memory_order_relaxed));
      return over ? outlook::over : outlook::unclaimed;
    }
    // (6) seq_cst: pairs with (1). An acquire is not enough: see mpmc.hpp.
    now = c.word.load(std::memory_order_seq_cst);
    if (before(word::rank_of(now), rank)) return next = rank + step, outlook::passed;
  }
  if (word::rank_of(now) == rank) {
    if (word::state_of(now) == word::published) return outlook::ready;
    if (word::state_of(now) == word::written) return outlook::written;
  }
  next = after(rank, word::rank_of(now));
  return outlook::passed;
}

// Claims the item of a published rank. False when another was faster.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::claim_item_of(cell& c, rank_t rank, unsigned me) noexcept {
  const rank_t mine = word::make(rank, word::taken, me);
  if constexpr (Shape::one_consumer) {
    // Relaxed: no other consumer passes this item, and whoever comes after us knows what we know.
    c.word.store(mine, std::memory_order_relaxed);
    return true;
  }
  rank_t known = word::make(rank, word::published);
  // (20) release: pairs with (4). Whoever passes this item knows what we know: that the queue is closed, perhaps.
  return c.word.compare_exchange_strong(known, mine, std::memory_order_release, std::memory_order_relaxed);
}

// Claims the first item there is. Never waits for another thread.
MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::claim_item(unsigned ring, unsigned me) -> claimed {
  shared_ends& e = ends_[ring];
  rank_t rank = e.head.load(std::memory_order_acquire);  // (18) acquire: pairs with (19) and (21).
  for (;;) {
    switch (walk(ring, rank)) {
      case outlook::passed: break;  // walk() goes on
      case outlook::written: return queue_status::busy;
      case outlook::over: return queue_status::closed;
      case outlook::unclaimed:
        if (!is_closed()) return queue_status::empty;
        // The closing process may have died in the middle of it, or may not finish it.
        if ((header_->consumers.flags() & closed) == 0 && !help_to_close()) return queue_status::busy;
        break;
      case outlook::ready: {
        cell& c = at(ring, rank);
        if (!claim_item_of(c, rank, me)) break;
        // (19) release: pairs with (18), for the same reason. A late store can set the hint back; whoever
        // follows walks over the ranks between.
        e.head.store(rank + step, std::memory_order_release);
        signal_room(ring);
        return {rank, c};
      }
    }
  }
}

MUSTER_SHARED
queue_result<T> MUSTER_SHARED_ENGINE::take(unsigned me, const claimed& at) noexcept {
  cell& c = at.place();
  shared_seat& s = seats_[me];
  queue_result<T> item(std::in_place, c.item.get().value);
  // Not what changes it: if we are killed now, our successor pops it.
  if constexpr (sizeof(c) > line_size) leave_modified(&c.item.ref(), sizeof(T));
  s.last.store(at.rank(), std::memory_order_relaxed);
  s.items.store(s.items.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  c.word.store(at.rank(), std::memory_order_release);  // (8) release: pairs with (11).
  return item;
}

// Whether it is worth while to claim again. That a ring has come to its end is no news while a push into another one is
// under way: a pop would find the queue neither closed nor with an item.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::has_news() const noexcept {
  bool ended = false, held = false;
  for (unsigned ring = 0; ring < facts_.rings; ++ring) {
    rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
    switch (walk(ring, rank)) {
      case outlook::ready:
      case outlook::passed: return true;
      case outlook::over: ended = true; break;
      case outlook::unclaimed: ended |= is_closed(); break;
      case outlook::written: held = true; break;
    }
  }
  return ended && !held;
}

MUSTER_SHARED
template <class Ready>
bool MUSTER_SHARED_ENGINE::await_item(const wait_limit& limit, Ready ready) {
  return await(limit, header_->consumers, item_key, ready);
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::close() { return (header_->consumers.flags() & closed) != 0 || help_to_close(); }

// Any number of threads may do this at once, and each may die in it. They may find different ends, between which there
// are gaps only: a push that claims a rank after the flag is there makes it one.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::help_to_close() {
  const bool ordered = header_->consumers.try_raise(closing);
  header_->producers.wake_all();
  if (!ordered) return false;  // a push that has missed the flag may have claimed a rank that we do not see yet
  for (unsigned ring = 0; ring < facts_.rings; ++ring) {
    // Relaxed: the claims that missed the flag are visible now, and by (9) those before them.
    rank_t rank = ends_[ring].tail.load(std::memory_order_relaxed);
    for (;;) {
      const cell& c = at(ring, rank);
      const rank_t known = word::rank_of(c.word.load(std::memory_order_relaxed));
      if (!before(known, rank)) {
        rank = after(rank, known);
      } else if (!before(c.gap.load(std::memory_order_relaxed), rank)) {
        rank += step;
      } else {
        break;
      }
    }
    ends_[ring].end.store(rank, std::memory_order_relaxed);
  }
  return header_->consumers.try_raise(closed);
}

MUSTER_SHARED
std::size_t MUSTER_SHARED_ENGINE::size_approx() const noexcept {
  std::size_t items = 0;
  for (unsigned ring = 0; ring < facts_.rings; ++ring) {
    const rank_t head = ends_[ring].head.load(std::memory_order_relaxed);
    const rank_t tail = ends_[ring].tail.load(std::memory_order_relaxed);
    if (before(head, tail)) items += std::min<std::size_t>((tail - head) / step, facts_.capacity);
  }
  return items;
}

MUSTER_SHARED
std::size_t MUSTER_SHARED_ENGINE::free_places(unsigned ring) const noexcept {
  const rank_t tail = ends_[ring].tail.load(std::memory_order_relaxed);
  const rank_t end = room_end(ends_[ring].head.load(std::memory_order_relaxed));
  return before(tail, end) ? static_cast<std::size_t>((end - tail) / step) : 0;
}

MUSTER_SHARED
void MUSTER_SHARED_ENGINE::check() const {
  for (unsigned ring = 0; ring < facts_.rings; ++ring) {
    std::size_t items = 0, full = 0;
    rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
    outlook seen = walk(ring, rank);
    for (; seen == outlook::ready; seen = walk(ring, rank)) ++items, rank += step;
    MUSTER_CHECK(seen != outlook::written, "shared_queue: a rank is claimed and never published");
    MUSTER_CHECK(items <= facts_.capacity, "shared_queue: more items than the capacity");
    for (std::size_t i = 0; i < facts_.cells; ++i)
      full += word::state_of(cells_of(ring)[i].word.load(std::memory_order_relaxed)) == word::published;
    MUSTER_CHECK(items == full, "shared_queue: a cell holds an item that no pop would find");
  }
}

}  // namespace muster::inline MUSTER_ABI::detail

#include <muster/queue/impl/shared_recovery.hpp>  // the rest of the definitions
