// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/spmc.hpp: the definitions of spmc_queue's producer, close() and what belongs to neither side. The consumers are
// in impl/spmc_consumers.hpp.
//
// Cases of a ticket r (a rank that a consumer claimed) and its cell c:
//   1. c.word = published(r): the item is there and is ours.
//   2. gap_ >= r and then still c.word != published(r): the producer passed r without an item; claim the next rank. The
//      second look is needed because the producer may have published r after our first look and skipped the same cell a
//      lap later. gap_ >= r says that r is resolved, and only we could have taken its item.
//   3. closed is raised and r >= end_: no item will ever have rank r.
//   4. otherwise the producer has not resolved r yet: wait.
// A consumer that has claimed nothing (try, timed, bulk) finds the case of head_'s rank first and claims it only in
// cases 1 and 2, by compare-exchange, so that it never holds a rank it has to wait for. Both kinds mix: a waiting
// ticket has moved head_ past its rank.
//
// close() and a push that overlap: the push announces its rank in tail_ and then looks for the flag; close() raises the
// flag and then reads tail_. So the push sees the flag, or close() counts its rank into end_; maybe both, and then the
// push makes its rank a gap.
#pragma once

#include <muster/queue/spmc.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_SPMC template <class T, class Layout, class Wait>
#define MUSTER_SPMC_QUEUE spmc_queue<T, Layout, Wait>

MUSTER_SPMC
MUSTER_SPMC_QUEUE::spmc_queue(std::size_t capacity, queue_options options)
    : cells_(detail::ring_cells("spmc_queue", capacity, options, options.threads, ring<cell, Layout>::cell_size)),
      capacity_(capacity),
      slip_(std::min<std::size_t>(capacity / 4, 1024)),
      head_(options.first_rank),
      tail_(options.first_rank),
      head_seen_(options.first_rank),
      limit_(options.first_rank + capacity),
      gaps_(std::make_unique_for_overwrite<rank_t[]>(cells_.cells())),
      gap_(options.first_rank - 1),
      end_(options.first_rank) {}

MUSTER_SPMC
MUSTER_SPMC_QUEUE::~spmc_queue() {
  for (std::size_t i = 0; i < cells_.cells(); ++i)
    if (cell& c = cells_.at(i); c.word.load(std::memory_order_relaxed) != 0) c.item.ref().destroy();
}

// ---------------------------------------------------------------------------------------------------------- producer

MUSTER_SPMC
template <class... Args>
queue_status MUSTER_SPMC_QUEUE::try_emplace(Args&&... args) {
  const auto inside = producer_.enter(second_producer);
  place next = next_place();
  if (!is_free(next)) [[unlikely]] {
    if (const queue_status room = reserve(); room != queue_status::success)
      return is_closed() ? queue_status::closed : room;
    next = next_place();
  }
  return publish(next, std::forward<Args>(args)...);
}

MUSTER_SPMC
template <class... Args>
queue_status MUSTER_SPMC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  const auto inside = producer_.enter(second_producer);
  place next = next_place();
  if (!is_free(next)) [[unlikely]] {
    if (const queue_status room = reserve_within(limit); room != queue_status::success) return room;
    next = next_place();
  }
  return publish(next, std::forward<Args>(args)...);
}

// Rank tail_ and its cell.
MUSTER_SPMC
auto MUSTER_SPMC_QUEUE::next_place() const noexcept -> place {
  const rank_t rank = tail_.load(std::memory_order_relaxed);
  return {rank, &cells_[rank]};
}

// Whether it is ours, without a look at head_.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::is_free(place next) const noexcept {
  // (1) acquire: pairs with (4). The consumer has moved the old item out before we overwrite it.
  return before(next.rank, limit_) && next.at->word.load(std::memory_order_acquire) == 0;
}

// Makes the cell of rank tail_ ours, passing cells that slow consumers hold: success, or why there is no room.
MUSTER_SPMC
queue_status MUSTER_SPMC_QUEUE::reserve() {
  for (std::size_t gaps = 0; !is_free(next_place());) {
    const rank_t rank = tail_.load(std::memory_order_relaxed);
    if (before(rank, limit_)) {
      if (gaps++ == cells_.cells()) return queue_status::busy;
      make_gap(rank);
    } else if (!look_for_room() && !look_again()) {
      const std::size_t items = static_cast<std::size_t>(rank - head_seen_) - (gap_last_ - gap_first_);
      return items < capacity_ ? queue_status::busy : queue_status::full;
    }
  }
  return queue_status::success;
}

MUSTER_SPMC
queue_status MUSTER_SPMC_QUEUE::reserve_within(wait_limit limit) {
  for (;;) {
    const queue_status room = reserve();
    if (room == queue_status::success) return room;
    if (is_closed()) return queue_status::closed;
    if (limit.over() || !await_room(limit)) return room;
  }
}

// After reserve() in vain: waits for a claim or the end. When there is room, but stopped consumers hold every cell,
// waits a moment, as nobody tells us that one is free. False when the limit came first.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::await_room(wait_limit limit) {
  if (look_for_room()) {
    const sync::atomic<rank_t>& word = cells_[tail_.load(std::memory_order_relaxed)].word;
    const auto ready = [&] { return word.load(std::memory_order_relaxed) == 0 || is_closed(); };
    return limit.template poll<Wait>(producers_, room_key, ready);
  }
  const auto ready = [this] { return look_for_room() || is_closed(); };
  if (!limit.template await<Wait>(producers_, room_key, ready)) return false;
  producer_slip_.after_wait(slip_, [this] { return free_places(); });
  return true;
}

// Reads head_ anew. Whether rank tail_ fits: fewer than capacity_ items are unclaimed and the ring has not been lapped.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::look_for_room() {
  // Relaxed: only a bound. Whether the cell may be written is decided by (1).
  rank_t head = head_.load(std::memory_order_relaxed);
  while (gap_first_ != gap_last_) {
    const rank_t gap = gaps_[gap_first_ % cells_.cells()];
    // With nothing but gaps in the queue, nobody might ever claim them, so the producer does.
    if (gap == head && head_.compare_exchange_strong(head, head + 1, std::memory_order_relaxed)) ++head;
    if (!before(gap, head)) break;
    ++gap_first_;
  }
  head_seen_ = head;
  limit_ = head + std::min(capacity_ + (gap_last_ - gap_first_), cells_.cells());
  return before(tail_.load(std::memory_order_relaxed), limit_);
}

MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::look_again() {
  // (7) full_fence: pairs with (8). Of a producer that says full and a consumer that says empty, the later one sees
  // what the other did before. Otherwise both could be right, but not in one order of all operations.
  sync::full_fence();
  return look_for_room();
}

MUSTER_SPMC
std::size_t MUSTER_SPMC_QUEUE::free_places() {
  return look_for_room() ? static_cast<std::size_t>(limit_ - tail_.load(std::memory_order_relaxed)) : 0;
}

// A consumer claimed the item of this cell a lap ago and still holds it. The rank is passed over.
MUSTER_SPMC
void MUSTER_SPMC_QUEUE::make_gap(rank_t rank) {
  // A gap before head_ takes no place: its consumer has the rank already and will claim another.
  if (!before(rank, head_seen_)) {
    gaps_[gap_last_++ % cells_.cells()] = rank;
    limit_ = head_seen_ + std::min<rank_t>(limit_ - head_seen_ + 1, cells_.cells());
  }
  tail_.store(rank + 1, std::memory_order_relaxed);
  pass_over(rank);
  signal_rank(rank);
}

// Not backwards: an item that threw while the queue was being closed has withdrawn ranks that come once more.
MUSTER_SPMC
void MUSTER_SPMC_QUEUE::pass_over(rank_t last) noexcept {
  // (2) release: pairs with (6). Every item before the gap is visible to whoever sees the gap.
  if (before(gap_.load(std::memory_order_relaxed), last)) gap_.store(last, std::memory_order_release);
}

MUSTER_SPMC
template <class... Args>
queue_status MUSTER_SPMC_QUEUE::publish(place next, Args&&... args) {
  const rank_t rank = next.rank;
  cell& c = *next.at;
  if (!announce(rank, rank + 1)) [[unlikely]]
    return queue_status::closed;
  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
    c.item.ref().construct(std::forward<Args>(args)...);
  } else {
    try {
      c.item.ref().construct(std::forward<Args>(args)...);
    } catch (...) {
      announce(rank + 1, rank);
      throw;
    }
  }
  // (3) release: pairs with (5). The item is complete before its consumer can see it.
  c.word.store(published(rank), std::memory_order_release);
  signal_rank(rank);
  return queue_status::success;
}

// Moves tail_ from one rank to another, unless the queue is being closed: then close() may have read either, and the
// ranks between become gaps.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::announce(rank_t from, rank_t to) {
  tail_.store(to, std::memory_order_relaxed);
  if (consumers_.after_event(closing) == 0) [[likely]]
    return true;
  withdraw(std::max(from, to, before));
  return false;
}

MUSTER_SPMC
void MUSTER_SPMC_QUEUE::withdraw(rank_t end) noexcept {
  pass_over(end - 1);
  if constexpr (Wait::parks)
    if (consumers_.after_event(event_mask::all_keys) != 0) consumers_.wake_all();
}

MUSTER_SPMC
void MUSTER_SPMC_QUEUE::signal_rank(rank_t rank) noexcept {
  if constexpr (Wait::parks)
    if (const std::uint32_t sleepers = consumers_.after_event(); sleepers != 0) [[unlikely]]
      if (event_mask::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
}

MUSTER_SPMC
template <class InputIt>
std::size_t MUSTER_SPMC_QUEUE::push_n(InputIt first, std::size_t count) {
  return push_up_to(std::move(first), count, true, [] {});
}

MUSTER_SPMC
template <class InputIt>
std::size_t MUSTER_SPMC_QUEUE::try_push_n(InputIt first, std::size_t count) {
  return push_up_to(std::move(first), count, false, [] {});
}

// Calls after_run() whenever items have been published, before it waits for room.
MUSTER_SPMC
template <class InputIt, class AfterRun>
std::size_t MUSTER_SPMC_QUEUE::push_up_to(InputIt first, std::size_t count, bool waits, AfterRun after_run) {
  const auto inside = producer_.enter(second_producer);
  std::size_t done = 0;
  while (done < count) {
    if (is_free(next_place()) || reserve() == queue_status::success) [[likely]] {
      const std::size_t run = publish_some(first, count - done, done != 0);
      after_run();
      done += run;
      if (run == 0) break;
      continue;
    }
    if (!waits || is_closed()) break;
    await_room(wait_limit{});
  }
  return done;
}

// Publishes items from rank tail_ on, whose cell reserve() has found free. Returns how many; 0 when closed. An iterator
// of a single pass is moved on only when called again, and before anything is announced, as it may wait or throw.
MUSTER_SPMC
template <class InputIt>
std::size_t MUSTER_SPMC_QUEUE::publish_some(InputIt& first, std::size_t count, bool again) {
  if constexpr (detail::passes_again<InputIt>) {
    return publish_run(first, count, again);
  } else {
    // Nothing is read in vain. After reserve()'s gaps, which nobody may have been told of yet: whoever closes the queue
    // without being noticed here has seen them, by the fence.
    if (consumers_.after_event(closing) != 0) return 0;
    if (again) ++first;
    return publish(next_place(), *first) == queue_status::success ? 1 : 0;
  }
}

// In consecutive free cells. Leaves `first` at the last of the items.
MUSTER_SPMC
template <class ForwardIt>
std::size_t MUSTER_SPMC_QUEUE::publish_run(ForwardIt& first, std::size_t count, bool again) {
  const rank_t begin = tail_.load(std::memory_order_relaxed);
  const rank_t most = begin + std::min<rank_t>({count, limit_ - begin, cells_.cells(), longest_run});
  ForwardIt item = std::move(first);  // our own, in a register. This may throw, so it comes before the announcement
  if (!announce(begin, most)) [[unlikely]]
    return 0;
  rank_t end = begin;
  const auto finish = [&] {
    if (consumers_.after_event() != 0) [[unlikely]]
      for (rank_t rank = begin; rank != end; ++rank) signal_rank(rank);
    if (end != most) announce(most, end);
  };
  try {
    while (end != most) {
      cell& c = cells_[end];
      if (c.word.load(std::memory_order_acquire) != 0) break;  // (1)
      if (again) ++item;
      again = true;
      c.item.ref().construct(*item);
      c.word.store(published(end), std::memory_order_release);  // (3)
      ++end;
    }
  } catch (...) {
    finish();
    throw;
  }
  finish();
  first = std::move(item);
  return static_cast<std::size_t>(end - begin);
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_SPMC
void MUSTER_SPMC_QUEUE::close() {
  if (!consumers_.raise(closing)) return;
  // The producer's announcements up to the last one that missed the flag are visible now, see announce().
  end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  consumers_.raise(closed);
  producers_.wake_all();
}

MUSTER_SPMC
std::size_t MUSTER_SPMC_QUEUE::size_approx() const noexcept { return std::min(unclaimed(), capacity_); }

MUSTER_SPMC
void MUSTER_SPMC_QUEUE::check() const {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  const std::size_t ranks = before(head, tail) ? static_cast<std::size_t>(tail - head) : 0;
  MUSTER_CHECK(ranks <= cells_.cells(), "spmc_queue: more ranks are unclaimed than there are cells");
  std::size_t items = 0;
  for (rank_t rank = tail - ranks; rank != tail; ++rank)
    items += cells_[rank].word.load(std::memory_order_relaxed) == published(rank);
  std::size_t full = 0;
  for (std::size_t i = 0; i < cells_.cells(); ++i) full += cells_.at(i).word.load(std::memory_order_relaxed) != 0;
  MUSTER_CHECK(items == full, "spmc_queue: a cell holds an item whose rank is not between head and tail");
  MUSTER_CHECK(items <= capacity_, "spmc_queue: more items than the capacity");
  // The push that close() interrupted leaves gaps that are not on the list.
  MUSTER_CHECK(is_closed() || ranks - items <= gap_last_ - gap_first_,
               "spmc_queue: a rank is neither an item nor a known gap");
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/spmc_consumers.hpp>  // the rest of the definitions
