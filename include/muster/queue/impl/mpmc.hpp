// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/mpmc.hpp: the definitions of mpmc_queue.
//
// A producer that claimed rank r finds its cell c in one of three states:
//   1. c.word = 0 and stays so: it writes written(r), then looks at c.gap. If c.gap < r, the cell is its own until it
//      publishes. If c.gap >= r, a producer of a later lap has passed the cell in the meantime and the consumer of r may
//      have gone on: it frees the cell and claims another rank.
//   2. c.word is of another rank: a consumer still reads an older item, or a producer of another lap is writing. It
//      raises c.gap to r, so that the consumer of r goes on, and claims another rank.
// A consumer that claimed rank r waits until
//   1. c.word = published(r): the item is its own;
//   2. c.gap >= r and then c.word is neither published(r) nor written(r): no item will have rank r; claim the next;
//   3. the queue is closed and r >= end_: no item will have rank r or a later one.
//   4. Otherwise the rank is unresolved.
// The paper reads and writes word and gap together, by a double-word compare-and-set. Here the producer writes the word
// and then reads the gap, while the other side writes the gap and then reads the word; all four are sequentially
// consistent, so at least one of the two sees the other (Dekker). If both do, the producer frees the cell and the
// consumer waits for that: it saw written(r).
//
// Producers keep away from ranks that would exceed the capacity. push() checks before it claims by fetch-add; several
// that check at once can claim up to `threads` ranks too many, and those wait for room before they touch the cell. The
// ring has cells for them. Timed and try pushes claim by compare-exchange and never hold a rank they must wait with.
#pragma once

#include <muster/queue/mpmc.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_MPMC template <class T, class Layout, class Wait>
#define MUSTER_MPMC_QUEUE mpmc_queue<T, Layout, Wait>

MUSTER_MPMC
MUSTER_MPMC_QUEUE::mpmc_queue(std::size_t capacity, queue_options options)
    : cells_(detail::ring_cells("mpmc_queue", capacity, options, options.threads, sizeof(cell))),
      capacity_(capacity),
      head_(options.first_rank * step),
      tail_(options.first_rank * step),
      head_seen_(options.first_rank * step),
      end_(options.first_rank * step) {
  for (std::size_t i = 0; i < cells_.cells(); ++i)
    cells_.at(i).gap.store(options.first_rank * step - step, std::memory_order_relaxed);
}

MUSTER_MPMC
MUSTER_MPMC_QUEUE::~mpmc_queue() {
  for (std::size_t i = 0; i < cells_.cells(); ++i)
    if (cell& c = cells_.at(i); c.word.load(std::memory_order_relaxed) != 0) c.item.ref().destroy();
}

// --------------------------------------------------------------------------------------------------------- producers

// Whether an item of this rank fits. Looks at head_ only when what is known does not answer it.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::has_room(rank_t rank) noexcept {
  // Relaxed, and it may go back when two threads store here: any value that head_ has had is a sound bound.
  if (before(rank, room_end(head_seen_.load(std::memory_order_relaxed)))) [[likely]] return true;
  rank_t head = head_.load(std::memory_order_relaxed);
  // With nothing but gaps at the front, nobody might ever claim them, so a producer that finds no room does.
  while (!before(rank, room_end(head)) && look(head) == outlook::gap)
    if (head_.compare_exchange_strong(head, head + step, std::memory_order_relaxed)) {
      claimed(head);
      head += step;
    }
  head_seen_.store(head, std::memory_order_relaxed);
  return before(rank, room_end(head));
}

MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::claim_without_waiting(rank_t& rank) -> place {
  rank = tail_.load(std::memory_order_relaxed);
  for (;;) {
    if ((rank & closed_mark) != 0) return place::closed;
    if (!has_room(rank)) {
      const rank_t now = tail_.load(std::memory_order_relaxed);
      if (now == rank) return place::full;
      rank = now;
      continue;
    }
    // Relaxed: the claim has to be unique, no more; close() is ordered by being in the same word.
    if (tail_.compare_exchange_weak(rank, rank + step, std::memory_order_relaxed)) return place::granted;
  }
}

// Waits for room and claims a rank by fetch-add.
MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::claim_place(rank_t& rank) -> place {
  prefetch_for_write(&tail_);
  rank = tail_.load(std::memory_order_relaxed);
  if ((rank & closed_mark) == 0 && !has_room(rank)) [[unlikely]] {
    auto ready = [&] { return ((rank = tail_.load(std::memory_order_relaxed)) & closed_mark) != 0 || has_room(rank); };
    producers_.look<Wait>(ready, no_deadline);
  }
  const rank_t head = head_seen_.load(std::memory_order_relaxed);
  rank = tail_.fetch_add(step, std::memory_order_relaxed);
  if ((rank & closed_mark) != 0) return place::closed;
  if (before(rank, room_end(head))) [[likely]] return place::granted;
  // More than one thread passed the check above, or it is time to sleep: in the order of ranks.
  producers_.await<Wait>(key(rank), [&] { return has_room(rank) || is_closed(); }, no_deadline);
  // Room that came after close() came too late: the push would have to take effect before it.
  if (!is_closed()) return place::granted;
  make_gap(rank);
  return place::closed;
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::try_emplace(Args&&... args) {
  for (;;) {
    rank_t rank = 0;
    switch (claim_without_waiting(rank)) {
      case place::full: return queue_status::full;
      case place::closed: return queue_status::closed;
      case place::granted:
        if (publish(rank, std::forward<Args>(args)...)) return queue_status::success;
    }
  }
}

MUSTER_MPMC
template <class... Args>
queue_status MUSTER_MPMC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  if (limit.until == no_deadline && limit.stop == nullptr) {
    for (;;) {
      rank_t rank = 0;
      if (claim_place(rank) == place::closed) return queue_status::closed;
      if (publish(rank, std::forward<Args>(args)...)) [[likely]] return queue_status::success;
    }
  }
  for (;;) {
    const queue_status now = try_emplace(std::forward<Args>(args)...);
    if (now != queue_status::full) return now;
    rank_t rank = tail_.load(std::memory_order_relaxed);
    // The claim of the rank `capacity` before ours makes room and wakes our key; when tail_ moves on, that claim has
    // happened or will.
    const auto ready = [&] { return tail_.load(std::memory_order_relaxed) != rank || has_room(rank); };
    if (!limit.template await<Wait>(producers_, key(rank), ready)) return queue_status::full;
  }
}

// Writes the item of a claimed rank: case 1. False when the rank had to be passed over: case 2.
MUSTER_MPMC
template <class... Args>
bool MUSTER_MPMC_QUEUE::publish(rank_t rank, Args&&... args) {
  cell& c = at(rank);
  rank_t free = 0;
  // (1) seq_cst: pairs with (6), and, as an acquire, with (8): the consumer has moved the old item out.
  if (!c.word.compare_exchange_strong(free, written(rank), std::memory_order_seq_cst, std::memory_order_relaxed)) {
    make_gap(rank);
    return false;
  }
  // (2) seq_cst: pairs with (3). Not to be weakened, nor left out: see the top of the file.
  if (!before(c.gap.load(std::memory_order_seq_cst), rank)) [[unlikely]] {
    c.word.store(0, std::memory_order_release);  // (8)
    signal_rank(rank);
    return false;
  }
  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
    c.item.ref().construct(std::forward<Args>(args)...);
  } else {
    try {
      c.item.ref().construct(std::forward<Args>(args)...);
    } catch (...) {
      make_gap(rank);
      c.word.store(0, std::memory_order_release);  // (8)
      signal_rank(rank);
      throw;
    }
  }
  // (7) release: pairs with (4). The item is complete before its consumer can see it.
  c.word.store(published(rank), std::memory_order_release);
  signal_rank(rank);
  return true;
}

// No item will have this rank, unless its producer is writing it already.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::make_gap(rank_t rank) noexcept {
  sync::atomic<rank_t>& gap = at(rank).gap;
  rank_t known = gap.load(std::memory_order_relaxed);
  while (before(known, rank)) {
    // (3) seq_cst: pairs with (2), and, as a release, with (5).
    if (gap.compare_exchange_weak(known, rank, std::memory_order_seq_cst, std::memory_order_relaxed)) break;
  }
  signal_rank(rank);
}

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::signal_rank(rank_t rank) noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = consumers_.after_event(); sleepers != 0) [[unlikely]]
      if (event_mask::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
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

// --------------------------------------------------------------------------------------------------------- consumers

MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::look(rank_t rank) const noexcept -> outlook {
  const cell& c = at(rank);
  // (4) acquire: pairs with (7).
  if (c.word.load(std::memory_order_acquire) == published(rank)) return outlook::ready;
  // (5) acquire: pairs with (3).
  if (!before(c.gap.load(std::memory_order_acquire), rank)) {
    // (6) seq_cst: pairs with (1). An acquire is not enough: see the top of the file.
    const rank_t word = c.word.load(std::memory_order_seq_cst);
    if (word == published(rank)) return outlook::ready;
    return word == written(rank) ? outlook::unknown : outlook::gap;
  }
  if ((consumers_.flags() & closed) != 0 && !before(rank, end_.load(std::memory_order_relaxed))) return outlook::over;
  return outlook::unknown;
}

// After head_ has moved past `rank`: the producer of the rank `capacity` later has room and may sleep.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::claimed(rank_t rank) noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = producers_.after_event(); sleepers != 0) [[unlikely]] {
      const std::uint32_t next = key(room_end(rank));
      if (event_mask::wakes(sleepers, next)) producers_.wake(next);
    }
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::pop() {
  // Relaxed: the claim has to be unique, no more; the item's visibility is (4).
  rank_t rank = head_.fetch_add(step, std::memory_order_relaxed);
  claimed(rank);
  // (4)
  if (at(rank).word.load(std::memory_order_acquire) != published(rank) && !await_ticket(rank))
    return queue_status::closed;
  return take(rank);
}

// Waits until `rank` is resolved, moving it on over gaps. False when the queue is closed and drained.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_ticket(rank_t& rank) {
  for (;;) {
    switch (look(rank)) {
      case outlook::ready: return true;
      case outlook::over: return false;
      case outlook::gap:
        rank = head_.fetch_add(step, std::memory_order_relaxed);
        claimed(rank);
        break;
      case outlook::unknown:
        consumers_.await<Wait>(key(rank), [&] { return look(rank) != outlook::unknown; }, no_deadline);
    }
  }
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::take(rank_t rank) {
  cell& c = at(rank);
  // (8) release: pairs with (1).
  return detail::take(c.item, [&c] { c.word.store(0, std::memory_order_release); });
}

// Claims 1 to `most` consecutive resolved ranks from head_ on, gaps among them: success; or why there are none.
MUSTER_MPMC
queue_status MUSTER_MPMC_QUEUE::claim_up_to(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  for (;;) {
    rank_t head = head_.load(std::memory_order_relaxed);
    const outlook first_look = look(head);
    if (first_look == outlook::over) return queue_status::closed;
    if (first_look == outlook::unknown) {
      const rank_t tail = tail_.load(std::memory_order_relaxed);
      // Both unmoved since the look: head_ was head while tail_ was tail.
      if (head_.load(std::memory_order_relaxed) != head) continue;
      if (before(head, tail & ~closed_mark)) return queue_status::busy;
      return (tail & closed_mark) != 0 ? queue_status::busy : queue_status::empty;
    }
    // Ranks are resolved in any order here, so each is looked at.
    std::size_t run = 1;
    while (run < most && is_resolved(head + run * step)) ++run;
    if (head_.compare_exchange_strong(head, head + run * step, std::memory_order_relaxed)) {
      for (std::size_t i = 0; i < run; ++i) claimed(head + i * step);
      first = head;
      count = run;
      return queue_status::success;
    }
    sync::relax();
  }
}

MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::is_resolved(rank_t rank) const noexcept {
  const outlook seen = look(rank);
  return seen == outlook::ready || seen == outlook::gap;
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::try_pop() {
  for (;;) {
    rank_t rank = 0;
    std::size_t count = 0;
    const queue_status claim = claim_up_to(1, rank, count);
    if (claim != queue_status::success) return claim;
    // (4): a claimed rank without an item is a gap.
    if (at(rank).word.load(std::memory_order_acquire) == published(rank)) return take(rank);
  }
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::pop_within(const wait_limit& limit) {
  for (;;) {
    queue_result<T> result = try_pop();
    if (result || result.status() == queue_status::closed) return result;
    if (!await_head(limit)) return result;
  }
}

// Waits until the rank at head_ is resolved or claimed by another. False when the limit came first.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_head(const wait_limit& limit) {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const auto ready = [&] { return head_.load(std::memory_order_relaxed) != head || look(head) != outlook::unknown; };
  return limit.template await<Wait>(consumers_, key(head), ready);
}

MUSTER_MPMC
template <class OutputIt>
std::size_t MUSTER_MPMC_QUEUE::take_up_to(OutputIt& out, std::size_t count, queue_status& status) {
  constexpr bool safe = detail::takes_without_throwing<T, OutputIt>;
  std::size_t taken = 0;
  while (taken < (safe ? 1 : count)) {
    rank_t first = 0;
    std::size_t run = 0;
    status = claim_up_to(safe ? std::min(count, cells_.cells()) : 1, first, run);
    if (status != queue_status::success) break;
    for (rank_t rank = first; rank != first + run * step; rank += step) {
      cell& c = at(rank);
      // (4): a claimed rank without an item is a gap.
      if (c.word.load(std::memory_order_acquire) != published(rank)) continue;
      // (8)
      detail::take_to(c.item, out, [&c] { c.word.store(0, std::memory_order_release); });
      ++taken;
    }
  }
  return taken;
}

MUSTER_MPMC
template <class OutputIt>
std::size_t MUSTER_MPMC_QUEUE::try_pop_n(OutputIt out, std::size_t count) {
  std::size_t taken = 0;
  queue_status status = queue_status::success;
  while (taken < count && status == queue_status::success) taken += take_up_to(out, count - taken, status);
  return taken;
}

MUSTER_MPMC
template <class OutputIt>
std::size_t MUSTER_MPMC_QUEUE::pop_n(OutputIt out, std::size_t count) {
  for (;;) {
    queue_status status = queue_status::success;
    const std::size_t taken = count == 0 ? 0 : take_up_to(out, count, status);
    if (taken != 0 || count == 0 || status == queue_status::closed) return taken;
    await_head(wait_limit{});
  }
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::close() {
  const rank_t end = tail_.fetch_or(closed_mark, std::memory_order_relaxed);
  if ((end & closed_mark) != 0) return;
  end_.store(end, std::memory_order_relaxed);
  consumers_.raise(closed);
  producers_.wake_all();
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::size_approx() const noexcept {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = (consumers_.flags() & closed) != 0 ? end_.load(std::memory_order_relaxed)
                                                         : tail_.load(std::memory_order_relaxed) & ~closed_mark;
  return before(head, tail) ? std::min(static_cast<std::size_t>((tail - head) / step), capacity_) : 0;
}

MUSTER_MPMC
void MUSTER_MPMC_QUEUE::check() const {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = (consumers_.flags() & closed) != 0 ? end_.load(std::memory_order_relaxed)
                                                         : tail_.load(std::memory_order_relaxed);
  MUSTER_CHECK(!before(room_end(head), tail), "mpmc_queue: more ranks are unclaimed than the capacity");
  std::size_t items = 0;
  for (rank_t rank = head; before(rank, tail); rank += step) {
    const outlook seen = look(rank);
    MUSTER_CHECK(seen == outlook::ready || seen == outlook::gap, "mpmc_queue: a rank is neither an item nor a gap");
    items += seen == outlook::ready;
  }
  std::size_t full = 0;
  for (std::size_t i = 0; i < cells_.cells(); ++i) full += cells_.at(i).word.load(std::memory_order_relaxed) != 0;
  MUSTER_CHECK(items == full, "mpmc_queue: a cell holds an item whose rank is not between head and tail");
}

#undef MUSTER_MPMC
#undef MUSTER_MPMC_QUEUE

}  // namespace muster::inline MUSTER_ABI
