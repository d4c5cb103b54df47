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
// close() claims a rank as a producer does, regardless of room, and leaves ended(r) in the cell. No producer gets past
// it.
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

// Claims the first rank that can be had. Never waits.
MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::claim_place(rank_t& rank) noexcept -> place {
  // (10) acquire: pairs with (11). Whoever takes the hint knows of the claims before it, as if it had walked there.
  rank = tail_.load(std::memory_order_acquire);
  for (;;) {
    // (9) acquire: pairs with (7), (8). In case 1 the consumer has moved the old item out before we overwrite it; in
    // case 2 what we do next comes after the claim we saw.
    const rank_t word = at(rank).word.load(std::memory_order_acquire);
    if (!before(rank_of(word), rank)) {
      if (word == ended(rank_of(word))) return ending(rank_of(word));
      rank += step;
    } else if (!has_room(rank)) {
      if (is_closed()) return place::closed;
      tail_.store(rank, std::memory_order_release);  // (11): whoever waits for room must ask for this rank
      return place::full;
    } else if (!is_free(word)) {
      if (!make_gap(rank)) return ending(rank);
      rank += step;
    } else if (claim(rank, word, written(rank))) [[likely]] {
      // (11) release: pairs with (10). A late store can set the hint back; producers then walk over the ranks between.
      tail_.store(rank + step, std::memory_order_release);
      return place::granted;
    }
    // After a claim that failed, the same rank again: it may be the end, or still free.
  }
}

// The answer to a producer that has come to the mark of the end: closed, or ending while close() may take it back.
MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::ending(rank_t rank) noexcept -> place {
  tail_.store(rank, std::memory_order_release);  // (11): whoever waits for close() looks there
  return is_closed() ? place::closed : place::ending;
}

MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::is_ending() const noexcept {
  const rank_t rank = tail_.load(std::memory_order_acquire);                            // (10)
  return at(rank).word.load(std::memory_order_acquire) == ended(rank) && !is_closed();  // (9)
}

// Case 1. False when the rank has been claimed by another or passed over.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::claim(rank_t rank, rank_t word, rank_t state) noexcept {
  cell& c = at(rank);
  // (1) seq_cst: pairs with (6).
  if (!c.word.compare_exchange_strong(word, state, std::memory_order_seq_cst, std::memory_order_relaxed)) return false;
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
  if (!limit.template await<Wait>(producers_, room_key, ready)) {
    // A wake-up may have been meant for us and found us leaving: hand it on.
    if (producers_.after_event() != 0) producers_.wake_one(room_key);
    return false;
  }
  let_slip(1, slip_, 32, [this] { return free_places(); });
  return true;
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::try_emplace(Args&&... args) {
  rank_t rank = 0;
  switch (claim_place(rank)) {
    case place::full: return queue_status::full;
    case place::ending: return queue_status::busy;
    case place::closed: return queue_status::closed;
    case place::granted: publish(rank, std::forward<Args>(args)...);
  }
  return queue_status::success;
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  for (;;) {
    const queue_status now = try_emplace(std::forward<Args>(args)...);
    if (now == queue_status::full) {
      if (!await_room(limit)) return now;
    } else if (now == queue_status::busy) {
      if (!limit.template await<Wait>(producers_, room_key, [this] { return !is_ending(); })) return now;
    } else {
      return now;
    }
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
      static_cast<void>(make_gap(rank));
      give_back(rank);
      throw;
    }
  }
  // (7) release: pairs with (4), (9). The item is complete before its consumer can see it.
  c.word.store(published(rank), std::memory_order_release);
  signal_rank(rank);
}

// No item will have this rank, unless its producer is writing it already. False when the queue ends here.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::make_gap(rank_t rank) noexcept {
  cell& c = at(rank);
  // (12) acquire: pairs with (3). When another has raised the gap, we look at the word after it.
  rank_t known = c.gap.load(std::memory_order_acquire);
  while (before(known, rank)) {
    // (3) seq_cst, acquire when it fails: pairs with (2), (12), and, as a release, with (5).
    if (c.gap.compare_exchange_weak(known, rank, std::memory_order_seq_cst, std::memory_order_acquire)) break;
  }
  signal_rank(rank);
  // (6): close() may have claimed the rank without seeing the gap.
  return c.word.load(std::memory_order_seq_cst) != ended(rank);
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
  for (; done < count; ++done, ++first)
    if (emplace_within(wait_limit{}, *first) != queue_status::success) break;
  return done;
}

MUSTER_MPMC
template <class InputIt>
std::size_t MUSTER_MPMC_QUEUE::try_push_n(InputIt first, std::size_t count) {
  std::size_t done = 0;
  for (; done < count; ++done, ++first)
    if (try_emplace(*first) != queue_status::success) break;
  return done;
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::close() {
  rank_t rank = tail_.load(std::memory_order_acquire);  // (10)
  for (;;) {
    const rank_t word = at(rank).word.load(std::memory_order_acquire);  // (9)
    if (word == ended(rank)) {
      // Another thread is closing the queue. When we return, no push may succeed any more.
      if (ending(rank) == place::closed) return;
      producers_.await<Wait>(room_key, [this] { return !is_ending(); }, no_deadline);
    } else if (!before(rank_of(word), rank)) {
      rank += step;
    } else if (!is_free(word)) {
      if (make_gap(rank)) rank += step;
    } else if (claim(rank, word, ended(rank))) {
      break;
    }
  }
  end_.store(rank, std::memory_order_relaxed);
  consumers_.raise(closed);
  producers_.wake_all();
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
