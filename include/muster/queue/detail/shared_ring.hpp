// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/shared_ring.hpp: the queue in a region of shared memory: one ring of cells, or one for each producer; and the
// recovery after a death.
//
// It is mpmc_queue (mpmc.hpp explains ranks, gaps, and which operations are sequentially consistent) with two
// differences, because a process may be killed inside an operation:
//   1. Consumers claim in the cell, too: published(r) becomes taken(r) by compare-exchange, and head is a hint, like
//      tail. A claim by fetch-add would be lost with its process.
//   2. A claim names its owner's seat in the same word, so recovery never has to guess: each cell shows which port has
//      written or taken it, if any.
// An only producer claims by a plain store. So does an only consumer; its successor inherits the item that it had
// claimed and pops it first.
//
// A rank r of a ring, at its cell c:
//   c.word of r, published: the item is there. Written: its producer is at work, and no consumer may pass it.
//   c.word of r, taken or free, or of a later rank: r is finished.
//   c.word of an earlier rank, c.gap >= r: no item will have rank r.
//   c.word of an earlier rank, c.gap < r: neither r nor any later rank has been claimed.
//
// One recoverer at a time recovers a seat: the recovering process stores its identity in seat.recoverer. If it dies,
// another takes over, so recovery has ended before the seat is reused. Each step may be done twice:
//   a cell written by the dead     its rank becomes a gap, then the cell is freed
//   a cell taken by the dead       its item, which no pop has returned, is given to the caller; then the cell is freed.
//                                  With an only consumer, the item may instead pass to the present or next holder of
//                                  its place; the cell's word then has seat 0
// No thread waits for recovery as such: consumers wait for a cell that a dead producer has written, and recover that
// seat themselves (help()).
#pragma once

#include <muster/base/detail/eventcount.hpp>      // eventcount
#include <muster/base/detail/scope_exit.hpp>      // scope_exit
#include <muster/queue/detail/shared_layout.hpp>  // the memory layout
#include <muster/queue/detail/wait_limit.hpp>     // wait_limit

#include <algorithm>    // std::min
#include <memory>       // std::construct_at
#include <type_traits>  // std::is_same_v

namespace muster::inline MUSTER_ABI::detail {

/// The result of recovering a seat. left: items that a dead consumer had claimed were left in place.
enum class recovery : unsigned char { none_dead, done, left, done_by_other };
/// For clear_up(): such items stay in place.
struct leave_items {};
/// For clear_up(): such items pass to the holder of the only consumer's place.
struct hand_over {};

/// `Life` tells which process this is, if a process is alive, and if any can die. Tests replace it.
template <class T, class Shape, class Wait, class Life>
class shared_ring {
  using word = shared_word;
  using cell = shared_cell<T>;
  using claimed = claim_result<T>;
  static constexpr rank_t step = word::step;

 public:
  static constexpr std::uint32_t closing = eventcount::flag(0);  // no push may claim a rank and keep it
  static constexpr std::uint32_t closed = eventcount::flag(1);   // and every ring's end is known
  static constexpr std::chrono::milliseconds patience{50};       // before a waiting thread looks for dead processes

  /// A port's private record of a ring, from its last look.
  struct view {
    rank_t head = 0;  // a value that head has had
  };

  shared_ring(unsigned char* region, const shared_metadata& f) noexcept
      : facts_(f),
        header_(reinterpret_cast<shared_header*>(region)),
        seats_(reinterpret_cast<shared_seat*>(region + f.seats_at)),
        ends_(reinterpret_cast<shared_ends*>(region + f.ends_at)),
        ring_bytes_((f.size - f.cells_at) / f.rings),
        cells_(region + f.cells_at) {}

  static void construct(unsigned char* region, const shared_metadata& f, rank_t first) {
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
      // As if the ranks of the previous lap had been pushed and popped.
      for (rank_t i = 1; i <= f.cells; ++i) {
        const rank_t rank = (first - i) * step;
        made.at(ring, rank).word.store(rank, std::memory_order_relaxed);
        made.at(ring, rank).gap.store(rank, std::memory_order_relaxed);
      }
    }
  }

  const shared_metadata& facts() const noexcept { return facts_; }
  shared_header& header() const noexcept { return *header_; }
  shared_seat& seat(unsigned s) const noexcept { return seats_[s]; }
  shared_ends& ends(unsigned ring) const noexcept { return ends_[ring]; }

  // ---------------------------------------------------------------------------------------------------- producers
  view view_of(unsigned ring) const noexcept {
    return {ends_[ring].head.load(std::memory_order_relaxed)};  // a bound; (11) decides if a cell is free
  }

  // Claims the first available rank. Never waits.
  MUSTER_HOT claimed claim_place(unsigned ring, unsigned me, view& seen) noexcept {
    if (is_closed()) return queue_status::closed;
    shared_ends& e = ends_[ring];
    // (9) acquire: pairs with (10). A thread that starts at the hint sees the claims before it, as if it had walked.
    for (rank_t rank = e.tail.load(std::memory_order_acquire);;) {
      // (11) acquire: pairs with (8). The consumer has copied the old item before the producer overwrites it.
      candidate first{rank, at(ring, rank).word.load(std::memory_order_acquire)};
      if (!first.is_free() || !fits(rank, seen)) [[unlikely]] {
        first = search_place(ring, seen, first);
        if (first.status != queue_status::success) return first.status;
        rank = first.rank;
      }
      cell& c = at(ring, rank);
      if (claim(c, ring, rank, first.now, me)) [[likely]] {
        // (10) release: pairs with (9). A late store can move the hint back; producers then walk the ranks between.
        e.tail.store(rank + step, std::memory_order_release);
        if (header_->consumers.waiters_after_event(closing) == 0) [[likely]]
          return {rank, c};
        make_gap(c, rank);
        give_back(ring, rank);
        return queue_status::closed;
      }
      // With several producers, retry the same rank: it may still be free.
      if constexpr (Shape::one_producer) rank += step;
    }
  }

  MUSTER_HOT void publish(unsigned me, const claimed& at, const T& item) noexcept {
    at.place().item.write_ref().construct(item);
    // (7) release: pairs with (4). The item is complete before its consumer can see it.
    at.place().word.store(word::make(at.rank(), word::published), std::memory_order_release);
    seats_[me].items.store(seats_[me].items.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    signal_item();
  }

  // Called after claim_place() failed: waits for room, for the next cell, or for close(). Returns false if the limit
  // expired first.
  bool await_room(const wait_limit& limit, queue_status why, unsigned ring, view& seen) {
    const auto ready = [&] {
      const rank_t rank = ends_[ring].tail.load(std::memory_order_relaxed);
      if (is_closed()) return true;
      if (!has_room(ring, rank, seen)) return false;
      return why == queue_status::full ||
             word::state_of(at(ring, rank).word.load(std::memory_order_relaxed)) == word::free;
    };
    // Freeing a cell signals no event, so poll.
    if (why == queue_status::busy) return limit.template poll<Wait>(header_->producers, room_key(ring), ready);
    return await(limit, header_->producers, room_key(ring), ready);
  }

  // ---------------------------------------------------------------------------------------------------- consumers
  // Claims the first available item. Never waits for another thread.
  MUSTER_HOT claimed claim_item(unsigned ring, unsigned me) {
    shared_ends& e = ends_[ring];
    rank_t rank = e.head.load(std::memory_order_acquire);  // (18) acquire: pairs with (19) and (21).
    for (;;) {
      switch (walk(ring, rank)) {
        case rank_state::skipped: break;  // walk() never returns it
        case rank_state::writing: return queue_status::busy;
        case rank_state::end: return queue_status::closed;
        case rank_state::unclaimed:
          if (!is_closed()) return queue_status::empty;
          // The closing process may have died meanwhile, or be unable to finish.
          if ((header_->consumers.flags() & closed) == 0 && !help_to_close()) return queue_status::busy;
          break;
        case rank_state::ready: {
          cell& c = at(ring, rank);
          if (!claim_item_of(c, rank, me)) break;
          // (19) release: pairs with (18), for the same reason. A late store can move the hint back; consumers then
          // walk over the ranks between.
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
    queue_result<T> item(std::in_place, c.item.read_ref().value);
    // Must not change the item: if this process is killed now, its successor pops it.
    if constexpr (sizeof(c) > line_size) leave_modified(&c.item.write_ref(), sizeof(T));
    s.last.store(at.rank(), std::memory_order_relaxed);
    s.items.store(s.items.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    c.word.store(at.rank(), std::memory_order_release);  // (8) release: pairs with (11), (22).
    return item;
  }

  // ------------------------------------------------------------------- items whose consumer uses them in their place
  // Ends the use of an item that claim_item() has claimed. An only consumer names itself first (adopt), so that its
  // next claim does not find the same inherited item.
  void release(unsigned me, const claimed& at, unsigned ring) noexcept {
    shared_seat& s = seats_[me];
    s.last.store(at.rank(), std::memory_order_relaxed);
    s.items.fetch_add(1, std::memory_order_relaxed);  // items may be released in other threads than the port's
    at.place().word.store(at.rank(), std::memory_order_release);  // (8)
    signal_room(ring);
  }
  void adopt(unsigned me, const claimed& at) noexcept {
    at.place().word.store(word::make(at.rank(), word::taken, me), std::memory_order_relaxed);
  }

  /// How far a rank that was published is.
  MUSTER_HOT item_use use_of(unsigned ring, rank_t rank) const noexcept {
    // (22) acquire: pairs with (8). The consumer has read the item before its bytes are written again.
    const rank_t now = at(ring, rank).word.load(std::memory_order_acquire);
    if (word::rank_of(now) != rank || word::state_of(now) == word::free) return item_use::finished;
    return word::state_of(now) == word::taken ? item_use::claimed : item_use::unclaimed;
  }

  /// For the only producer of a ring: calls visit(rank, item) for each item that is not finished.
  template <class Visit>
  void unfinished(unsigned ring, Visit visit) const {
    for (std::size_t i = 0; i < facts_.cells; ++i) {
      const cell& c = cells_of(ring)[i];
      // The bytes of a finished item are free now. The earlier producer's stores came before (14), or before its death.
      const rank_t now = c.word.load(std::memory_order_acquire);  // (22)
      if (word::state_of(now) == word::published || word::state_of(now) == word::taken)
        visit(word::rank_of(now), c.item.read_ref().value);
    }
  }

  /// For the only producer of a ring: finds the rank that it would claim, and makes gaps of those before it, the cells
  /// of which are held. Returns success, full, busy or closed. After success, claim_place() fails only if the queue has
  /// been closed: no other thread makes a cell less free.
  MUSTER_HOT queue_status find_place(unsigned ring, view& seen) noexcept {
    const rank_t tail = ends_[ring].tail.load(std::memory_order_relaxed);
    for (rank_t rank = tail;; rank += step) {
      candidate first{rank, at(ring, rank).word.load(std::memory_order_relaxed)};  // claim_place() looks again
      if (!first.is_free() || !fits(rank, seen)) [[unlikely]] {
        first = search_place(ring, seen, first);
        if (first.status != queue_status::success) return first.status;
        rank = first.rank;
      }
      // Otherwise a predecessor has made a gap of it, and died.
      if (before(at(ring, rank).gap.load(std::memory_order_relaxed), rank)) [[likely]] {
        // Relaxed: the next to claim from this hint is this producer, or one that follows it by (14).
        if (rank != tail) [[unlikely]]
          ends_[ring].tail.store(rank, std::memory_order_relaxed);
        return queue_status::success;
      }
    }
  }

  /// Waits for ready(), which release() of this ring or close() makes true. Returns false if the limit expired first.
  template <class Ready>
  bool await_release(const wait_limit& limit, unsigned ring, Ready ready) {
    return await(limit, header_->producers, room_key(ring), ready);
  }

  template <class Ready>
  bool await_item(const wait_limit& limit, Ready ready) {
    return await(limit, header_->consumers, item_key, ready);
  }

  // Returns true if another claim is worthwhile. The end of one ring does not count while a push into another ring is
  // in progress: a pop would find neither a closed queue nor an item.
  bool has_news() const noexcept {
    bool ended = false, held = false;
    for (unsigned ring = 0; ring < facts_.rings; ++ring) {
      rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
      switch (walk(ring, rank)) {
        case rank_state::ready:
        case rank_state::skipped: return true;
        case rank_state::end: ended = true; break;
        case rank_state::unclaimed: ended |= is_closed(); break;
        case rank_state::writing: held = true; break;
      }
    }
    return ended && !held;
  }

  // ------------------------------------------------------------------------------------------------------ the rest
  /// Returns false if this process may no longer call membarrier(2); another process must then finish.
  bool close() { return (header_->consumers.flags() & closed) != 0 || help_to_close(); }
  // Any number of threads may do this at once, and any may die meanwhile. They may find different ends, but only gaps
  // lie between: a push that claims a rank after the flag is raised makes it a gap.
  bool help_to_close() {
    const bool ordered = header_->consumers.try_raise(closing);
    header_->producers.wake_all();
    if (!ordered) return false;  // a push that missed the flag may have claimed a rank not yet visible here
    for (unsigned ring = 0; ring < facts_.rings; ++ring) {
      // Relaxed: claims that missed the flag are visible now and, by (9), the claims before them.
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
    return before(tail, end) ? (end - tail) / step : 0;
  }

  std::size_t slip() const noexcept { return std::min<std::size_t>(facts_.capacity / 4, 1024); }  // see temporal_slip
  void check() const {
    for (unsigned ring = 0; ring < facts_.rings; ++ring) {
      std::size_t items = 0, full = 0;
      rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
      rank_state seen = walk(ring, rank);
      for (; seen == rank_state::ready; seen = walk(ring, rank)) ++items, rank += step;
      MUSTER_CHECK(seen != rank_state::writing, "shared_queue: a rank is claimed and never published");
      MUSTER_CHECK(items <= facts_.capacity, "shared_queue: more items than the capacity");
      for (std::size_t i = 0; i < facts_.cells; ++i)
        full += word::state_of(cells_of(ring)[i].word.load(std::memory_order_relaxed)) == word::published;
      MUSTER_CHECK(items == full, "shared_queue: a cell holds an item that no pop would find");
    }
  }

  // ------------------------------------------------------------------------------------------------------- recovery
  // Takes a free seat for `process`. Returns 0 if there is none.
  unsigned acquire_seat(std::uint64_t process, std::uint32_t role) {
    for (unsigned s = 1; s < facts_.seats; ++s) {
      std::uint64_t unheld = 0;
      // (12) acquire: pairs with (13).
      if (seats_[s].holder.load(std::memory_order_relaxed) != 0 ||
          !seats_[s].holder.compare_exchange_strong(unheld, process, std::memory_order_acquire,
                                                    std::memory_order_relaxed))
        continue;
      seats_[s].role.store(role, std::memory_order_relaxed);
      return s;
    }
    return 0;
  }

  // Makes seat `me` the only one of its kind. Returns false if another seat is, and its holder is alive or left items.
  template <class Give>
  bool own(sync::atomic<std::uint32_t>& place, unsigned me, std::uint64_t process, Give give) {
    for (;;) {
      std::uint32_t owner = 0;
      // (14) acquire: pairs with (15). The new owner continues where the last one stopped.
      if (place.compare_exchange_strong(owner, me, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      const recovery before_us = clear_up(owner, process, give);
      if (before_us != recovery::done && place.load(std::memory_order_relaxed) == owner) return false;
    }
  }

  // For the only consumer: the first item that dead predecessors had claimed and not taken.
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

  void release_seat(unsigned me) {
    for (unsigned ring = 0; ring < facts_.rings; ++ring)
      for (sync::atomic<std::uint32_t>* place : {&ends_[ring].producer, &ends_[ring].consumer}) {
        std::uint32_t owner = me;
        // (15) release: pairs with (14).
        place->compare_exchange_strong(owner, 0, std::memory_order_release, std::memory_order_relaxed);
      }
    // Reset here, not by the next holder: if that is killed at once, these values must not be attributed to it.
    seats_[me].role.store(0, std::memory_order_relaxed);
    seats_[me].last.store(0, std::memory_order_relaxed);
    seats_[me].items.store(0, std::memory_order_relaxed);
    seats_[me].holder.store(0, std::memory_order_release);  // (13) release: pairs with (12), and shared_info.hpp (1).
  }

  // Leaves seat `me` as if its process had died, so that others recover what it has claimed.
  void abandon_seat(unsigned me) noexcept {
    sync::atomic<std::uint64_t>& holder = seats_[me].holder;
    // (24) release: pairs with (23). A recoverer sees what this thread's claims have seen.
    holder.store(Life::ended(holder.load(std::memory_order_relaxed)), std::memory_order_release);
  }

  // Recovers seat `s` if its holder is dead. Calls `give(item)` for each item that it had claimed.
  template <class Give>
  recovery clear_up(unsigned s, std::uint64_t process, Give give) {
    if (s >= facts_.seats) return recovery::none_dead;  // nonsense written by a process
    shared_seat& seat = seats_[s];
    const auto is_dead = [&] {
      // (23) acquire: pairs with (24), of a process that has given up its seat and lives.
      const std::uint64_t holder = seat.holder.load(std::memory_order_acquire);
      return holder != 0 && !Life::alive(holder);
    };
    if (!is_dead()) return recovery::none_dead;
    std::uint64_t recoverer = seat.recoverer.load(std::memory_order_relaxed);
    if (recoverer != 0 && Life::alive(recoverer)) return recovery::done_by_other;
    // (16) acquire: pairs with (17). The previous recoverer has finished, or is dead.
    if (!seat.recoverer.compare_exchange_strong(recoverer, process, std::memory_order_acquire,
                                                std::memory_order_relaxed))
      return recovery::done_by_other;
    const scope_exit done(
        [&] { seat.recoverer.store(0, std::memory_order_release); });  // (17) release: pairs with (16).
    if (!is_dead()) return recovery::none_dead;

    bool left = false;
    for (unsigned ring = 0; ring < facts_.rings; ++ring)
      for (std::size_t i = 0; i < facts_.cells; ++i) {
        cell& c = cells_of(ring)[i];
        // Relaxed: a process that finds another dead sees everything that it did, as the kernel was in between.
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
          give(c.item.read_ref().value);
          give_back(ring, word::rank_of(now));
        }
      }
    if (left) return recovery::left;
    header_->deaths.fetch_add(1, std::memory_order_relaxed);  // first: counting twice is better than never
    release_seat(s);
    return recovery::done;
  }

  // Called after a wait without result: recovers every dead producer that blocks consumers. A process may have died
  // with many ports, and waiting for each in turn would be too slow. Every iteration but the last frees a seat.
  void help(unsigned ring, std::uint64_t process) {
    for (std::size_t most = facts_.seats; most != 0; --most) {
      rank_t rank = ends_[ring].head.load(std::memory_order_relaxed);
      if (walk(ring, rank) != rank_state::writing) return;
      const unsigned owner = word::seat_of(at(ring, rank).word.load(std::memory_order_relaxed));
      if (owner == 0 || clear_up(owner, process, leave_items{}) != recovery::done) return;
    }
  }

 private:
  static constexpr std::uint32_t item_key = 0;
  static constexpr std::uint32_t room_key(unsigned ring) noexcept { return ring; }

  cell& at(unsigned ring, rank_t rank) const noexcept { return cells_of(ring)[(rank / step) & (facts_.cells - 1)]; }
  cell* cells_of(unsigned ring) const noexcept {
    return reinterpret_cast<cell*>(Shape::many_rings ? cells_ + ring * ring_bytes_ : cells_);
  }
  rank_t span() const noexcept { return step * facts_.cells; }
  rank_t room_end(rank_t head) const noexcept { return head + step * facts_.capacity; }

  /// Returns the rank to check after `rank`, whose cell's word has rank `known`, the same or a later one. The producer
  /// that claimed `known` had room for it, so every rank a lap before it is finished.
  rank_t after(rank_t rank, rank_t known) const noexcept {
    const rank_t lap = known - span() + step;
    return before(rank + step, lap) ? lap : rank + step;
  }

  enum class rank_state { ready, skipped, writing, end, unclaimed };
  // A rank that can be claimed, and its cell's word; or why there is none.
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
        ends_[ring].tail.store(rank, std::memory_order_release);  // (10): await_room() must ask for this rank
        return {rank, now, is_closed() ? queue_status::closed : room ? queue_status::busy : queue_status::full};
      } else if (word::state_of(now) == word::free) {
        return {rank, now};
      } else {
        // A stopped consumer or producer holds the cell for an earlier rank.
        make_gap(at(ring, rank), rank);
        rank += step;
        ++gaps;
      }
    }
  }

  // Returns false if another thread has claimed the rank or made it a gap.
  MUSTER_HOT bool claim(cell& c, unsigned ring, rank_t rank, rank_t known, unsigned me) noexcept {
    if constexpr (Shape::one_producer) {
      // No other thread claims. Gaps are this producer's own, or of a dead predecessor and then older than this seat.
      if (!before(c.gap.load(std::memory_order_relaxed), rank)) return false;
      c.word.store(word::make(rank, word::written, me), std::memory_order_relaxed);
      return true;
    }
    // (1) seq_cst: pairs with (6).
    if (!c.word.compare_exchange_strong(known, word::make(rank, word::written, me), std::memory_order_seq_cst,
                                        std::memory_order_relaxed))
      return false;
    // (2) seq_cst: pairs with (5). Must be neither weakened nor omitted: see mpmc.hpp.
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

  // Returns true if an item of this rank fits. Reads head only if `seen` does not suffice.
  bool has_room(unsigned ring, rank_t rank, view& seen) noexcept {
    if (fits(rank, seen)) return true;
    seen = view_of(ring);
    const rank_t hint = seen.head;
    if (!fits(rank, seen)) {
      // The hint may lag, and perhaps no consumer ever passes the gaps at the front.
      walk(ring, seen.head);
      // (21) release: pairs with (18).
      if (seen.head != hint) ends_[ring].head.store(seen.head, std::memory_order_release);
    }
    return fits(rank, seen);
  }

  // Waits for ready(), but only for a while if the process that should signal it can die. Returns false if the limit
  // expired first.
  template <class Ready>
  static bool await(const wait_limit& limit, eventcount& events, std::uint32_t key, Ready ready) {
    if constexpr (Life::mortal) return limit.template poll<Wait>(events, key, ready, patience);
    return limit.template await<Wait>(events, key, ready);
  }

  // Ensures that no item will have this rank, unless its producer is already writing it.
  void make_gap(cell& c, rank_t rank) noexcept {
    rank_t known = c.gap.load(std::memory_order_relaxed);
    while (before(known, rank)) {
      // (3) relaxed: alone. (2) and (5) use only its value, and need nothing that came before it.
      if (c.gap.compare_exchange_weak(known, rank, std::memory_order_relaxed, std::memory_order_relaxed)) break;
    }
    signal_item();
  }

  // Always checks for sleepers: other programs may use the queue with another Wait.
  void signal_item() noexcept {
    if (header_->consumers.waiters_after_event(eventcount::bit(item_key)) != 0) [[unlikely]]
      header_->consumers.wake(item_key);
  }

  void signal_room(unsigned ring) noexcept {
    if (header_->producers.waiters_after_event(eventcount::bit(room_key(ring))) == 0) [[likely]]
      return;
    // Producers of other rings may have the same key and cannot use this room.
    if constexpr (Shape::many_rings) header_->producers.wake(room_key(ring));
    else header_->producers.wake_one(room_key(ring));
  }

  // -----------------------------------------------------------------------------------------------------------
  // consumers

  // Advances `rank` to the first one that is not finished.
  MUSTER_HOT rank_state walk(unsigned ring, rank_t& rank) const noexcept {
    for (rank_t next = 0;; rank = next) {
      // (4) acquire: pairs with (7) and (20).
      const rank_t now = at(ring, rank).word.load(std::memory_order_acquire);
      if (now == word::make(rank, word::published)) [[likely]]
        return rank_state::ready;
      if (const rank_state seen = look_closer(ring, rank, now, next); seen != rank_state::skipped) return seen;
    }
  }

  // Returns the state of `rank`, whose cell's word was `now`. If it is finished, `next` is the rank to check next.
  MUSTER_COLD rank_state look_closer(unsigned ring, rank_t rank, rank_t now, rank_t& next) const noexcept {
    if (before(word::rank_of(now), rank)) {
      const cell& c = at(ring, rank);
      // (5) seq_cst: pairs with (2).
      if (before(c.gap.load(std::memory_order_seq_cst), rank)) {
        const bool over = (header_->consumers.flags() & closed) != 0 &&
                          !before(rank, ends_[ring].end.load(std::memory_order_relaxed));
        return over ? rank_state::end : rank_state::unclaimed;
      }
      // (6) seq_cst: pairs with (1). An acquire is not enough: see mpmc.hpp.
      now = c.word.load(std::memory_order_seq_cst);
      if (before(word::rank_of(now), rank)) return next = rank + step, rank_state::skipped;
    }
    if (word::rank_of(now) == rank) {
      if (word::state_of(now) == word::published) return rank_state::ready;
      if (word::state_of(now) == word::written) return rank_state::writing;
    }
    next = after(rank, word::rank_of(now));
    return rank_state::skipped;
  }

  // Claims the item of a published rank. Returns false if another consumer claimed it first.
  MUSTER_HOT bool claim_item_of(cell& c, rank_t rank, unsigned me) noexcept {
    const rank_t mine = word::make(rank, word::taken, me);
    if constexpr (Shape::one_consumer) {
      // Relaxed: no other consumer passes this item, and a successor sees all that this consumer has seen.
      c.word.store(mine, std::memory_order_relaxed);
      return true;
    }
    rank_t known = word::make(rank, word::published);
    // (20) release: pairs with (4). A consumer that passes this item sees all that this one has seen, such as a close.
    return c.word.compare_exchange_strong(known, mine, std::memory_order_release, std::memory_order_relaxed);
  }

  const shared_metadata facts_;  // a copy that no other process can change
  shared_header* header_;
  shared_seat* seats_;
  shared_ends* ends_;
  std::size_t ring_bytes_;
  unsigned char* cells_;
};

}  // namespace muster::inline MUSTER_ABI::detail
