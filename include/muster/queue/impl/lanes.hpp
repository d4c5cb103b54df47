// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/lanes.hpp: the definitions of lanes' producers, close() and what belongs to neither side. The consumers are in
// impl/lanes_consumers.hpp.
//
// Who must be woken. Consumers sleep for one event, an item in any lane, under 16 keys. A push that finds sleepers
// wakes those of one key, and goes on to the next key when nobody was asleep under it (its consumer was on its way out,
// or will look again). So, as long as a consumer C sleeps:
//   1. every item that C's last look did not see has woken somebody of its own: its push came after C's bit;
//   2. whoever was woken sees that item, or that it is taken, before it sleeps again or leaves; so it takes one, that
//      one or another that C has not seen either, or that one has been taken.
// With as many takers as items, none is left over. What a lane's own queue would wake, nobody sleeps for.
#pragma once

#include <muster/queue/lanes.hpp>  // the class

#include <algorithm>  // std::min
#include <stdexcept>  // std::length_error
#include <string>     // messages

namespace muster::inline MUSTER_ABI {

#define MUSTER_LANES template <class T, class Layout, class Wait>
#define MUSTER_LANES_QUEUE lanes<T, Layout, Wait>

MUSTER_LANES
MUSTER_LANES_QUEUE::lanes(std::size_t capacity, lanes_options options)
    : seats_(std::clamp<std::size_t>(options.threads, 1, 256)),
      slip_(std::min<std::size_t>(capacity / 4, 1024)),
      marked_(lanes_for(options.producers)) {
  const queue_options each{.threads = options.threads, .cells = options.cells, .first_rank = options.first_rank};
  detail::ring_cells("lanes", capacity, each, each.threads,
                     ring<typename lane_queue::cell, Layout>::cell_size);  // refuses in our name
  lanes_.reserve(options.producers);
  for (std::size_t i = 0; i < options.producers; ++i) lanes_.push_back(std::make_unique<lane>(capacity, each));
  for (std::size_t i = 0; i < seats_.size(); ++i)
    seats_[i].word.store(seated::pack({nullptr, static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(i)}),
                         std::memory_order_relaxed);
}

// As many, or std::invalid_argument.
MUSTER_LANES
std::size_t MUSTER_LANES_QUEUE::lanes_for(std::size_t producers) {
  static constexpr std::size_t most = std::size_t{1} << 24;  // see seated::pack()
  if (producers == 0) detail::refuse("lanes", "0 producers push nothing; ask for 1 or more");
  if (producers > most)
    detail::refuse("lanes", std::to_string(producers) + " producers are too many; the most is " + std::to_string(most));
  return producers;
}

// ---------------------------------------------------------------------------------------------------------- producers

MUSTER_LANES
auto MUSTER_LANES_QUEUE::try_producer() -> std::optional<producer_handle> {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    // (1) acquire: pairs with (2). What the last producer has left of the lane is ours.
    if (lanes_[i]->taken.load(std::memory_order_relaxed) || lanes_[i]->taken.exchange(true, std::memory_order_acquire))
      continue;
    std::size_t used = used_.load(std::memory_order_relaxed);
    while (used <= i && !used_.compare_exchange_strong(used, i + 1, std::memory_order_relaxed)) {
    }
    return producer_handle(*this, i);
  }
  return std::nullopt;
}

MUSTER_LANES
auto MUSTER_LANES_QUEUE::producer() -> producer_handle {
  if (std::optional<producer_handle> one = try_producer()) return *std::move(one);
  throw std::length_error("lanes: all " + std::to_string(lanes_.size()) +
                          " lanes are taken; ask the constructor for more producers, or end a producer_handle first");
}

MUSTER_LANES
void MUSTER_LANES_QUEUE::producer_handle::leave() noexcept {
  // (2) release: pairs with (1).
  if (owner_ != nullptr) lane_->taken.store(false, std::memory_order_release);
}

MUSTER_LANES
auto MUSTER_LANES_QUEUE::producer_handle::operator=(producer_handle&& other) noexcept -> producer_handle& {
  if (this != &other) {
    leave();
    owner_ = std::exchange(other.owner_, nullptr);
    lane_ = std::exchange(other.lane_, nullptr);
    mark_ = other.mark_;
    number_ = other.number_;
  }
  return *this;
}

MUSTER_LANES
template <class... Args>
queue_status MUSTER_LANES_QUEUE::producer_handle::try_emplace(Args&&... args) {
  // Whatever comes of the push, also an exception: in a queue that is being closed, a rank without an item is an event.
  const detail::finally told([this] { owner_->after_push(mark_, 1); });
  return queue().try_emplace(std::forward<Args>(args)...);
}

MUSTER_LANES
template <class... Args>
queue_status MUSTER_LANES_QUEUE::producer_handle::emplace_within(const wait_limit& limit, Args&&... args) {
  const detail::finally told([this] { owner_->after_push(mark_, 1); });
  return queue().emplace_within(limit, std::forward<Args>(args)...);
}

MUSTER_LANES
template <class InputIt>
std::size_t MUSTER_LANES_QUEUE::producer_handle::push_up_to(InputIt first, std::size_t count, bool waits) {
  rank_t told = queue().tail_.load(std::memory_order_relaxed);
  const auto tell = [&] {
    const rank_t tail = queue().tail_.load(std::memory_order_relaxed);
    owner_->after_push(mark_, static_cast<std::size_t>(tail - std::exchange(told, tail)));
  };
  const detail::finally told_at_the_end(tell);
  return queue().push_up_to(std::move(first), count, waits, tell);
}

MUSTER_LANES
template <class InputIt>
std::size_t MUSTER_LANES_QUEUE::producer_handle::push_n(InputIt first, std::size_t count) {
  return push_up_to(std::move(first), count, true);
}

MUSTER_LANES
template <class InputIt>
std::size_t MUSTER_LANES_QUEUE::producer_handle::try_push_n(InputIt first, std::size_t count) {
  return push_up_to(std::move(first), count, false);
}

MUSTER_LANES
void MUSTER_LANES_QUEUE::after_push(detail::lane_set::place mark, std::size_t items) noexcept {
  detail::lane_set::put_in(mark);
  if constexpr (Wait::parks)
    if (const std::uint32_t word = events_.after_event(); (word & event_mask::all_keys) != 0) [[unlikely]]
      wake(word, items);
}

// Wakes as many as there are items; everybody when it may be the last event that a closed queue has waited for.
MUSTER_LANES
void MUSTER_LANES_QUEUE::wake(std::uint32_t word, std::size_t items) noexcept {
  if ((word & closing) != 0) return events_.wake_all();
  for (std::uint32_t key = 0; key < event_mask::keys && items != 0; ++key)
    if (event_mask::wakes(word, key) && events_.wake(key)) --items;
}

// ------------------------------------------------------------------------------------------------------------ the rest

// Every call closes every lane itself: of two at once, neither returns before all pushes are refused.
MUSTER_LANES
void MUSTER_LANES_QUEUE::close() {
  events_.raise(closing);
  for (const std::unique_ptr<lane>& each : lanes_) each->queue.close();
  events_.raise(closed);
}

MUSTER_LANES
std::size_t MUSTER_LANES_QUEUE::size_approx() const noexcept {
  std::size_t items = 0;
  for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) items += lanes_[i]->queue.size_approx();
  return items;
}

MUSTER_LANES
void MUSTER_LANES_QUEUE::check() const {
  const std::size_t used = used_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i]->queue.check();
    const bool has_items = lanes_[i]->queue.size_approx() != 0;
    MUSTER_CHECK(!has_items || marked_.next(i, i + 1) == i, "lanes: a lane has items, but is not marked");
    MUSTER_CHECK(i < used || !(has_items || lanes_[i]->taken.load(std::memory_order_relaxed)),
                 "lanes: a lane is in use that consumers do not look at");
  }
}

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/lanes_consumers.hpp>  // the rest of the definitions
