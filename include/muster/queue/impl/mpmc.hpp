// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/mpmc.hpp: the definitions of mpmc_queue's producers, close() and what belongs to neither side. The consumers are
// in impl/mpmc_consumers.hpp.
//
// Ranks are claimed in order and in their cells: a producer goes to rank r + 1 only after it has seen rank r claimed or
// passed over, so every rank before an unclaimed one is resolved or being written. The paper claims a rank by fetch-add
// on tail and then the cell by compare-and-set; as the cell's word holds the rank, the second claim alone is enough,
// and tail becomes a hint. It also means that a producer that is stopped outside (1) … (7) has promised nothing to
// anybody.
//
// A producer at rank r finds the word of its cell c
//   1. free, of an earlier rank: it writes written(r) (1), then looks at c.gap (2). If c.gap < r, the cell is its own
//      until it publishes. If c.gap >= r, somebody passed r over before and its consumer may have gone on: it frees the
//      cell and goes to the next rank.
//   2. of rank r or later: r has been claimed; next rank.
//   3. in use for an earlier rank: a consumer still reads it, or a producer still writes it, a lap late. It raises
//      c.gap to r (3), so that the consumer of r goes on; next rank.
// A consumer that claimed rank r waits until
//   1. c.word = published(r): the item is its own;
//   2. c.gap >= r and then c.word is neither published(r) nor written(r): no item will have rank r; it claims the next;
//   3. the queue is closed and r >= end_: no item will have rank r or a later one.
// The paper reads and writes word and gap together, by a double-word compare-and-set. Here the producer writes the word
// and then reads the gap, while the other side writes the gap and then reads the word; all four are sequentially
// consistent, so at least one of the two sees the other (Dekker). If both do, the producer frees the cell and the
// consumer waits for that: it saw written(r).
//
// close() and a push that overlap: the push claims its rank and then looks for the flag; close() raises the flag and
// then looks for the first rank that nobody has claimed or passed over, which is the end. So the push sees the flag, or
// close() its claim; maybe both, and then the push makes its rank a gap. Ranks are claimed in order, so whatever a push
// that missed the flag has claimed lies before the end.
#pragma once

#include <muster/queue/mpmc.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_MPMC template <class T, class Layout, class Wait>
#define MUSTER_MPMC_QUEUE mpmc_queue<T, Layout, Wait>

MUSTER_MPMC
MUSTER_MPMC_QUEUE::mpmc_queue(std::size_t capacity, queue_options options)
    : cells_(detail::ring_cells("mpmc_queue", capacity, options, options.threads, sizeof(cell))),
      capacity_(capacity),
      slip_(std::min<std::size_t>(capacity / 4, 1024)),
      head_(options.first_rank * step),
      tail_(options.first_rank * step),
      head_seen_(options.first_rank * step),
      end_(options.first_rank * step) {
  // As if the ranks of the lap before the first had been pushed and popped.
  for (rank_t i = 1; i <= cells_.cells(); ++i) {
    const rank_t rank = (options.first_rank - i) * step;
    at(rank).word.store(free(rank), std::memory_order_relaxed);
    at(rank).gap.store(rank, std::memory_order_relaxed);
  }
}

MUSTER_MPMC
MUSTER_MPMC_QUEUE::~mpmc_queue() {
  for (std::size_t i = 0; i < cells_.cells(); ++i) {
    cell& c = cells_.at(i);
    const rank_t word = c.word.load(std::memory_order_relaxed);
    if (word == published(rank_of(word))) c.item.ref().destroy();
  }
}

// --------------------------------------------------------------------------------------------------------- producers

// Claims the first rank that can be had: success, or why there is none. Never waits.
MUSTER_MPMC
queue_status MUSTER_MPMC_QUEUE::claim_place(rank_t& rank) noexcept {
  if (is_closed()) return queue_status::closed;
  // (9) acquire: pairs with (10). Whoever takes the hint knows of the claims before it, as if it had walked there.
  rank = tail_.load(std::memory_order_acquire);
  for (std::size_t gaps = 0;;) {
    // Relaxed: in case 1 the claim acquires; in case 2 it is enough that whoever knows of our claim knows what we saw.
    const rank_t word = at(rank).word.load(std::memory_order_relaxed);
    if (!before(rank_of(word), rank)) {
      rank += step;
    } else if (const bool room = has_room(rank); !room || gaps == cells_.cells()) {
      tail_.store(rank, std::memory_order_release);  // (10): whoever waits for room must ask for this rank
      return is_closed() ? queue_status::closed : room ? queue_status::busy : queue_status::full;
    } else if (!is_free(word)) {
      make_gap(rank);
      rank += step;
      ++gaps;
    } else if (claim(rank, word)) [[likely]] {
      // (10) release: pairs with (9). A late store can set the hint back; producers then walk over the ranks between.
      tail_.store(rank + step, std::memory_order_release);
      if ((consumers_.after_event() & closing) == 0) [[likely]]
        return queue_status::success;
      make_gap(rank);
      give_back(rank);
      return queue_status::closed;
    }
    // After a claim that failed, the same rank again: it may still be free.
  }
}

// Case 1. False when the rank has been claimed by another or passed over.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::claim(rank_t rank, rank_t word) noexcept {
  cell& c = at(rank);
  // (1) seq_cst: pairs with (6) and, as an acquire, with (8): the consumer has moved the old item out.
  if (!c.word.compare_exchange_strong(word, written(rank), std::memory_order_seq_cst, std::memory_order_relaxed))
    return false;
  // (2) seq_cst: pairs with (3). Not to be weakened, nor left out: see the top of the file.
  if (before(c.gap.load(std::memory_order_seq_cst), rank)) [[likely]]
    return true;
  give_back(rank);
  return false;
}

// Frees the cell of a claimed rank that is a gap.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::give_back(rank_t rank) noexcept {
  at(rank).word.store(free(rank), std::memory_order_release);  // (8)
  signal_rank(rank);
  // A producer that found no room may step over the gap now.
  if constexpr (Wait::parks)
    if (producers_.after_event() != 0) producers_.wake_one(room_key);
}

// Whether an item of this rank fits. Looks at head_ only when what is known does not answer it.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::has_room(rank_t rank) noexcept {
  // Relaxed, and it may go back when two threads store here: any value that head_ has had is a sound bound.
  if (before(rank, room_end(head_seen_.load(std::memory_order_relaxed)))) [[likely]]
    return true;
  rank_t head = head_.load(std::memory_order_relaxed);
  // With nothing but gaps at the front, nobody might ever claim them, so a producer that finds no room does.
  while (!before(rank, room_end(head)) && look(head) == outlook::gap)
    if (head_.compare_exchange_strong(head, head + step, std::memory_order_relaxed)) {
      claimed(1);
      head += step;
    }
  head_seen_.store(head, std::memory_order_relaxed);
  return before(rank, room_end(head));
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::free_places() noexcept {
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  if (!has_room(tail)) return 0;
  const rank_t end = room_end(head_.load(std::memory_order_relaxed));
  return before(tail, end) ? static_cast<std::size_t>((end - tail) / step) : 0;
}

// Waits for room or the end. False when the limit came first.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_room(const wait_limit& limit) {
  const auto ready = [this] { return has_room(tail_.load(std::memory_order_relaxed)) || is_closed(); };
  if (!limit.template await<Wait>(producers_, room_key, ready)) return false;
  producer_slip_.after_wait(slip_, [this] { return free_places(); });
  return true;
}

// Waits a moment, when stopped threads hold every cell: nobody tells us that one is free. False when the limit came.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_cell(const wait_limit& limit) {
  const auto ready = [this] {
    const rank_t rank = tail_.load(std::memory_order_relaxed);
    return is_free(at(rank).word.load(std::memory_order_relaxed)) || is_closed();
  };
  return limit.template poll<Wait>(producers_, cell_key, ready);
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::try_emplace(Args&&... args) {
  rank_t rank = 0;
  const queue_status claim = claim_place(rank);
  if (claim == queue_status::success) [[likely]]
    publish(rank, std::forward<Args>(args)...);
  return claim;
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  for (;;) {
    const queue_status now = try_emplace(std::forward<Args>(args)...);
    if (now == queue_status::success || now == queue_status::closed) return now;
    if (limit.over() || !(now == queue_status::full ? await_room(limit) : await_cell(limit))) return now;
  }
}

// Writes the item of a claimed rank.
MUSTER_MPMC
template <class... Args>
void MUSTER_MPMC_QUEUE::publish(rank_t rank, Args&&... args) {
  cell& c = at(rank);
  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
    c.item.ref().construct(std::forward<Args>(args)...);
  } else {
    try {
      c.item.ref().construct(std::forward<Args>(args)...);
    } catch (...) {
      make_gap(rank);
      give_back(rank);
      throw;
    }
  }
  // (7) release: pairs with (4). The item is complete before its consumer can see it.
  c.word.store(published(rank), std::memory_order_release);
  signal_rank(rank);
}

// No item will have this rank, unless its producer is writing it already.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::make_gap(rank_t rank) noexcept {
  cell& c = at(rank);
  rank_t known = c.gap.load(std::memory_order_relaxed);
  while (before(known, rank)) {
    // (3) seq_cst: pairs with (2) and, as a release, with (5).
    if (c.gap.compare_exchange_weak(known, rank, std::memory_order_seq_cst, std::memory_order_relaxed)) break;
  }
  signal_rank(rank);
}

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::signal_rank(rank_t rank) noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = consumers_.after_event(); sleepers != 0) [[unlikely]] {
      if (event_mask::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
      if (event_mask::wakes(sleepers, head_key)) consumers_.wake(head_key);
    }
}

MUSTER_MPMC
template <class InputIt>
std::size_t MUSTER_MPMC_QUEUE::push_n(InputIt first, std::size_t count) {
  std::size_t done = 0;
  while (done < count && emplace_within(wait_limit{}, *first) == queue_status::success)
    if (++done != count) ++first;
  return done;
}

MUSTER_MPMC
template <class InputIt>
std::size_t MUSTER_MPMC_QUEUE::try_push_n(InputIt first, std::size_t count) {
  std::size_t done = 0;
  while (done < count && try_emplace(*first) == queue_status::success)
    if (++done != count) ++first;
  return done;
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::close() {
  if (!consumers_.raise(closing)) return;
  producers_.wake_all();
  // Relaxed, and in is_passed(): the claims that missed the flag are visible now, and by (9) those before them.
  rank_t rank = tail_.load(std::memory_order_relaxed);
  while (is_passed(rank)) rank += step;
  end_.store(rank, std::memory_order_relaxed);
  consumers_.raise(closed);
}

// Whether a rank has been claimed or passed over.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::is_passed(rank_t rank) const noexcept {
  const cell& c = at(rank);
  return !before(rank_of(c.word.load(std::memory_order_relaxed)), rank) ||
         !before(c.gap.load(std::memory_order_relaxed), rank);
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::size_approx() const noexcept { return std::min(unclaimed(), capacity_); }

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::check() const {
  rank_t rank = head_.load(std::memory_order_relaxed);
  std::size_t items = 0;
  outlook seen = look(rank);
  for (; is_resolved(seen); rank += step, seen = look(rank)) items += seen == outlook::ready;
  MUSTER_CHECK(seen == outlook::unclaimed || seen == outlook::over,
               "mpmc_queue: a rank is claimed and never published");
  MUSTER_CHECK(items <= capacity_, "mpmc_queue: more items than the capacity");
  std::size_t full = 0;
  for (std::size_t i = 0; i < cells_.cells(); ++i) {
    const rank_t word = cells_.at(i).word.load(std::memory_order_relaxed);
    full += word == published(rank_of(word));
  }
  MUSTER_CHECK(items == full, "mpmc_queue: a cell holds an item that no pop would find");
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/mpmc_consumers.hpp>  // the rest of the definitions
