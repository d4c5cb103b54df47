// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/spsc_consumer.hpp: the definitions of spsc_queue's consumer.
#pragma once

#include <muster/queue/impl/spsc.hpp>  // the macros

namespace muster::inline MUSTER_ABI {

// Whether there is an item at `rank`, which is first().
MUSTER_SPSC
bool MUSTER_SPSC_QUEUE::has_item(rank_t rank) noexcept {
  if (rank != tail_seen_) [[likely]]
    return true;
  return refresh_items() != 0;
}

// How many items there are now.
MUSTER_SPSC
std::size_t MUSTER_SPSC_QUEUE::refresh_items() noexcept {
  // (3) acquire: pairs with (2).
  tail_seen_ = tail_.load(std::memory_order_acquire);
  return static_cast<std::size_t>(tail_seen_ - first());
}

MUSTER_SPSC
auto MUSTER_SPSC_QUEUE::look() noexcept -> outlook {
  if (has_item(first())) [[likely]]
    return outlook::ready;
  const std::uint32_t flags = consumer_.flags();
  if (flags == 0) return outlook::unknown;
  if ((flags & closed) == 0) return outlook::busy;
  // Pushes that announce from now on withdraw. What was announced before is visible to us, so it has been taken or
  // withdrawn, or begun_ differs from what we have seen of tail_.
  return begun_.load(std::memory_order_relaxed) == tail_seen_ ? outlook::over : outlook::busy;
}

MUSTER_SPSC
queue_result<T> MUSTER_SPSC_QUEUE::pop() { return pop_within(wait_limit{}); }

MUSTER_SPSC
queue_result<T> MUSTER_SPSC_QUEUE::pop_within(const wait_limit& limit) {
  const auto inside = consumer_entry_.enter(second_consumer);
  const rank_t rank = first();
  if (!has_item(rank)) [[unlikely]]
    if (const queue_status item = await_item(limit); item != queue_status::success) return item;
  return take(rank);
}

// Waits for an item: success, empty or busy when the limit came first, closed.
MUSTER_SPSC
queue_status MUSTER_SPSC_QUEUE::await_item(wait_limit limit) {
  outlook seen = outlook::unknown;
  const auto ready = [&] { return (seen = look()) == outlook::ready || seen == outlook::over; };
  if (!limit.template await<Wait>(consumer_, only_key, ready)) return find_item();
  if (seen == outlook::over) return queue_status::closed;
  consumer_slip_.after_wait(slip_, [this] { return refresh_items(); });
  return queue_status::success;
}

MUSTER_SPSC
queue_result<T> MUSTER_SPSC_QUEUE::try_pop() {
  const auto inside = consumer_entry_.enter(second_consumer);
  const rank_t rank = first();
  if (rank == tail_seen_) [[unlikely]]
    if (const queue_status item = find_item(); item != queue_status::success) return item;
  return take(rank);
}

// success when there is an item, else empty, busy or closed.
MUSTER_SPSC
queue_status MUSTER_SPSC_QUEUE::find_item() noexcept {
  outlook seen = look();
  if (seen == outlook::unknown) {
    // (6) full_fence: pairs with (5).
    sync::full_fence();
    seen = look();
  }
  if (seen == outlook::ready) return queue_status::success;
  if (seen == outlook::over) return queue_status::closed;
  return seen == outlook::busy ? queue_status::busy : queue_status::empty;
}

MUSTER_SPSC
queue_result<T> MUSTER_SPSC_QUEUE::take(rank_t rank) {
  fetch_ahead(rank);
  return detail::take(cells_[rank], [this, rank] {
    leave(rank);
    give_back(rank + 1);
  });
}

// Only what is known to be there: closer to the producer it would take away lines that are still being written.
MUSTER_SPSC
void MUSTER_SPSC_QUEUE::fetch_ahead(rank_t rank) noexcept {
  if (rank % per_line == 0 && before(rank + ahead, tail_seen_)) muster::prefetch_for_write(&cells_[rank + ahead]);
}

// After the item has been moved out: the last cell of each line is written.
MUSTER_SPSC
void MUSTER_SPSC_QUEUE::leave(rank_t rank) noexcept {
  if ((rank + 1) % per_line == 0) leave_modified(&cells_[rank].ref(), 1);
}

// The places of the ranks before `end` may be written again.
MUSTER_SPSC
void MUSTER_SPSC_QUEUE::give_back(rank_t end) noexcept {
  // (4) release: pairs with (1). We have moved the items out before the producer can overwrite them.
  head_.store(end, std::memory_order_release);
  if constexpr (Wait::parks)
    if (producer_.after_event() != 0) [[unlikely]]
      producer_.wake(only_key);
}

MUSTER_SPSC
template <class OutputIt>
std::size_t MUSTER_SPSC_QUEUE::try_pop_n(OutputIt out, std::size_t count) {
  const auto inside = consumer_entry_.enter(second_consumer);
  std::size_t taken = 0;
  while (taken < count && has_item(first())) taken += take_run(out, count - taken);
  return taken;
}

MUSTER_SPSC
template <class OutputIt>
std::size_t MUSTER_SPSC_QUEUE::pop_n(OutputIt out, std::size_t count) {
  const auto inside = consumer_entry_.enter(second_consumer);
  if (count == 0) return 0;
  if (!has_item(first())) [[unlikely]]
    if (await_item(wait_limit{}) != queue_status::success) return 0;
  return take_run(out, count);
}

// Takes items known to be there and gives their places back together, also when the output throws in between.
MUSTER_SPSC
template <class OutputIt>
std::size_t MUSTER_SPSC_QUEUE::take_run(OutputIt& out, std::size_t count) {
  const rank_t begin = first();
  const rank_t end = begin + std::min<rank_t>(count, tail_seen_ - begin);
  rank_t emptied = begin;
  const detail::finally done([&] { give_back(emptied); });
  auto&& to = detail::in_hand(out);
  while (emptied != end) {
    fetch_ahead(emptied);
    detail::take_to(cells_[emptied], to, [&] { leave(emptied++); });
  }
  detail::hand_back(to, out);
  return static_cast<std::size_t>(end - begin);
}

#undef MUSTER_SPSC
#undef MUSTER_SPSC_QUEUE

}  // namespace muster::inline MUSTER_ABI
