// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/shared_ring.hpp: the queue in a region of shared memory: one ring of cells, or one for each producer; and what
// happens after a death.
//
// It is mpmc_queue (mpmc.hpp explains ranks, gaps, and which operations are sequentially consistent) with two
// differences, because a process may be killed inside:
//   1. Consumers claim in the cell, too: published(r) becomes taken(r) by compare-exchange, and head is a hint, like
//      tail. A claim by fetch-add would be known to the dead only.
//   2. A claim names its owner's seat, in the same word. So nothing that the dead have left behind has to be guessed:
//      a cell is written or taken by a port of a living process, or it is not.
// Where there is one producer, its claim is a plain store, and so is that of the only consumer, whose successor
// inherits the item that it had claimed, and pops that first.
//
// A rank r of a ring, at its cell c:
//   c.word of r, published: the item is there. Written: its producer is at work, and nobody may pass it.
//   c.word of r, taken or free, or of a later rank: r is done with.
//   c.word of an earlier rank, c.gap >= r: no item will have rank r.
//   c.word of an earlier rank, c.gap < r: nobody has claimed r, nor any later rank.
//
// One keeper at a time clears up a seat: the recovering process stores its identity in seat.keeper. If it dies, another
// takes over, so recovery has ended before the seat is used again. Each step may be done twice:
//   a cell written by the dead     its rank becomes a gap, then the cell is free
//   a cell taken by the dead       its item, which no pop has returned, is given to the caller; then the cell is free.
//                                  Of an only consumer: or it is handed over to whoever has its place, now or later,
//                                  which is how seat 0 reads in a cell
// Nobody waits for it: consumers wait for a cell that the dead have written, and clear that up themselves (help()).
#pragma once

#include <muster/base/finally.hpp>                // finally
#include <muster/queue/detail/shared_layout.hpp>  // what lies where
#include <muster/queue/detail/wait_limit.hpp>     // wait_limit

#include <algorithm>    // std::min
#include <memory>       // std::construct_at
#include <type_traits>  // std::is_same_v

namespace muster::inline MUSTER_ABI::detail {

/// What clearing up after a seat came to. left: nothing is done to items that a dead consumer has claimed.
enum class cleared : unsigned char { nobody_dead, done, left, by_another };
/// For clear_up(): such items stay where they are.
struct leave_items {};
/// For clear_up(): such items are now claimed by whoever has the place of the only consumer.
struct hand_over {};

/// `Life` knows which process this is, whether one lives, and whether anybody can die: processes, but for tests.
template <class T, class Shape, class Wait, class Life>
class shared_ring {
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

  shared_ring(unsigned char* region, const shared_facts& f) noexcept
      : facts_(f),
        header_(reinterpret_cast<shared_header*>(region)),
        seats_(reinterpret_cast<shared_seat*>(region + f.seats_at)),
        ends_(reinterpret_cast<shared_ends*>(region + f.ends_at)),
        ring_bytes_((f.size - f.cells_at) / f.rings),
        cells_(region + f.cells_at) {}

  static void construct(unsigned char* region, const shared_facts& f, rank_t first) {
    std::construct_at(reinterpret_cast<shared_header*>(region))->facts = f;
    for (std::size_t s = 0; s < f.seats; ++s)
      std::construct_at(reinterpret_cast<shared_seat*>(region + f.seats_at) + s);
    for (std::size_t i = 0; i < f.rings; ++i) {
      shared_ends& e = *std::construct_at(reinterpret_cast<shared_ends*>(region + f.ends_at) + i);
      e.head.store(first * step, std::memory_order_relaxed);
      e.tail.store(first * step, std::memory_order_relaxed);
    }
    shared_ring made(region, f);
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

  const shared_facts& facts() const noexcept { return facts_; }
  shared_header& header() const noexcept { return *header_; }
  shared_seat& seat(unsigned s) const noexcept { return seats_[s]; }
  shared_ends& ends(unsigned ring) const noexcept { return ends_[ring]; }

  // ---------------------------------------------------------------------------------------------------- producers
  view view_of(unsigned ring) const noexcept {
    return {ends_[ring].head.load(std::memory_order_relaxed)};  // a bound; whether a cell is free is (11)
  }

  // Claims the first rank that can be had. Never waits.
  MUSTER_HOT claimed claim_place(unsigned ring, unsigned me, view& seen) noexcept {
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

  MUSTER_HOT void publish(unsigned me, const claimed& at, const T& item) noexcept {
    at.place().item.ref().construct(item);
    // (7) release: pairs with (4). The item is complete before its consumer can see it.
    at.place().word.store(word::make(at.rank(), word::published), std::memory_order_release);
    seats_[me].items.store(seats_[me].items.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    signal_item();
  }

  // After claim_place() in vain: waits for room, or for the cell after the last, or the end. False when the limit came
  // first.
  bool await_room(const wait_limit& limit, queue_status why, unsigned ring, view& seen) {
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

  // ---------------------------------------------------------------------------------------------------- consumers
  // Claims the first item there is. Never waits for another thread.
  MUSTER_HOT claimed claim_item(unsigned ring, unsigned me) {
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

  MUSTER_HOT queue_result<T> take(unsigned me, const claimed& at) noexcept {
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

  template <class Ready>
  bool await_item(const wait_limit& limit, Ready ready) {
    return await(limit, header_->consumers, item_key, ready);
  }

  /// Whether a pop that has been in vain is worth another.
  // Whether it is worth while to claim again. That a ring has come to its end is no news while a push into another one
  // is under way: a pop would find the queue neither closed nor with an item.
  bool has_news() const noexcept {
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

  // ------------------------------------------------------------------------------------------------------ the rest
  /// Returns false when this process may not call membarrier(2) any more: another process must finish it.
  bool close() { return (header_->consumers.flags() & closed) != 0 || help_to_close(); }
  // Any number of threads may do this at once, and each may die in it. They may find different ends, between which
  // there are gaps only: a push that claims a rank after the flag is there makes it one.
  bool help_to_close() {
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

  bool is_closed() const noexcept { return (header_->consumers.flags() & closing) != 0; }
  std::size_t size_approx() const noexcept {
    std::size_t items = 0;
    for (unsigned ring = 0; ring < facts_.rings; ++ring) {
      const rank_t head = ends_[ring].head.load(std::memory_order_relaxed);
      const rank_t tail = ends_[ring].tail.load(std::memory_order_relaxed);
      if (before(head, tail)) items += std::min<std::size_t>((tail - head) / step, facts_.capacity);
    }
    return items;
  }

  std::size_t free_places(unsigned ring) const noexcept {
    const rank_t tail = ends_[ring].tail.load(std::memory_order_relaxed);
    const rank_t end = room_end(ends_[ring].head.load(std::memory_order_relaxed));
    return before(tail, end) ? static_cast<std::size_t>((end - tail) / step) : 0;
  }

  std::size_t slip() const noexcept { return std::min<std::size_t>(facts_.capacity / 4, 1024); }  // see slipping
  void check() const {
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

  // ------------------------------------------------------------------------------------------------------- recovery
  // A free seat, now `process`'s; 0: there is none.
  unsigned sit_down(std::uint64_t process, std::uint32_t role) {
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
  template <class Give>
  bool own(sync::atomic<std::uint32_t>& place, unsigned me, std::uint64_t process, Give give) {
    for (;;) {
      std::uint32_t owner = 0;
      // (14) acquire: pairs with (15). We go on where the one before us has stopped.
      if (place.compare_exchange_strong(owner, me, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      const cleared before_us = clear_up(owner, process, give);
      if (before_us != cleared::done && place.load(std::memory_order_relaxed) == owner) return false;
    }
  }

  // The first item that dead owners of the only consumer's place have claimed and not taken. For who has it now.
  claimed inherited_item() const noexcept {
    claimed first = queue_status::empty;
    for (std::size_t i = 0; i < facts_.cells; ++i) {
      cell& c = cells_of(0)[i];
      const rank_t now = c.word.load(std::memory_order_relaxed);
      if (now != word::make(word::rank_of(now), word::taken)) continue;
      if (!first || before(word::rank_of(now), first.rank())) first = {word::rank_of(now), c};
    }
    return first;
  }

  void stand_up(unsigned me) {
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
    seats_[me].holder.store(0, std::memory_order_release);  // (13) release: pairs with (12), and shared_info.hpp (1).
  }

  // If whoever holds seat `s` is dead: clears up. `give(item)` for each item that it had claimed.
  template <class Give>
  cleared clear_up(unsigned s, std::uint64_t process, Give give) {
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
  void help(unsigned ring, std::uint64_t process) {
    for (std::size_t most = facts_.seats; most != 0; --most) {
      rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
      if (walk(ring, rank) != outlook::written) return;
      const unsigned owner = word::seat_of(at(ring, rank).word.load(std::memory_order_relaxed));
      if (owner == 0 || clear_up(owner, process, leave_items{}) != cleared::done) return;
    }
  }

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
  // A rank that may be claimed, and its cell's word; or why there is none.
  struct candidate {
    rank_t rank;
    rank_t now;
    queue_status status = queue_status::success;

    bool is_free() const noexcept { return before(word::rank_of(now), rank) && word::state_of(now) == word::free; }
  };
  bool fits(rank_t rank, const view& seen) const noexcept { return before(rank, room_end(seen.head)); }

  // --------------------------------------------------------------------------------------------------------- producers

  MUSTER_COLD candidate search_place(unsigned ring, view& seen, candidate from) noexcept {
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
  MUSTER_HOT bool claim(cell& c, unsigned ring, rank_t rank, rank_t known, unsigned me) noexcept {
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
  void give_back(unsigned ring, rank_t rank) noexcept {
    at(ring, rank).word.store(rank, std::memory_order_release);  // (8)
    signal_item();
    signal_room(ring);
  }

  // Whether an item of this rank fits. Looks at head only when what is known does not answer it.
  bool has_room(unsigned ring, rank_t rank, view& seen) noexcept {
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

  // Waits for ready(), or, as whoever should tell us may have died, for a while. False when the limit came first.
  template <class Ready>
  static bool await(const wait_limit& limit, event_mask& events, std::uint32_t key, Ready ready) {
    if constexpr (Life::mortal) return limit.template poll<Wait>(events, key, ready, patience);
    return limit.template await<Wait>(events, key, ready);
  }

  // No item will have this rank, unless its producer is writing it already.
  void make_gap(cell& c, rank_t rank) noexcept {
    rank_t known = c.gap.load(std::memory_order_relaxed);
    while (before(known, rank)) {
      // (3) relaxed: alone, as (2) and (5) meet in its value, and nobody needs what its maker knew.
      if (c.gap.compare_exchange_weak(known, rank, std::memory_order_relaxed, std::memory_order_relaxed)) break;
    }
    signal_item();
  }

  // Whether anybody sleeps is a matter of their Wait, not of ours: other programs may use the queue with another.
  void signal_item() noexcept {
    if (header_->consumers.after_event(event_mask::bit(item_key)) != 0) [[unlikely]]
      header_->consumers.wake(item_key);
  }

  void signal_room(unsigned ring) noexcept {
    if (header_->producers.after_event(event_mask::bit(room_key(ring))) == 0) [[likely]]
      return;
    // The producers of other rings may have the same key, and cannot use this room.
    if constexpr (Shape::many_rings) header_->producers.wake(room_key(ring));
    else header_->producers.wake_one(room_key(ring));
  }

  // -----------------------------------------------------------------------------------------------------------
  // consumers

  // Moves `rank` on to the first one that is not done with.
  MUSTER_HOT outlook walk(unsigned ring, rank_t& rank) const noexcept {
    for (rank_t next = 0;; rank = next) {
      // (4) acquire: pairs with (7) and (20).
      const rank_t now = at(ring, rank).word.load(std::memory_order_acquire);
      if (now == word::make(rank, word::published)) [[likely]]
        return outlook::ready;
      if (const outlook seen = look_closer(ring, rank, now, next); seen != outlook::passed) return seen;
    }
  }

  // What has become of `rank`, whose cell's word was `now`. When it is done with: the rank to look at next.
  MUSTER_COLD outlook look_closer(unsigned ring, rank_t rank, rank_t now, rank_t& next) const noexcept {
    if (before(word::rank_of(now), rank)) {
      const cell& c = at(ring, rank);
      // (5) seq_cst: pairs with (2).
      if (before(c.gap.load(std::memory_order_seq_cst), rank)) {
        const bool over = (header_->consumers.flags() & closed) != 0 &&
                          !before(rank, ends_[ring].end.load(std::memory_order_relaxed));
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
  MUSTER_HOT bool claim_item_of(cell& c, rank_t rank, unsigned me) noexcept {
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

  const shared_facts facts_;  // a copy that nobody else can change
  shared_header* header_;
  shared_seat* seats_;
  shared_ends* ends_;
  std::size_t ring_bytes_;
  unsigned char* cells_;
};

}  // namespace muster::inline MUSTER_ABI::detail
