// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared_engine.hpp: the queue in a region of shared memory: one ring of cells, or one for each producer. What
// happens after a death is in impl/shared_recovery.hpp.
//
// It is mpmc_queue (mpmc.hpp explains ranks, gaps, and what is sequentially consistent)
// with two differences, because whoever is inside may be killed:
//   1. Consumers claim in the cell, too: published(r) becomes taken(r) by compare-exchange, and head is a hint, like
//      tail. A claim by fetch-add would be known to the dead only.
//   2. A claim names its owner's seat, in the same word. So nothing that the dead have left behind has to be guessed:
//      a cell is written or taken by somebody who lives, or it is not.
// Where there is one producer, its claim is a plain store, and so is that of the only consumer, whose successor
// inherits the item that it had claimed, and pops that first.
//
// A rank r of a ring, at its cell c:
//   c.word of r, published: the item is there. Written: its producer is at work, and nobody may pass it.
//   c.word of r, taken or free, or of a later rank: r is done with.
//   c.word of an earlier rank, c.gap >= r: no item will have rank r.
//   c.word of an earlier rank, c.gap < r: nobody has claimed r, nor any later rank.
#pragma once

#include <muster/queue/face.hpp>                // wait_limit
#include <muster/queue/impl/shared_region.hpp>  // what lies where

#include <algorithm>  // std::min
#include <memory>     // std::construct_at

namespace muster::inline MUSTER_ABI::detail {

/// What clearing up after a seat came to. left: nothing is done to items that a dead consumer has claimed.
enum class cleared : unsigned char { nobody_dead, done, left, by_another };
/// For clear_up(): such items stay where they are.
struct leave_items {};
/// For clear_up(): such items are now claimed by whoever has the place of the only consumer.
struct hand_over {};

/// `Life` knows which process this is, whether one lives, and whether anybody can die: processes, but for tests.
template <class T, class Shape, class Wait, class Life>
class shared_engine {
  using word = shared_word;
  using cell = shared_cell<T>;
  using claimed = shared_claim<T>;
  static constexpr rank_t step = word::step;

 public:
  static constexpr std::uint32_t closing = event_mask::flag(0);  // no push may claim a rank and keep it
  static constexpr std::uint32_t closed = event_mask::flag(1);   // and every ring's end is known
  static constexpr std::chrono::milliseconds patience{50};       // before a waiting thread looks for the dead

  /// Where a ring was when a port looked last. A port's own.
  struct view {
    rank_t head = 0;  // a value that head has had
  };

  shared_engine(unsigned char* region, const shared_facts& f) noexcept
      : facts_(f),
        header_(reinterpret_cast<shared_header*>(region)),
        seats_(reinterpret_cast<shared_seat*>(region + f.seats_at)),
        ends_(reinterpret_cast<shared_ends*>(region + f.ends_at)),
        ring_bytes_((f.size - f.cells_at) / f.rings),
        cells_(region + f.cells_at) {}

  static void construct(unsigned char* region, const shared_facts& f, rank_t first);

  const shared_facts& facts() const noexcept { return facts_; }
  shared_header& header() const noexcept { return *header_; }
  shared_seat& seat(unsigned s) const noexcept { return seats_[s]; }
  shared_ends& ends(unsigned ring) const noexcept { return ends_[ring]; }

  // ---------------------------------------------------------------------------------------------------- producers
  view view_of(unsigned ring) const noexcept {
    return {ends_[ring].head.load(std::memory_order_relaxed)};  // a bound; whether a cell is free is (11)
  }
  MUSTER_HOT claimed claim_place(unsigned ring, unsigned me, view& seen) noexcept;
  MUSTER_HOT void publish(unsigned me, const claimed& at, const T& item) noexcept;
  bool await_room(const wait_limit& limit, queue_status why, unsigned ring, view& seen);

  // ---------------------------------------------------------------------------------------------------- consumers
  MUSTER_HOT claimed claim_item(unsigned ring, unsigned me);
  MUSTER_HOT queue_result<T> take(unsigned me, const claimed& at) noexcept;
  template <class Ready>
  bool await_item(const wait_limit& limit, Ready ready);
  /// Whether a pop that has been in vain is worth another.
  bool has_news() const noexcept;

  // ------------------------------------------------------------------------------------------------------ the rest
  /// Returns false when this process may not call membarrier(2) any more: another process must finish it.
  bool close();
  bool help_to_close();
  bool is_closed() const noexcept { return (header_->consumers.flags() & closing) != 0; }
  std::size_t size_approx() const noexcept;
  std::size_t free_places(unsigned ring) const noexcept;
  std::size_t slip() const noexcept { return std::min<std::size_t>(facts_.capacity / 4, 1024); }  // see slipping
  void check() const;

  // ------------------------------------------------------------------------------------------------------- recovery
  unsigned sit_down(std::uint64_t process, std::uint32_t role);
  template <class Give>
  bool own(sync::atomic<std::uint32_t>& place, unsigned me, std::uint64_t process, Give give);
  claimed inherited_item() const noexcept;
  void stand_up(unsigned me);
  template <class Give>
  cleared clear_up(unsigned s, std::uint64_t process, Give give);
  void help(unsigned ring, std::uint64_t process);

 private:
  static constexpr std::uint32_t item_key = 0;
  static constexpr std::uint32_t room_key(unsigned ring) noexcept { return ring; }

  cell& at(unsigned ring, rank_t rank) const noexcept {
    return cells_of(ring)[static_cast<std::size_t>(rank / step) & (facts_.cells - 1)];
  }
  cell* cells_of(unsigned ring) const noexcept {
    return reinterpret_cast<cell*>(Shape::many_rings ? cells_ + ring * ring_bytes_ : cells_);
  }
  rank_t span() const noexcept { return step * facts_.cells; }
  rank_t room_end(rank_t head) const noexcept { return head + step * facts_.capacity; }

  /// The rank to look at after `rank`, when its cell's word is of `known`, this rank or a later one: whoever claimed
  /// `known` had room for it, so everything a lap before it is done with.
  rank_t after(rank_t rank, rank_t known) const noexcept {
    const rank_t lap = known - span() + step;
    return before(rank + step, lap) ? lap : rank + step;
  }

  enum class outlook { ready, passed, written, over, unclaimed };
  MUSTER_HOT outlook walk(unsigned ring, rank_t& rank) const noexcept;
  MUSTER_COLD outlook look_closer(unsigned ring, rank_t rank, rank_t now, rank_t& next) const noexcept;
  struct candidate;
  MUSTER_COLD candidate search_place(unsigned ring, view& seen, candidate from) noexcept;
  MUSTER_HOT bool claim(cell& c, unsigned ring, rank_t rank, rank_t known, unsigned me) noexcept;
  MUSTER_HOT bool claim_item_of(cell& c, rank_t rank, unsigned me) noexcept;
  bool fits(rank_t rank, const view& seen) const noexcept { return before(rank, room_end(seen.head)); }
  bool has_room(unsigned ring, rank_t rank, view& seen) noexcept;
  void make_gap(cell& c, rank_t rank) noexcept;
  void give_back(unsigned ring, rank_t rank) noexcept;
  template <class Ready>
  static bool await(const wait_limit& limit, event_mask& events, std::uint32_t key, Ready ready);
  void signal_item() noexcept;
  void signal_room(unsigned ring) noexcept;

  const shared_facts facts_;  // a copy that nobody else can change
  shared_header* header_;
  shared_seat* seats_;
  shared_ends* ends_;
  std::size_t ring_bytes_;
  unsigned char* cells_;
};

#define MUSTER_SHARED template <class T, class Shape, class Wait, class Life>
#define MUSTER_SHARED_ENGINE shared_engine<T, Shape, Wait, Life>

MUSTER_SHARED
void MUSTER_SHARED_ENGINE::construct(unsigned char* region, const shared_facts& f, rank_t first) {
  std::construct_at(reinterpret_cast<shared_header*>(region))->facts = f;
  for (std::size_t s = 0; s < f.seats; ++s) std::construct_at(reinterpret_cast<shared_seat*>(region + f.seats_at) + s);
  for (std::size_t i = 0; i < f.rings; ++i) {
    shared_ends& e = *std::construct_at(reinterpret_cast<shared_ends*>(region + f.ends_at) + i);
    e.head.store(first * step, std::memory_order_relaxed);
    e.tail.store(first * step, std::memory_order_relaxed);
  }
  shared_engine made(region, f);
  for (unsigned ring = 0; ring < f.rings; ++ring) {
    for (std::size_t i = 0; i < f.cells; ++i) std::construct_at(made.cells_of(ring) + i);
    // As if the ranks of the lap before the first had been pushed and popped.
    for (rank_t i = 1; i <= f.cells; ++i) {
      const rank_t rank = (first - i) * step;
      made.at(ring, rank).word.store(rank, std::memory_order_relaxed);
      made.at(ring, rank).gap.store(rank, std::memory_order_relaxed);
    }
  }
}

// --------------------------------------------------------------------------------------------------------- producers

// A rank that may be claimed, and its cell's word; or why there is none.
MUSTER_SHARED
struct MUSTER_SHARED_ENGINE::candidate {
  rank_t rank;
  rank_t now;
  queue_status status = queue_status::success;

  bool is_free() const noexcept { return before(word::rank_of(now), rank) && word::state_of(now) == word::free; }
};

// Claims the first rank that can be had. Never waits.
MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::claim_place(unsigned ring, unsigned me, view& seen) noexcept -> claimed {
  if (is_closed()) return queue_status::closed;
  shared_ends& e = ends_[ring];
  // (9) acquire: pairs with (10). Whoever takes the hint knows of the claims before it, as if it had walked there.
  for (rank_t rank = e.tail.load(std::memory_order_acquire);;) {
    // (11) acquire: pairs with (8): the consumer has copied the old item before we overwrite it.
    candidate first{rank, at(ring, rank).word.load(std::memory_order_acquire)};
    if (!first.is_free() || !fits(rank, seen)) [[unlikely]] {
      first = search_place(ring, seen, first);
      if (first.status != queue_status::success) return first.status;
      rank = first.rank;
    }
    cell& c = at(ring, rank);
    if (claim(c, ring, rank, first.now, me)) [[likely]] {
      // (10) release: pairs with (9). A late store can set the hint back; producers then walk over the ranks between.
      e.tail.store(rank + step, std::memory_order_release);
      if (header_->consumers.after_event(closing) == 0) [[likely]]
        return {rank, c};
      make_gap(c, rank);
      give_back(ring, rank);
      return queue_status::closed;
    }
    // Of several producers the same rank again: it may still be free.
    if constexpr (Shape::one_producer) rank += step;
  }
}

MUSTER_SHARED
auto MUSTER_SHARED_ENGINE::search_place(unsigned ring, view& seen, candidate from) noexcept -> candidate {
  std::size_t gaps = 0;
  for (auto [rank, now, status] = from;; now = at(ring, rank).word.load(std::memory_order_acquire)) {  // (11)
    if (const rank_t known = word::rank_of(now); !before(known, rank)) {
      rank = after(rank, known);
    } else if (const bool room = has_room(ring, rank, seen); !room || gaps == facts_.cells) {
      ends_[ring].tail.store(rank, std::memory_order_release);  // (10): whoever waits for room must ask for this rank
      return {rank, now, is_closed() ? queue_status::closed : room ? queue_status::busy : queue_status::full};
    } else if (word::state_of(now) == word::free) {
      return {rank, now};
    } else {
      // A stopped consumer holds the cell for an earlier rank, or a stopped producer.
      make_gap(at(ring, rank), rank);
      rank += step;
      ++gaps;
    }
  }
}

// False when the rank has been claimed by another or passed over.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::claim(cell& c, unsigned ring, rank_t rank, rank_t known, unsigned me) noexcept {
  if constexpr (Shape::one_producer) {
    // Nobody else claims, and gaps are our own; or they are of a dead predecessor, and then older than our seat.
    if (!before(c.gap.load(std::memory_order_relaxed), rank)) return false;
    c.word.store(word::make(rank, word::written, me), std::memory_order_relaxed);
    return true;
  }
  // (1) seq_cst: pairs with (6).
  if (!c.word.compare_exchange_strong(known, word::make(rank, word::written, me), std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
    return false;
  // (2) seq_cst: pairs with (5). Not to be weakened, nor left out: see mpmc.hpp.
  if (before(c.gap.load(std::memory_order_seq_cst), rank)) [[likely]]
    return true;
  give_back(ring, rank);
  return false;
}

// Frees the cell of a claimed rank that is a gap.
MUSTER_SHARED
void MUSTER_SHARED_ENGINE::give_back(unsigned ring, rank_t rank) noexcept {
  at(ring, rank).word.store(rank, std::memory_order_release);  // (8)
  signal_item();
  signal_room(ring);
}

// Whether an item of this rank fits. Looks at head only when what is known does not answer it.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::has_room(unsigned ring, rank_t rank, view& seen) noexcept {
  if (fits(rank, seen)) return true;
  seen = view_of(ring);
  const rank_t hint = seen.head;
  if (!fits(rank, seen)) {
    // The hint may be late, and with nothing but gaps at the front nobody might ever pass them.
    walk(ring, seen.head);
    // (21) release: pairs with (18).
    if (seen.head != hint) ends_[ring].head.store(seen.head, std::memory_order_release);
  }
  return fits(rank, seen);
}

// After claim_place() in vain: waits for room, or for the cell after the last, or the end. False when the limit came
// first.
MUSTER_SHARED
bool MUSTER_SHARED_ENGINE::await_room(const wait_limit& limit, queue_status why, unsigned ring, view& seen) {
  const auto ready = [&] {
    const rank_t rank = ends_[ring].tail.load(std::memory_order_relaxed);
    if (is_closed()) return true;
    if (!has_room(ring, rank, seen)) return false;
    return why == queue_status::full ||
           word::state_of(at(ring, rank).word.load(std::memory_order_relaxed)) == word::free;
  };
  // Nobody tells that a cell is free.
  if (why == queue_status::busy) return limit.template poll<Wait>(header_->producers, room_key(ring), ready);
  return await(limit, header_->producers, room_key(ring), ready);
}

// Waits for ready(), or, as whoever should tell us may have died, for a while. False when the limit came first.
MUSTER_SHARED
template <class Ready>
bool MUSTER_SHARED_ENGINE::await(const wait_limit& limit, event_mask& events, std::uint32_t key, Ready ready) {
  if constexpr (Life::mortal) return limit.template poll<Wait>(events, key, ready, patience);
  return limit.template await<Wait>(events, key, ready);
}

MUSTER_SHARED
void MUSTER_SHARED_ENGINE::publish(unsigned me, const claimed& at, const T& item) noexcept {
  at.place().item.ref().construct(item);
  // (7) release: pairs with (4). The item is complete before its consumer can see it.
  at.place().word.store(word::make(at.rank(), word::published), std::memory_order_release);
  seats_[me].items.store(seats_[me].items.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  signal_item();
}

// No item will have this rank, unless its producer is writing it already.
MUSTER_SHARED
void MUSTER_SHARED_ENGINE::make_gap(cell& c, rank_t rank) noexcept {
  rank_t known = c.gap.load(std::memory_order_relaxed);
  while (before(known, rank)) {
    // (3) relaxed: alone, as (2) and (5) meet in its value, and nobody needs what its maker knew.
    if (c.gap.compare_exchange_weak(known, rank, std::memory_order_relaxed, std::memory_order_relaxed)) break;
  }
  signal_item();
}

// Whether anybody sleeps is a matter of their Wait, not of ours: other programs may use the queue with another.
MUSTER_SHARED
void MUSTER_SHARED_ENGINE::signal_item() noexcept {
  if (header_->consumers.after_event(event_mask::bit(item_key)) != 0) [[unlikely]]
    header_->consumers.wake(item_key);
}

MUSTER_SHARED
void MUSTER_SHARED_ENGINE::signal_room(unsigned ring) noexcept {
  if (header_->producers.after_event(event_mask::bit(room_key(ring))) == 0) [[likely]]
    return;
  // The producers of other rings may have the same key, and cannot use this room.
  if constexpr (Shape::many_rings) header_->producers.wake(room_key(ring));
  else header_->producers.wake_one(room_key(ring));
}

}  // namespace muster::inline MUSTER_ABI::detail

#include <muster/queue/impl/shared_consumers.hpp>  // the rest of the definitions
