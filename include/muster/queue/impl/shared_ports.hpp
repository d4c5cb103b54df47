// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared_ports.hpp: the definitions of shared_queue's ports.
#pragma once

#include <muster/queue/impl/shared.hpp>  // the macro

namespace muster::inline MUSTER_ABI {

// --------------------------------------------------------------------------------------------------------- producers

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::producer_port::producer_port(std::shared_ptr<state> s, unsigned seat, unsigned ring,
                                                  std::unique_ptr<slipping> slip) noexcept
    : state_(std::move(s)), seat_(seat), ring_(ring), seen_(state_->rings.view_of(ring)), slip_(std::move(slip)) {}

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::producer_port::~producer_port() {
  if (state_) state_->rings.stand_up(seat_);
}

template <class T, class Shape, class Wait>
template <class... Args>
queue_status MUSTER_SHARED_QUEUE::producer_port::try_emplace(Args&&... args) {
  // Made before the claim: what its constructor throws changes nothing.
  if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
    return try_emplace(T(std::forward<Args>(args)...));
  } else {
    const claimed at = claim_place();
    if (at) [[likely]]
      state_->rings.publish(seat_, at, args...);
    return at.status();
  }
}

template <class T, class Shape, class Wait>
template <class... Args>
queue_status MUSTER_SHARED_QUEUE::producer_port::emplace_within(const wait_limit& limit, Args&&... args) {
  if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
    return emplace_within(limit, T(std::forward<Args>(args)...));
  } else {
    claimed at = claim_place();
    if (!at) [[unlikely]] {
      at = await_place(limit, at);
      if (!at) return at.status();
    }
    state_->rings.publish(seat_, at, args...);
    return queue_status::success;
  }
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::producer_port::claim_place() noexcept -> claimed {
  return state_->rings.claim_place(ring_, seat_, seen_);
}

// After a claim in vain: claims until one succeeds, or the limit comes, or the end.
template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::producer_port::await_place(wait_limit limit, claimed at) -> claimed {
  while (!at && at.status() != queue_status::closed) {
    if (limit.over() || !state_->rings.await_room(limit, at.status(), ring_, seen_)) break;
    slip_->after_wait(state_->rings.slip(), [this] { return state_->rings.free_places(ring_); });
    at = claim_place();
  }
  return at;
}

// --------------------------------------------------------------------------------------------------------- consumers

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::consumer_port::consumer_port(std::shared_ptr<state> s, unsigned seat,
                                                  std::unique_ptr<slipping> slip) noexcept
    : state_(std::move(s)), seat_(seat), slip_(std::move(slip)) {
  if (Shape::many_rings) ring_ = static_cast<unsigned>(seat % state_->rings.facts().rings);
  inherits_ = Shape::one_consumer && state_->rings.inherited_item();
}

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::consumer_port::~consumer_port() {
  if (state_) state_->rings.stand_up(seat_);
}

template <class T, class Shape, class Wait>
queue_result<T> MUSTER_SHARED_QUEUE::consumer_port::pop() {
  return pop_within(wait_limit{});
}

template <class T, class Shape, class Wait>
queue_result<T> MUSTER_SHARED_QUEUE::consumer_port::try_pop() {
  const claimed at = claim_item();
  if (!at) [[unlikely]]
    return at.status();
  return state_->rings.take(seat_, at);
}

template <class T, class Shape, class Wait>
queue_result<T> MUSTER_SHARED_QUEUE::consumer_port::pop_within(const wait_limit& limit) {
  claimed at = claim_item();
  if (!at) [[unlikely]] {
    at = await_item(limit, at);
    if (!at) return at.status();
  }
  return state_->rings.take(seat_, at);
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::consumer_port::claim_item() -> claimed {
  engine& rings = state_->rings;
  if (Shape::one_consumer && inherits_) [[unlikely]] {
    if (const claimed at = rings.inherited_item()) return at;
    inherits_ = false;
  }
  if (Shape::many_rings && in_a_row_ == turn) next_lane();
  claimed at = rings.claim_item(ring_, seat_);
  if (!at) [[unlikely]] {
    at = claim_elsewhere(at);
    if (!at) return at;
  }
  ++in_a_row_;
  help_at_ = no_deadline;
  return at;
}

// After a claim in vain from lane ring_: from the others. Clears up when it has been busy for long.
template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::consumer_port::claim_elsewhere(claimed vain) -> claimed {
  engine& rings = state_->rings;
  for (;;) {
    bool busy = vain.status() == queue_status::busy, open = vain.status() == queue_status::empty,
         over = vain.status() == queue_status::closed;
    if constexpr (Shape::many_rings) {
      next_lane();
      for (std::size_t looked = 1; looked < rings.facts().rings; ++looked, next_lane()) {
        const claimed at = rings.claim_item(ring_, seat_);
        if (at) return at;
        busy |= at.status() == queue_status::busy;
        open |= at.status() == queue_status::empty;
        over |= at.status() == queue_status::closed;
      }
    }
    if (busy) break;
    if (!open || !over) return open ? queue_status::empty : queue_status::closed;
    // Closed meanwhile: a lane that was over was not empty before, perhaps, and the others are closed by now.
    vain = rings.claim_item(ring_, seat_);
    if (vain) return vain;
  }
  // Whoever only tries must not find it busy for ever because somebody has died.
  const deadline now = deadline_clock::now();
  if (help_at_ == no_deadline) help_at_ = now + engine::patience;
  if (now >= help_at_) help();
  return queue_status::busy;
}

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::consumer_port::next_lane() noexcept {
  ring_ = ring_ + 1 == state_->rings.facts().rings ? 0 : ring_ + 1;
  in_a_row_ = 0;
}

// After a claim in vain: claims until one succeeds, or the limit comes, or the end.
template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::consumer_port::await_item(wait_limit limit, claimed at) -> claimed {
  engine& rings = state_->rings;
  while (!at && at.status() != queue_status::closed) {
    if (limit.over() || !rings.await_item(limit, [&] { return rings.has_news(); })) break;
    // Closed, but another process must find the end: there is news, and nothing for this process to do.
    if (at.status() == queue_status::busy && rings.is_closed()) [[unlikely]]
      sync::nap();
    slip_->after_wait(rings.slip(), [&] { return rings.size_approx(); });
    at = claim_item();
  }
  return at;
}

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::consumer_port::help() {
  engine& rings = state_->rings;
  const std::uint64_t self = detail::real_life::self();
  for (unsigned ring = 0; ring < rings.facts().rings; ++ring) rings.help(ring, self);
  help_at_ = no_deadline;
}

#undef MUSTER_SHARED_QUEUE

}  // namespace muster::inline MUSTER_ABI
