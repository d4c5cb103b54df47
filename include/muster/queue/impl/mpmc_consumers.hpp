// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/mpmc_consumers.hpp: the definitions of mpmc_queue's consumers. The cases are at the top of impl/mpmc.hpp.
#pragma once

#include <muster/queue/impl/mpmc.hpp>  // the macros

namespace muster::inline MUSTER_ABI {

MUSTER_MPMC
auto MUSTER_MPMC_QUEUE::look(rank_t rank) const noexcept -> outlook {
  const cell& c = at(rank);
  // (4) acquire: pairs with (7).
  rank_t word = c.word.load(std::memory_order_acquire);
  if (word == published(rank)) return outlook::ready;
  // (5) seq_cst: pairs with (2).
  if (!before(c.gap.load(std::memory_order_seq_cst), rank)) {
    // (6) seq_cst: pairs with (1). An acquire is not enough: see the top of impl/mpmc.hpp.
    word = c.word.load(std::memory_order_seq_cst);
    if (word == published(rank)) return outlook::ready;
    return word == written(rank) ? outlook::written : outlook::gap;
  }
  if ((consumers_.flags() & closed) != 0 && !before(rank, end_.load(std::memory_order_relaxed))) return outlook::over;
  return before(rank_of(word), rank) ? outlook::unclaimed : outlook::written;
}

// After head_ has moved: as many producers have room and may sleep.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::claimed(std::size_t ranks) noexcept {
  if constexpr (Wait::parks)
    for (; ranks != 0 && producers_.after_event() != 0; --ranks) [[unlikely]]
      signal_room();
}

MUSTER_MPMC
std::size_t MUSTER_MPMC_QUEUE::unclaimed() const noexcept {
  const rank_t head = head_.load(std::memory_order_relaxed);
  const rank_t tail = ((consumers_.flags() & closed) != 0 ? end_ : tail_).load(std::memory_order_relaxed);
  return before(head, tail) ? static_cast<std::size_t>((tail - head) / step) : 0;
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::pop() {
  // (10) release: pairs with (11). The item's visibility is (4).
  const rank_t rank = head_.fetch_add(step, std::memory_order_release);
  claimed(1);
  // (4)
  if (at(rank).word.load(std::memory_order_acquire) == published(rank)) [[likely]]
    return take(rank);
  return await_ticket(rank);
}

// Waits until `rank` is resolved, goes on over gaps, and takes the item.
MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::await_ticket(rank_t rank) {
  for (;;) {
    switch (look(rank)) {
      case outlook::ready: return take(rank);
      case outlook::over: return queue_status::closed;
      case outlook::gap:
        rank = head_.fetch_add(step, std::memory_order_relaxed);  // goes on with (10)
        claimed(1);
        break;
      case outlook::written:
      case outlook::unclaimed:
        tell_of_head();
        consumers_.await<Wait>(key(rank), [&] { return !must_wait(look(rank)); }, no_deadline);
        consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
    }
  }
}

// After a claim of a rank that is not resolved: who waits without a claim must look at the next one. It may have been
// published already, and then no push tells of it.
MUSTER_MPMC
void MUSTER_MPMC_QUEUE::tell_of_head() noexcept {
  if constexpr (Wait::parks)
    if (consumers_.after_event(event_mask::bit(head_key)) != 0) consumers_.wake(head_key);
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::take(rank_t rank) {
  cell& c = at(rank);
  // (8) release: pairs with (1).
  return detail::take(c.item, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });
}

// Claims 1 to `most` consecutive resolved ranks from head_ on, gaps among them: success; or why there are none.
MUSTER_MPMC
queue_status MUSTER_MPMC_QUEUE::claim_up_to(std::size_t most, rank_t& first, std::size_t& count) noexcept {
  for (;;) {
    // (11) acquire: pairs with (10). When the last item was taken after close(), nobody finds the queue empty and open.
    rank_t head = head_.load(std::memory_order_acquire);
    const outlook first_look = look(head);
    if (first_look == outlook::over) return queue_status::closed;
    if (must_wait(first_look)) {
      // Without a push that has taken this rank there is nothing, if close() has not begun.
      const bool taken = before(head, tail_.load(std::memory_order_relaxed));
      if (!taken && (consumers_.flags() & closing) == 0) return queue_status::empty;
      // head_ has not moved since: at the moment of the look, its rank was the first.
      if (head_.load(std::memory_order_relaxed) != head) continue;
      // When no push has taken it, it may be the end, which may be known by now.
      if (taken || must_wait(look(head))) return queue_status::busy;
      continue;
    }
    // Ranks are resolved in any order here, so each is looked at.
    std::size_t run = 1;
    while (run < most && is_resolved(look(head + run * step))) ++run;
    // (10)
    if (head_.compare_exchange_strong(head, head + run * step, std::memory_order_release, std::memory_order_relaxed)) {
      claimed(run);
      first = head;
      count = run;
      return queue_status::success;
    }
    sync::relax();
  }
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::try_pop() {
  const rank_t rank = head_.load(std::memory_order_relaxed);
  rank_t head = rank;
  // (4), (10)
  if (at(rank).word.load(std::memory_order_acquire) == published(rank) &&
      head_.compare_exchange_strong(head, rank + step, std::memory_order_release, std::memory_order_relaxed))
      [[likely]] {
    claimed(1);
    return take(rank);
  }
  return try_pop_first();
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::try_pop_first() {
  for (;;) {
    rank_t rank = 0;
    std::size_t count = 0;
    const queue_status claim = claim_up_to(1, rank, count);
    if (claim != queue_status::success) return claim;
    // A claimed rank without an item is a gap. Relaxed: the rank is resolved, and visible by the look before the claim.
    if (at(rank).word.load(std::memory_order_relaxed) == published(rank)) return take(rank);
  }
}

MUSTER_MPMC
queue_result<T> MUSTER_MPMC_QUEUE::pop_within(const wait_limit& limit) {
  for (;;) {
    queue_result<T> result = try_pop();
    if (result || result.status() == queue_status::closed) return result;
    if (limit.over() || !await_head(limit)) return result;
  }
}

// Waits until the rank at head_ is resolved or claimed by another. False when the limit came first.
MUSTER_MPMC
bool MUSTER_MPMC_QUEUE::await_head(wait_limit limit) {
  const rank_t head = head_.load(std::memory_order_relaxed);
  // The look first: when the rank has been resolved and its item taken, the freed cell tells that head_ has moved.
  const auto ready = [&] { return !must_wait(look(head)) || head_.load(std::memory_order_relaxed) != head; };
  if (!limit.template await<Wait>(consumers_, head_key, ready)) return false;
  consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
  return true;
}

MUSTER_MPMC
template <class OutputIt>
std::size_t MUSTER_MPMC_QUEUE::take_up_to(OutputIt& out, std::size_t count, queue_status& status) {
  constexpr bool safe = detail::takes_without_throwing<T, OutputIt>;
  auto&& to = detail::in_hand(out);
  std::size_t taken = 0;
  while (taken < (safe ? 1 : count)) {
    rank_t first = 0;
    std::size_t run = 0;
    status = claim_up_to(safe ? std::min(count, cells_.cells()) : 1, first, run);
    if (status != queue_status::success) break;
    for (rank_t rank = first; rank != first + run * step; rank += step) {
      cell& c = at(rank);
      // As in try_pop_first.
      if (c.word.load(std::memory_order_relaxed) != published(rank)) continue;
      // (8)
      detail::take_to(c.item, to, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });
      ++taken;
    }
  }
  detail::hand_back(to, out);
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

#undef MUSTER_MPMC
#undef MUSTER_MPMC_QUEUE

}  // namespace muster::inline MUSTER_ABI
