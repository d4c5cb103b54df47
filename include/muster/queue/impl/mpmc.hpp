// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/mpmc.hpp: the definitions of mpmc_queue's producers, close() and what belongs to neither side. Gaps are in
// impl/mpmc_gaps.hpp, the consumers in impl/mpmc_consumers.hpp.
//
// A producer takes its rank by one step on tail, as in the paper: a fetch-add while there is room for all threads, a
// compare-exchange when the queue is nearly full, so that nobody takes a rank that there is no room for. A thread that
// was suspended before its fetch-add while others filled the queue still may. It then waits for the room of its rank,
// as a pop waits for its item; so only a push that may wait for ever takes its rank by fetch-add. (It must not give the
// rank up: when others have gone on from there, it would be a gap that takes the place which the next pop frees.)
// Whoever has taken a rank resolves it. At rank r it finds the word of its cell c
//   1. free, of an earlier rank: it writes written(r) (1), then looks at c.gap (2). If c.gap < r, the cell is its own
//      until it publishes. If c.gap >= r, a rank of a later lap is a gap here, and the consumer of r may have gone on:
//      it frees the cell and takes another rank.
//   2. of a later rank: it is itself a lap late. It raises c.gap to r (3), so that the consumer of r goes on, and takes
//      another rank.
//   3. in use for an earlier rank: a consumer still reads it, or a producer still writes it, a lap late. As 2.
// A gap takes no place: a queue with gaps has room for as many more ranks, while there are cells (fits_beside_gaps).
// A consumer that claimed rank r waits until
//   1. c.word = published(r): the item is its own;
//   2. c.gap >= r and then c.word is neither published(r) nor written(r): no item will have rank r; it claims the next;
//   3. the queue is closed and r >= end_: no item will have rank r or a later one.
// The paper reads and writes word and gap together, by a double-word compare-and-set. Here the producer writes the word
// (1) and then reads the gap (2), while the consumer reads the gap (5) and then the word (6); all four are sequentially
// consistent. When (2) comes before (5), (6) sees the word; otherwise (2) sees the gap that (5) has seen. If both do,
// the producer frees the cell and the consumer waits for that: it saw written(r).
//
// close() and a push that overlap: the push takes its rank, then looks for the flag; close() raises the flag and then
// reads tail, which is the end. So the push sees the flag, or close() its rank; maybe both, and then the push makes its
// rank a gap. Whatever a push that missed the flag has taken lies before the end, and every rank before it is resolved.
#pragma once

#include <muster/queue/mpmc.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_MPMC template <class T, class Layout, class Wait>
#define MUSTER_MPMC_QUEUE mpmc_queue<T, Layout, Wait>

MUSTER_MPMC
MUSTER_MPMC_QUEUE::mpmc_queue(std::size_t capacity, queue_options options)
    : cells_(detail::ring_cells("mpmc_queue", capacity, options, options.threads, ring<cell, Layout>::cell_size)),
      capacity_(capacity),
      slip_(std::min<std::size_t>(capacity / 4, 1024)),
      spare_(step * options.threads),
      loose_(spare_ + step * std::min(slip_ / 4, (std::max(capacity, options.threads) - options.threads) / 2)),
      head_(options.first_rank * step),
      tail_(options.first_rank * step),
      head_seen_(options.first_rank * step),
      tight_(capacity <= options.threads),
      gap_count_(std::min<std::size_t>(cells_.cells() - capacity, 64)),
      gaps_(std::make_unique<sync::atomic<rank_t>[]>(gap_count_)),
      gaps_end_(options.first_rank * step),
      end_(options.first_rank * step) {
  // As if the ranks of the lap before the first had been pushed and popped.
  for (rank_t i = 1; i <= cells_.cells(); ++i) {
    const rank_t rank = (options.first_rank - i) * step;
    at(rank).word.store(free(rank), std::memory_order_relaxed);
    at(rank).gap.store(rank, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < gap_count_; ++i)
    gaps_[i].store((options.first_rank - 1) * step, std::memory_order_relaxed);
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

// Takes a rank and its cell: success, or why there is none. Waits only for who may wait for ever: a moment at the edge
// of full, where every push would look at head_, which every pop writes; and with a rank that there is no room for.
MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::claim_place(bool for_ever) -> place {
  if (rank_t rank = 0; !is_closed() && !tight_.load(std::memory_order_relaxed) && take_rank(rank, for_ever) &&
                       claim(rank) && may_keep(rank)) [[likely]]
    return {queue_status::success, rank};
  if (for_ever && step * slip_ > loose_ && tight_.load(std::memory_order_relaxed) && !is_closed()) slip();
  return claim_place_slowly(for_ever);
}

MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::claim_place_slowly(bool for_ever) -> place {
  for (std::size_t gaps = 0; gaps <= cells_.cells(); ++gaps) {
    if (is_closed()) return {queue_status::closed, 0};
    rank_t rank = 0;
    if (!(for_ever && !tight_.load(std::memory_order_relaxed) ? take_rank(rank, true) : take_rank_with_room(rank)))
      return {is_closed() ? queue_status::closed : queue_status::full, 0};
    if (claim(rank) && may_keep(rank)) return {queue_status::success, rank};
  }
  return {queue_status::busy, 0};
}

// Takes the rank at tail_, which the caller must resolve, by one step. False when there was no room, or another thread
// was faster.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::take_rank(rank_t& rank, bool for_ever) {
  if (for_ever) {
    // (9) release: pairs with (12). Who finds a later tail knows of the pops that the producers before it knew of, and
    // does not say full because of places that were free before they began.
    rank = tail_.fetch_add(step, std::memory_order_release);
    return knows_room(rank + spare_) || await_own_room(rank);
  }
  rank = tail_.load(std::memory_order_relaxed);
  if (!knows_room(rank)) return false;
  rank_t tail = rank;
  // (9)
  return tail_.compare_exchange_strong(tail, rank + step, std::memory_order_release, std::memory_order_relaxed);
}

// The same, looking for room until there is none.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::take_rank_with_room(rank_t& rank) {
  // (12) acquire and release: pairs with (9).
  rank = tail_.load(std::memory_order_acquire);
  do {
    if (!has_room(rank)) return false;
    // (12)
  } while (!tail_.compare_exchange_weak(rank, rank + step, std::memory_order_release, std::memory_order_acquire));
  if (before(rank + loose_, room_end(head_seen_.load(std::memory_order_relaxed))))
    tight_.store(false, std::memory_order_relaxed);
  return true;
}

// Waits until there is room for a rank that was taken. False when the queue is closed, and then the rank is a gap.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_own_room(rank_t rank) {
  if (has_room(rank + loose_)) [[likely]]
    return true;
  tight_.store(true, std::memory_order_relaxed);
  if (has_room(rank)) return true;
  producers_.await<Wait>(own_key, [&] { return has_room(rank) || is_closed(); }, no_deadline);
  if (!is_closed()) return true;
  make_gap(rank);
  return false;
}

// Takes the cell of a rank that was taken. False when the rank is a gap.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::claim(rank_t rank) noexcept {
  cell& c = at(rank);
  // What it is unless somebody was a lap late. Not loaded first: the line comes once, to be written.
  rank_t word = free(rank - step * cells_.cells());
  // (1) seq_cst: pairs with (6) and, as an acquire, with (8): the consumer has moved the old item out.
  if (!c.word.compare_exchange_strong(word, written(rank), std::memory_order_seq_cst, std::memory_order_relaxed))
      [[unlikely]]
    if (!claim_late(rank, word)) return false;
  // (2) seq_cst: pairs with (5). Not to be weakened, nor left out: see the top of the file.
  if (before(c.gap.load(std::memory_order_seq_cst), rank)) [[likely]]
    return true;
  give_back(rank);
  return false;
}

// The same where the cell's word is not that of the lap before, but `word`.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::claim_late(rank_t rank, rank_t word) noexcept {
  while (is_free(word) && before(word, rank)) {
    // (1)
    if (at(rank).word.compare_exchange_strong(word, written(rank), std::memory_order_seq_cst,
                                              std::memory_order_relaxed))
      return true;
  }
  make_gap(rank);
  return false;
}

// Whether a rank that was claimed may have an item. False when the queue is being closed, and then the rank is a gap.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::may_keep(rank_t rank) noexcept {
  if (consumers_.after_event(closing) == 0) [[likely]]
    return true;
  make_gap(rank);
  give_back(rank);
  return false;
}

// There may be room where there was none.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::signal_room() noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = producers_.after_event(); sleepers != 0) [[unlikely]] {
      if (event_mask::wakes(sleepers, room_key)) producers_.wake_one(room_key);
      if (event_mask::wakes(sleepers, own_key)) producers_.wake(own_key);
    }
}

// Whether an item of this rank fits, by what is known of head_.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::knows_room(rank_t rank) const noexcept {
  // Relaxed, and it may go back when two threads store here: any value that head_ has had is a sound bound.
  return before(rank, room_end(head_seen_.load(std::memory_order_relaxed)));
}

// Whether an item of this rank fits. Looks at head_ only when what is known does not answer it.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::has_room(rank_t rank) noexcept {
  if (knows_room(rank)) return true;
  rank_t head = head_.load(std::memory_order_relaxed);
  // With nothing but gaps at the front, nobody might ever claim them, so a producer that finds no room does.
  while (!before(rank, room_end(head)) && look(head) == outlook::gap)
    if (head_.compare_exchange_strong(head, head + step, std::memory_order_relaxed)) {
      claimed(1);
      head += step;
    }
  head_seen_.store(head, std::memory_order_relaxed);
  return before(rank, room_end(head)) || fits_beside_gaps(rank, head);
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::free_places() noexcept {
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  if (!has_room(tail)) return 0;
  const rank_t head = head_.load(std::memory_order_relaxed);
  head_seen_.store(head, std::memory_order_relaxed);  // after a slip, the next push knows of all the room
  const rank_t end = room_end(head);
  return before(tail, end) ? static_cast<std::size_t>((end - tail) / step) : 0;
}

// Waits for room or the end. False when the limit came first.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_room(wait_limit limit) {
  const auto ready = [this] { return has_room(tail_.load(std::memory_order_relaxed)) || is_closed(); };
  if (!limit.template await<Wait>(producers_, room_key, ready)) return false;
  slip();
  return true;
}

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::slip() noexcept {
  producer_slip_.after_wait(slip_, [this] { return free_places(); });
}

// Waits a moment, when stopped threads hold every cell: nobody tells us that one is free. False when the limit came.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_cell(wait_limit limit) {
  const auto ready = [this] {
    const rank_t rank = tail_.load(std::memory_order_relaxed);
    return is_free(at(rank).word.load(std::memory_order_relaxed)) || is_closed();
  };
  return limit.template poll<Wait>(producers_, cell_key, ready);
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::try_emplace(Args&&... args) {
  const place mine = claim_place(false);
  if (mine.status == queue_status::success) [[likely]]
    publish(mine.rank, std::forward<Args>(args)...);
  return mine.status;
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  place mine = claim_place(limit.none());
  if (mine.status != queue_status::success) [[unlikely]]
    mine = await_place(mine.status, limit);
  if (mine.status == queue_status::success) [[likely]]
    publish(mine.rank, std::forward<Args>(args)...);
  return mine.status;
}

// After claim_place() in vain.
MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::await_place(queue_status why, wait_limit limit) -> place {
  while (why != queue_status::closed && !limit.over() &&
         (why == queue_status::full ? await_room(limit) : await_cell(limit))) {
    if (const place mine = claim_place_slowly(limit.none()); mine.status == queue_status::success) return mine;
    else why = mine.status;
  }
  return {why, 0};
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

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::signal_rank(rank_t rank) noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = consumers_.after_event(); sleepers != 0) [[unlikely]]
      wake_for(rank, sleepers);
}

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::wake_for(rank_t rank, std::uint32_t sleepers) noexcept {
  if (event_mask::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
  if (event_mask::wakes(sleepers, head_key)) consumers_.wake(head_key);
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::close() {
  if (!consumers_.raise(closing)) return;
  producers_.wake_all();
  // Relaxed: the ranks of pushes that missed the flag are visible now.
  end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  consumers_.raise(closed);
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::size_approx() const noexcept { return std::min(unclaimed(), capacity_); }

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::check() const {
  rank_t rank = head_.load(std::memory_order_relaxed);
  std::size_t items = 0;
  outlook seen = look(rank);
  for (; is_resolved(seen); rank += step, seen = look(rank)) items += seen == outlook::ready;
  MUSTER_CHECK(
      seen == outlook::over || (seen == outlook::unclaimed && !before(rank, tail_.load(std::memory_order_relaxed))),
      "mpmc_queue: a rank is taken and never resolved");
  MUSTER_CHECK(items <= capacity_, "mpmc_queue: more items than the capacity");
  std::size_t full = 0;
  for (std::size_t i = 0; i < cells_.cells(); ++i) {
    const rank_t word = cells_.at(i).word.load(std::memory_order_relaxed);
    full += word == published(rank_of(word));
  }
  MUSTER_CHECK(items == full, "mpmc_queue: a cell holds an item that no pop would find");
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/mpmc_gaps.hpp>  // the rest of the definitions
