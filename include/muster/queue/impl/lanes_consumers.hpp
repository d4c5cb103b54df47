// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/lanes_consumers.hpp: the definitions of lanes' consumers. Who is woken is argued at the top of impl/lanes.hpp.
//
// A pop looks, until it has an item,
//   1. into the lane of its cursor, as long as the quota lasts;
//   2. into one lane more, when that has no mark, another one each time: see visit_unmarked();
//   3. into the marked lanes after it, and into that lane last;
//   4. into all lanes, for an exact answer; only then it says that there is nothing, or waits.
// An item that was there before the call is found at the latest in 4, unless it is taken: marks may be late, the lanes
// themselves are not.
#pragma once

#include <muster/queue/impl/lanes.hpp>  // the macros

namespace muster::inline MUSTER_ABI {

// Calls attempt(queue of a lane, std::bool_constant<exact>) until it says success.
MUSTER_LANES
template <class Attempt>
MUSTER_HOT queue_status MUSTER_LANES_QUEUE::visit(cursor& at, Attempt attempt) {
  if (at.left != 0 && attempt(*at.here, std::false_type{}) == queue_status::success) [[likely]] {
    --at.left;
    return queue_status::success;
  }
  return move_on(at, attempt);
}

MUSTER_LANES
template <class Attempt>
queue_status MUSTER_LANES_QUEUE::move_on(cursor& at, Attempt attempt) {
  if (visit_unmarked(at, attempt) || visit_marked(at, attempt)) return queue_status::success;
  return visit_all(at, attempt);
}

// A consumer that has taken a lane's mark away and stopped, before it looked again, would hide the lane's items from
// all who find others.
MUSTER_LANES
template <class Attempt>
bool MUSTER_LANES_QUEUE::visit_unmarked(cursor& at, Attempt& attempt) {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  if (used == 0) return false;
  const std::size_t i = at.unmarked < used ? at.unmarked : 0;
  at.unmarked = static_cast<std::uint32_t>(i + 1);
  if (marked_.next(i, i + 1) == i) return false;
  if (attempt(lanes_[i]->queue, std::false_type{}) != queue_status::success) return false;
  marked_.put_in(i);
  at.left = 0;  // it has its turn with the marked ones; the lanes between have theirs before
  return true;
}

MUSTER_LANES
template <class Attempt>
bool MUSTER_LANES_QUEUE::visit_marked(cursor& at, Attempt& attempt) {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  if (used == 0) return false;
  const std::size_t from = (at.number + 1U) % used;
  const auto look_in = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = marked_.next(begin, end); i != end; i = marked_.next(i + 1, end)) {
      if (attempt(lanes_[i]->queue, std::false_type{}) != queue_status::success) continue;
      at = stay_in(i, at.unmarked);
      return true;
    }
    return false;
  };
  return look_in(from, used) || look_in(0, from);
}

// After a pop from that lane.
MUSTER_LANES
auto MUSTER_LANES_QUEUE::stay_in(std::size_t number, std::uint32_t unmarked) const noexcept -> cursor {
  return {&lanes_[number]->queue, static_cast<std::uint32_t>(number), quota - 1, unmarked};
}

MUSTER_LANES
template <class Attempt>
queue_status MUSTER_LANES_QUEUE::visit_all(cursor& at, Attempt& attempt) {
  // Before the lanes: when all have been closed, no producer begins to use one that we do not look at.
  const bool all_closed = (events_.flags() & closed) != 0;
  const std::size_t used = used_.load(std::memory_order_relaxed);
  std::size_t drained = 0;
  bool busy = false;
  for (std::size_t n = 1; n <= used; ++n) {
    const std::size_t i = (at.number + n) % used;
    switch (attempt(lanes_[i]->queue, std::true_type{})) {
      case queue_status::success:
        marked_.put_in(i);  // a consumer that cleared it may have stopped
        at = stay_in(i, at.unmarked);
        return queue_status::success;
      case queue_status::closed: ++drained; break;
      case queue_status::busy: busy = true; break;
      default: break;
    }
  }
  if (drained == used && all_closed) return queue_status::closed;
  return busy || drained != 0 ? queue_status::busy : queue_status::empty;
}

MUSTER_LANES
bool MUSTER_LANES_QUEUE::has_item(std::size_t number) const noexcept {
  const auto seen = lanes_[number]->queue.look_at_head();
  return seen == lane_queue::outlook::ready || seen == lane_queue::outlook::gap;
}

// Whether a pop would find something in the lane of its cursor or in a marked one; or that the queue has ended.
MUSTER_LANES
bool MUSTER_LANES_QUEUE::seems_ready(const cursor& at) const noexcept {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  if (at.number < used && has_item(at.number)) return true;
  for (std::size_t i = marked_.next(0, used); i != used; i = marked_.next(i + 1, used))
    if (has_item(i)) return true;
  return is_drained();
}

// The same of all lanes, marking those that have items: after the heavy fence that follows marked_.keep_out().
MUSTER_LANES
bool MUSTER_LANES_QUEUE::is_ready() noexcept {
  bool found = false;
  for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) {
    if (!has_item(i)) continue;
    marked_.put_in(i);
    found = true;
  }
  return found || is_drained();
}

MUSTER_LANES
bool MUSTER_LANES_QUEUE::is_drained() const noexcept {
  if ((events_.flags() & closed) == 0) return false;
  for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i)
    if (lanes_[i]->queue.look_at_head() != lane_queue::outlook::over) return false;
  return true;
}

// Waits until some lane has an item or all are drained. False when the limit came first.
MUSTER_LANES
bool MUSTER_LANES_QUEUE::await_item(const cursor& at, unsigned number, const wait_limit& limit) {
  bool exactly = !Wait::parks;  // who never sleeps has no other look behind the marks
  const auto ready = [&] { return exactly ? is_ready() : seems_ready(at); };
  const auto before_sleep = [&] {
    exactly = true;
    marked_.keep_out([this](std::size_t i) { return !has_item(i); });
  };
  if (!limit.template await<Wait>(events_, number, ready, before_sleep)) return false;
  slip_state_.after_wait(slip_, [this] { return size_approx(); });
  return true;
}

// For a consumer whose lane has run dry. If the others have too, it would look into all of them before it waits, and by
// then there may be an item, and so on: it would never wait, and follow its producer item by item.
MUSTER_LANES
void MUSTER_LANES_QUEUE::slip_when_dry() noexcept {
  if (size_approx() == 0) dry_slip_.after_wait(slip_, [this] { return size_approx(); });
}

// ------------------------------------------------------------------------------------------------------------- handles

MUSTER_LANES
auto MUSTER_LANES_QUEUE::consumer() -> consumer_handle {
  const unsigned number = consumers_.fetch_add(1, std::memory_order_relaxed);
  return consumer_handle(*this, {nullptr, number, 0, number}, number);
}

// The same as visit() would do first.
MUSTER_LANES
bool MUSTER_LANES_QUEUE::consumer_handle::claim_here(rank_t& rank) noexcept {
  if (at_.left == 0 || !at_.here->claim_at_once(rank)) return false;
  --at_.left;
  return true;
}

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::consumer_handle::try_pop() {
  if (rank_t rank = 0; claim_here(rank)) [[likely]]
    return at_.here->take(rank);
  return try_pop_anywhere();
}

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::consumer_handle::try_pop_anywhere() {
  lane_queue* from = nullptr;
  rank_t rank = 0;
  const queue_status found = owner_->visit(at_, [&]<bool Exact>(lane_queue& queue, std::bool_constant<Exact>) {
    from = &queue;
    return queue.template claim_item<Exact>(rank);
  });
  if (found != queue_status::success) return found;
  return from->take(rank);
}

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::consumer_handle::pop_within(const wait_limit& limit) {
  if (rank_t rank = 0; claim_here(rank)) [[likely]]
    return at_.here->take(rank);
  return await_and_pop(limit);
}

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::consumer_handle::await_and_pop(wait_limit limit) {
  if (limit.none() && has_run_dry()) owner_->slip_when_dry();
  for (;;) {
    queue_result<T> result = try_pop_anywhere();
    if (result || result.status() == queue_status::closed) return result;
    if (limit.over() || !owner_->await_item(at_, number_, limit)) return result;
  }
}

MUSTER_LANES
template <class OutputIt>
queue_status MUSTER_LANES_QUEUE::consumer_handle::take_some(OutputIt& out, std::size_t count, std::size_t& taken) {
  return owner_->visit(at_, [&]<bool Exact>(lane_queue& queue, std::bool_constant<Exact>) {
    queue_status status = queue_status::success;
    std::size_t some = 0;
    // A run of nothing but gaps is no reason to leave the lane.
    while (some == 0 && status == queue_status::success) some = queue.template take_up_to<Exact>(out, count, status);
    taken += some;
    return some != 0 ? queue_status::success : status;
  });
}

MUSTER_LANES
template <class OutputIt>
std::size_t MUSTER_LANES_QUEUE::consumer_handle::pop_n(OutputIt out, std::size_t count) {
  if (count != 0 && has_run_dry()) owner_->slip_when_dry();
  for (std::size_t taken = 0; count != 0;) {
    const queue_status status = take_some(out, count, taken);
    if (status == queue_status::success || status == queue_status::closed) return taken;
    owner_->await_item(at_, number_, wait_limit{});
  }
  return 0;
}

MUSTER_LANES
template <class OutputIt>
std::size_t MUSTER_LANES_QUEUE::consumer_handle::try_pop_n(OutputIt out, std::size_t count) {
  std::size_t taken = 0;
  while (taken < count && take_some(out, count - taken, taken) == queue_status::success) {
  }
  return taken;
}

// --------------------------------------------------------------------------------------------------- without a handle

/// A consumer_handle made of the calling thread's seat, for one operation.
MUSTER_LANES
class MUSTER_LANES_QUEUE::seated : public consumer_handle {
 public:
  explicit seated(lanes& owner) : seated(owner, sync::thread_index()) {}
  seated(const seated&) = delete;
  seated& operator=(const seated&) = delete;
  // All relaxed: hints. Of two threads with one seat, one is forgotten.
  ~seated() { seat_.word.store(pack(this->at_), std::memory_order_relaxed); }

  static constexpr std::uint64_t pack(cursor at) noexcept {
    static_assert(quota <= 256);
    return std::uint64_t{at.unmarked} << 40 | std::uint64_t{at.left} << 32 | at.number;
  }

 private:
  seated(lanes& owner, unsigned number) : seated(owner, number, owner.seats_[number % owner.seats_.size()]) {}
  seated(lanes& owner, unsigned number, seat& own)
      : consumer_handle(owner, unpack(owner, own.word.load(std::memory_order_relaxed)), number), seat_(own) {}
  static cursor unpack(const lanes& owner, std::uint64_t word) noexcept {
    const auto number = static_cast<std::uint32_t>(word), left = static_cast<std::uint32_t>(word >> 32) & 255;
    return {left != 0 ? &owner.lanes_[number]->queue : nullptr, number, left, static_cast<std::uint32_t>(word >> 40)};
  }

  seat& seat_;
};

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::try_pop() { return seated(*this).try_pop(); }

MUSTER_LANES
queue_result<T> MUSTER_LANES_QUEUE::pop_within(const wait_limit& limit) { return seated(*this).pop_within(limit); }

MUSTER_LANES
template <class OutputIt>
std::size_t MUSTER_LANES_QUEUE::pop_n(OutputIt out, std::size_t count) {
  return seated(*this).pop_n(std::move(out), count);
}

MUSTER_LANES
template <class OutputIt>
std::size_t MUSTER_LANES_QUEUE::try_pop_n(OutputIt out, std::size_t count) {
  return seated(*this).try_pop_n(std::move(out), count);
}

#undef MUSTER_LANES
#undef MUSTER_LANES_QUEUE

}  // namespace muster::inline MUSTER_ABI
