// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/spsc.hpp: the definitions of spsc_queue's producer, close() and what belongs to neither side. The consumer is in
// impl/spsc_consumer.hpp.
//
// close() and a push that overlap: the push announces its rank in begun_ and then looks for the flag `closing`; close()
// raises the flag, then looks at begun_, then raises `closed`. So the push sees the flag and takes its announcement
// back, or whoever sees `closed` sees the announcement. The queue is over when it is closed, empty, and nothing is
// announced.
#pragma once

#include <muster/queue/spsc.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_SPSC template <class T, class Layout, class Wait>
#define MUSTER_SPSC_QUEUE spsc_queue<T, Layout, Wait>

MUSTER_SPSC
MUSTER_SPSC_QUEUE::spsc_queue(std::size_t capacity, queue_options options)
    : cells_(detail::ring_cells("spsc_queue", capacity, options, 0, ring<sync::cell<slot<T>>, Layout>::cell_size)),
      capacity_(capacity),
      slip_(std::min<std::size_t>(capacity / 4, 1024)),
      tail_(options.first_rank),
      head_(options.first_rank),
      limit_(options.first_rank + capacity),
      begun_(options.first_rank),
      tail_seen_(options.first_rank) {}

MUSTER_SPSC
MUSTER_SPSC_QUEUE::~spsc_queue() {
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  for (rank_t rank = head_.load(std::memory_order_relaxed); rank != tail; ++rank) cells_[rank].ref().destroy();
}

// ---------------------------------------------------------------------------------------------------------- producer

MUSTER_SPSC
template <class... Args>
queue_status MUSTER_SPSC_QUEUE::try_emplace(Args&&... args) {
  const auto inside = producer_entry_.enter(second_producer);
  const rank_t rank = next();
  if (!has_room(rank)) [[unlikely]]
    if (const queue_status room = look_again(); room != queue_status::success) return room;
  return publish(rank, std::forward<Args>(args)...);
}

MUSTER_SPSC
template <class... Args>
queue_status MUSTER_SPSC_QUEUE::emplace_within(const wait_limit& limit, Args&&... args) {
  const auto inside = producer_entry_.enter(second_producer);
  const rank_t rank = next();
  if (!has_room(rank)) [[unlikely]]
    if (const queue_status room = await_room(limit); room != queue_status::success) return room;
  return publish(rank, std::forward<Args>(args)...);
}

// Waits for room: success, full when the limit came first, closed.
MUSTER_SPSC
queue_status MUSTER_SPSC_QUEUE::await_room(wait_limit limit) {
  const auto ready = [this] { return has_room(next()) || is_closed(); };
  if (!limit.template await<Wait>(producer_, only_key, ready)) return look_again();
  if (is_closed()) return queue_status::closed;
  producer_slip_.after_wait(slip_, [this] { return refresh_room(); });
  return queue_status::success;
}

// After has_room() in vain: success when there is room after all, else full or closed.
MUSTER_SPSC
queue_status MUSTER_SPSC_QUEUE::look_again() noexcept {
  if (is_closed()) return queue_status::closed;
  // (5) full_fence: pairs with (6). Of a producer that says full and a consumer that says empty, the later one sees
  // what the other did before. Otherwise both could be right, but not in one order of all operations.
  sync::full_fence();
  return refresh_room() != 0 ? queue_status::success : queue_status::full;
}

// Whether an item fits at `rank`, which is next().
MUSTER_SPSC
bool MUSTER_SPSC_QUEUE::has_room(rank_t rank) noexcept {
  if (rank != limit_) [[likely]]
    return true;
  return refresh_room() != 0;
}

// How many items fit now.
MUSTER_SPSC
std::size_t MUSTER_SPSC_QUEUE::refresh_room() noexcept {
  // (1) acquire: pairs with (4). The consumer has moved the items before head_ out.
  limit_ = head_.load(std::memory_order_acquire) + capacity_;
  return static_cast<std::size_t>(limit_ - next());
}

MUSTER_SPSC
template <class... Args>
queue_status MUSTER_SPSC_QUEUE::publish(rank_t rank, Args&&... args) {
  if (rank % per_line == 0) muster::prefetch_for_write(&cells_[rank + ahead]);
  if (!announce(rank + 1)) [[unlikely]]
    return queue_status::closed;
  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
    cells_[rank].ref().construct(std::forward<Args>(args)...);
  } else {
    try {
      cells_[rank].ref().construct(std::forward<Args>(args)...);
    } catch (...) {
      withdraw(rank);
      throw;
    }
  }
  show(rank + 1);
  return queue_status::success;
}

// Announces that the ranks before `end` will be shown. False when the queue is being closed; nothing is announced
// then.
MUSTER_SPSC
bool MUSTER_SPSC_QUEUE::announce(rank_t end) noexcept {
  begun_.store(end, std::memory_order_relaxed);
  if (consumer_.after_event(closing) == 0) [[likely]]
    return true;
  withdraw(next());
  return false;
}

// Takes back the announcement of the ranks from `end` on. A consumer may be waiting for its end.
MUSTER_SPSC
void MUSTER_SPSC_QUEUE::withdraw(rank_t end) noexcept {
  begun_.store(end, std::memory_order_relaxed);
  if (consumer_.after_event(event_mask::all_keys) != 0) consumer_.wake_all();
}

// Makes the ranks before `end` visible to the consumer.
MUSTER_SPSC
void MUSTER_SPSC_QUEUE::show(rank_t end) noexcept {
  // (2) release: pairs with (3). The items are complete before the consumer can see them.
  tail_.store(end, std::memory_order_release);
  if constexpr (Wait::parks)
    if (consumer_.after_event() != 0) [[unlikely]]
      consumer_.wake(only_key);
}

MUSTER_SPSC
template <class InputIt>
std::size_t MUSTER_SPSC_QUEUE::push_n(InputIt first, std::size_t count) {
  const auto inside = producer_entry_.enter(second_producer);
  std::size_t done = 0;
  while (done < count) {
    if (!has_room(next())) [[unlikely]]
      if (await_room(wait_limit{}) != queue_status::success) break;
    const std::size_t run = publish_some(first, count - done, done != 0);
    if (run == 0) break;
    done += run;
  }
  return done;
}

MUSTER_SPSC
template <class InputIt>
std::size_t MUSTER_SPSC_QUEUE::try_push_n(InputIt first, std::size_t count) {
  const auto inside = producer_entry_.enter(second_producer);
  std::size_t done = 0;
  while (done < count && has_room(next())) {
    const std::size_t run = publish_some(first, count - done, done != 0);
    if (run == 0) break;
    done += run;
  }
  return done;
}

// Publishes items into the room known to be there. Returns how many; 0 when closed. An iterator of a single pass is
// moved on only when called again, and before anything is announced, as it may wait or throw.
MUSTER_SPSC
template <class InputIt>
std::size_t MUSTER_SPSC_QUEUE::publish_some(InputIt& first, std::size_t count, bool again) {
  if constexpr (detail::passes_again<InputIt>) {
    return publish_run(first, count, again);
  } else {
    if (is_closed()) return 0;  // nothing is read in vain
    if (again) ++first;
    return publish(next(), *first) == queue_status::success ? 1 : 0;
  }
}

// Writes items and shows them together. Leaves `first` at the last of them.
MUSTER_SPSC
template <class ForwardIt>
std::size_t MUSTER_SPSC_QUEUE::publish_run(ForwardIt& first, std::size_t count, bool again) {
  const rank_t begin = next();
  const rank_t end = begin + std::min<rank_t>({count, limit_ - begin, longest_run});
  ForwardIt item = std::move(first);  // our own, in a register. This may throw, so it comes before the announcement
  if (!announce(end)) [[unlikely]]
    return 0;
  rank_t filled = begin;
  try {
    while (filled != end) {
      if (filled % per_line == 0) muster::prefetch_for_write(&cells_[filled + ahead]);
      if (again) ++item;
      again = true;
      cells_[filled].ref().construct(*item);
      ++filled;
    }
  } catch (...) {
    show(filled);
    withdraw(filled);
    throw;
  }
  show(end);
  first = std::move(item);
  return static_cast<std::size_t>(end - begin);
}

// ------------------------------------------------------------------------------------------------------------ the rest

MUSTER_SPSC
void MUSTER_SPSC_QUEUE::close() {
  if (!consumer_.raise(closing)) return;
  // The load makes an announcement that missed the flag visible to whoever sees `closed`.
  static_cast<void>(begun_.load(std::memory_order_relaxed));
  consumer_.raise(closed);
  producer_.wake_all();
}

MUSTER_SPSC
std::size_t MUSTER_SPSC_QUEUE::size_approx() const noexcept {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  return before(head, tail) ? std::min(static_cast<std::size_t>(tail - head), capacity_) : 0;
}

MUSTER_SPSC
void MUSTER_SPSC_QUEUE::check() const {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = tail_.load(std::memory_order_relaxed);
  MUSTER_CHECK(tail - head <= capacity_, "spsc_queue: more items than the capacity");
  MUSTER_CHECK(begun_.load(std::memory_order_relaxed) == tail, "spsc_queue: a push has begun and not ended");
  MUSTER_CHECK(!before(tail, tail_seen_), "spsc_queue: the consumer has seen items that are not there");
  MUSTER_CHECK(!before(head + capacity_, limit_), "spsc_queue: the producer has seen room that is not there");
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/spsc_consumer.hpp>  // the rest of the definitions
