// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/spmc_consumers.hpp: the definitions of spmc_queue's consumers. The cases are at the top of impl/spmc.hpp.
#pragma once

#include <muster/queue/impl/spmc.hpp>  // the macros

namespace muster::inline MUSTER_ABI {

MUSTER_SPMC
auto MUSTER_SPMC_QUEUE::look(rank_t rank) const noexcept -> outlook {
  const cell& c = cells_[rank];
  // (5) acquire: pairs with (3).
  if (c.word.load(std::memory_order_acquire) == published(rank)) return outlook::ready;
  if ((consumers_.flags() & closed) != 0 && !before(rank, end_.load(std::memory_order_relaxed))) return outlook::over;
  // (6) acquire: pairs with (2).
  if (!before(gap_.load(std::memory_order_acquire), rank)) {
    // Relaxed: whatever was published before the gap is visible by (6).
    return c.word.load(std::memory_order_relaxed) == published(rank) ? outlook::ready : outlook::gap;
  }
  return outlook::unknown;
}

// After head_ has moved: a producer that sleeps because the queue was full may go on. Before the item is taken, so that
// a consumer that is stopped there holds nobody up.
MUSTER_SPMC
void MUSTER_SPMC_QUEUE::claimed() noexcept {
  if constexpr (Wait::parks)
    if (producers_.after_event() != 0) [[unlikely]]
      producers_.wake(room_key);
}

MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::pop() {
  // (9) release: pairs with (8). The item's visibility is (5).
  const rank_t rank = head_.fetch_add(1, std::memory_order_release);
  claimed();
  // (5)
  if (cells_[rank].word.load(std::memory_order_acquire) == published(rank)) [[likely]]
    return take(rank);
  return await_ticket(rank);
}

// Waits until `rank` is resolved, goes on over gaps, and takes the item.
MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::await_ticket(rank_t rank) {
  for (;;) {
    switch (look(rank)) {
      case outlook::ready: return take(rank);
      case outlook::over: return queue_status::closed;
      case outlook::gap:
        rank = head_.fetch_add(1, std::memory_order_relaxed);  // goes on with (9)
        claimed();
        break;
      case outlook::unknown:
        consumers_.await<Wait>(key(rank), [&] { return look(rank) != outlook::unknown; }, no_deadline);
        consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
    }
  }
}

MUSTER_SPMC
std::size_t MUSTER_SPMC_QUEUE::unclaimed() const noexcept {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = ((consumers_.flags() & closed) != 0 ? end_ : tail_).load(std::memory_order_relaxed);
  return before(head, tail) ? static_cast<std::size_t>(tail - head) : 0;
}

MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::take(rank_t rank) {
  cell& c = cells_[rank];
  // (4) release: pairs with (1).
  return detail::take(c.item, [&c] { c.word.store(0, std::memory_order_release); });
}

// Claims 1 to `most` consecutive resolved ranks from head_ on, gaps among them: success, closed, or empty when the rank
// `first` was not resolved.
MUSTER_SPMC
queue_status MUSTER_SPMC_QUEUE::claim_resolved(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  for (;;) {
    first = head_.load(std::memory_order_relaxed);
    const outlook first_look = look(first);
    if (first_look == outlook::over) return queue_status::closed;
    if (first_look == outlook::unknown) return queue_status::empty;
    // The producer resolves in order: when a rank is resolved, so are all before it.
    count = std::min(most, cells_.cells());
    while (count > 1 && !resolved(first + count - 1)) count /= 2;
    rank_t head = first;
    // (9)
    if (head_.compare_exchange_strong(head, first + count, std::memory_order_release, std::memory_order_relaxed)) {
      claimed();
      return queue_status::success;
    }
    sync::relax();
  }
}

// The same, but empty only when the queue had no item at one moment; or busy.
MUSTER_SPMC
queue_status MUSTER_SPMC_QUEUE::claim_exactly(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  for (;;) {
    const queue_status claim = claim_resolved(most, first, count);
    if (claim != queue_status::empty) return claim;
    // (8) full_fence: pairs with (7), and as an acquire with (9): when the last item was taken after close(), nobody
    // finds the queue empty and open.
    sync::full_fence();
    // When the queue is being closed, the end is known and our rank is before it, or it is about to be known.
    const bool is_closing = (consumers_.flags() & closing) != 0;
    // When head_ has not moved since: at the moment of the look the queue had no item.
    if (look(first) != outlook::unknown || head_.load(std::memory_order_relaxed) != first) continue;
    return is_closing ? queue_status::busy : queue_status::empty;
  }
}

MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::resolved(rank_t rank) const noexcept {
  // (5), (6)
  return cells_[rank].word.load(std::memory_order_acquire) == published(rank) ||
         !before(gap_.load(std::memory_order_acquire), rank);
}

// Exact: empty is the truth at one moment. Otherwise only nothing was seen, at less cost.
MUSTER_SPMC
template <bool Exact>
queue_status MUSTER_SPMC_QUEUE::claim(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  if constexpr (Exact) return claim_exactly(most, first, count);
  return claim_resolved(most, first, count);
}

// Claims the first rank that has an item.
MUSTER_SPMC
template <bool Exact>
queue_status MUSTER_SPMC_QUEUE::claim_item(rank_t& rank) noexcept {
  for (;;) {
    std::size_t count = 0;
    const queue_status status = claim<Exact>(1, rank, count);
    // A claimed rank without an item is a gap. Relaxed: the rank is resolved, and visible by the look before the claim.
    if (status != queue_status::success || cells_[rank].word.load(std::memory_order_relaxed) == published(rank))
      return status;
  }
}

// Whether the item of a rank is there.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::is_there(rank_t rank) const noexcept {
  // (5)
  return cells_[rank].word.load(std::memory_order_acquire) == published(rank);
}

// The same if the first item is there and nobody else is faster.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::claim_at_once(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  first = head_.load(std::memory_order_relaxed);
  if (!is_there(first)) return false;
  count = std::min(most, cells_.cells());
  while (count > 1 && !is_there(first + count - 1)) count /= 2;
  rank_t head = first;
  // (9)
  if (!head_.compare_exchange_strong(head, first + count, std::memory_order_release, std::memory_order_relaxed))
    return false;
  claimed();
  return true;
}
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::claim_at_once(rank_t& rank) noexcept {
  std::size_t count = 0;
  return claim_at_once(1, rank, count);
}

MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::try_pop() {
  if (rank_t rank = 0; claim_at_once(rank)) [[likely]]
    return take(rank);
  return try_pop_first();
}

MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::try_pop_first() {
  rank_t rank = 0;
  const queue_status status = claim_item<true>(rank);
  if (status != queue_status::success) return status;
  return take(rank);
}

// The case of the first rank that nobody has claimed. An item that was pushed before the call is not overlooked:
// whoever sees the cell of a rank that was claimed freed by (4) sees that head_ has moved.
MUSTER_SPMC
auto MUSTER_SPMC_QUEUE::look_at_head() const noexcept -> outlook {
  for (;;) {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const outlook seen = look(head);
    if (seen != outlook::unknown || head_.load(std::memory_order_relaxed) == head) return seen;
  }
}

MUSTER_SPMC
queue_result<T> MUSTER_SPMC_QUEUE::pop_within(const wait_limit& limit) {
  for (;;) {
    queue_result<T> result = try_pop();
    if (result || result.status() == queue_status::closed) return result;
    if (limit.over() || !await_head(limit)) return result;
  }
}

// Waits until the rank at head_ is resolved or claimed by another. False when the limit came first.
MUSTER_SPMC
bool MUSTER_SPMC_QUEUE::await_head(wait_limit limit) {
  const rank_t head = head_.load(std::memory_order_relaxed);
  // The look first: when the rank has been resolved and its item taken, the freed cell tells that head_ has moved.
  const auto ready = [&] { return look(head) != outlook::unknown || head_.load(std::memory_order_relaxed) != head; };
  if (!limit.template await<Wait>(consumers_, key(head), ready)) return false;
  consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
  return true;
}

MUSTER_SPMC
template <bool Exact, class OutputIt>
std::size_t MUSTER_SPMC_QUEUE::take_up_to(OutputIt& out, std::size_t count, queue_status& status) {
  constexpr bool safe = detail::takes_without_throwing<T, OutputIt>;
  auto&& to = detail::in_hand(out);
  std::size_t taken = 0;
  while (taken < (safe ? 1 : count)) {
    rank_t first = 0;
    std::size_t run = 0;
    const std::size_t most = safe ? count : 1;
    if (!claim_at_once(most, first, run)) [[unlikely]]
      if (status = claim<Exact>(most, first, run); status != queue_status::success) break;
    taken += take_run(to, first, run);
  }
  detail::hand_back(to, out);
  return taken;
}

// Takes the items of claimed ranks. Returns how many: gaps have none.
MUSTER_SPMC
template <class OutputIt>
std::size_t MUSTER_SPMC_QUEUE::take_run(OutputIt& out, rank_t first, std::size_t count) {
  std::size_t gaps = 0;
  for (rank_t rank = first; rank != first + count; ++rank) {
    cell& c = cells_[rank];
    // As in claim_item.
    if (c.word.load(std::memory_order_relaxed) == published(rank)) [[likely]]
      detail::take_to(c.item, out, [&c] { c.word.store(0, std::memory_order_release); });  // (4)
    else ++gaps;
  }
  return count - gaps;
}

MUSTER_SPMC
template <class OutputIt>
std::size_t MUSTER_SPMC_QUEUE::try_pop_n(OutputIt out, std::size_t count) {
  std::size_t taken = 0;
  queue_status status = queue_status::success;
  while (taken < count && status == queue_status::success) taken += take_up_to<true>(out, count - taken, status);
  return taken;
}

MUSTER_SPMC
template <class OutputIt>
std::size_t MUSTER_SPMC_QUEUE::pop_n(OutputIt out, std::size_t count) {
  for (;;) {
    queue_status status = queue_status::success;
    const std::size_t taken = count == 0 ? 0 : take_up_to<true>(out, count, status);
    if (taken != 0 || count == 0 || status == queue_status::closed) return taken;
    await_head(wait_limit{});
  }
}

#undef MUSTER_SPMC
#undef MUSTER_SPMC_QUEUE

}  // namespace muster::inline MUSTER_ABI
