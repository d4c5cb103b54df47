// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_ports.hpp: a shared_queue itself, with its ports, under the checker: its processes are threads, as in
// shared_region.hpp. Only the rings know of processes; so a shape of its own has rings of its own, and all above them
// is as it is shipped.
#pragma once

#include <muster/queue/shared.hpp>

#include "shared_region.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace muster_model_test {

/// The same shape, in a queue whose processes are threads.
template <class Shape, bool Mortal>
struct tested : Shape {};

/// Asks a queue for a port of this seat: what the public way asks the system besides takes longer than a program here.
struct port_of_seat {
  unsigned seat, ring;
  void* producer;  // the std::optional that the port is for, or null
  void* consumer;
};

}  // namespace muster_model_test

namespace muster::inline MUSTER_ABI {

namespace detail {

template <class T, class Shape, bool Mortal, class Wait>
class shared_ring<T, muster_model_test::tested<Shape, Mortal>, Wait, process_liveness>
    : public shared_ring<T, Shape, Wait, muster_model_test::model_life<Mortal>> {
  using life = muster_model_test::model_life<Mortal>;
  using base = shared_ring<T, Shape, Wait, life>;

 public:
  /// An operation that finds the queue busy looks for dead processes at once, or never: there are no clocks here.
  static constexpr std::chrono::hours patience{Mortal ? 0 : 1};

  shared_ring(unsigned char* region, const shared_metadata& f) noexcept : base(region, few_cells(f)), region_(region) {
    made = this;
  }
  /// Nothing is there before an execution begins.
  static void construct(unsigned char*, const shared_metadata&, rank_t) {}
  void begin(rank_t first) { base::construct(region_, base::facts(), first); }

  unsigned acquire_seat(std::uint64_t, std::uint32_t role) { return base::acquire_seat(life::self(), role); }
  template <class Give>
  bool own(sync::atomic<std::uint32_t>& place, unsigned me, std::uint64_t, Give give) {
    return base::own(place, me, life::self(), give);
  }
  template <class Give>
  recovery clear_up(unsigned s, std::uint64_t, Give give) {
    return base::clear_up(s, life::self(), give);
  }
  void help(unsigned ring, std::uint64_t) { base::help(ring, life::self()); }

  static inline shared_ring* made = nullptr;  // the last one

 private:
  /// So that each is used again.
  static shared_metadata few_cells(shared_metadata f) {
    f.cells = std::max<std::size_t>(2, std::bit_ceil(f.capacity + 1));
    return f;
  }

  unsigned char* const region_;
};

}  // namespace detail

template <>
template <>
inline std::size_t shared_queue<std::uint64_t, muster_model_test::tested<shape::lanes, false>, wait::park>::recover(
    muster_model_test::port_of_seat of) {
  auto slip = std::make_unique<temporal_slip>();
  if (of.producer != nullptr)
    static_cast<std::optional<producer_port>*>(of.producer)
        ->emplace(producer_port(state_, of.seat, of.ring, std::move(slip)));
  else
    static_cast<std::optional<consumer_port>*>(of.consumer)->emplace(consumer_port(state_, of.seat, std::move(slip)));
  return 0;
}
template <>
template <>
inline std::size_t shared_queue<std::uint64_t, muster_model_test::tested<shape::lanes, true>, wait::park>::recover(
    muster_model_test::port_of_seat of) {
  auto slip = std::make_unique<temporal_slip>();
  if (of.producer != nullptr)
    static_cast<std::optional<producer_port>*>(of.producer)
        ->emplace(producer_port(state_, of.seat, of.ring, std::move(slip)));
  else
    static_cast<std::optional<consumer_port>*>(of.consumer)->emplace(consumer_port(state_, of.seat, std::move(slip)));
  return 0;
}

}  // namespace muster::inline MUSTER_ABI

namespace muster_model_test {

/// A shared_queue of shape lanes, two of them, in one execution.
template <bool Mortal>
class shared_lanes {
  using shape = tested<muster::shape::lanes, Mortal>;
  using queue_type = muster::shared_queue<number, shape, muster::wait::park>;
  using life = model_life<Mortal>;

 public:
  using rings_type = detail::shared_ring<number, shape, muster::wait::park, detail::process_liveness>;
  using producer_port = typename queue_type::producer_port;
  using consumer_port = typename queue_type::consumer_port;
  static constexpr std::size_t lanes = 2, ports = 6;

  shared_lanes(std::size_t capacity, muster::rank_t first)
      : queue(memory_of(capacity).first), rings(*memory_of(capacity).second) {
    rings.begin(first);
  }

  /// As the queue opens ports, but waits for a lane.
  void open(std::optional<producer_port>& port) {
    const unsigned seat = acquire_seat(detail::producer_role);
    unsigned ring = 0;
    while (!rings.own(rings.ends(ring).producer, seat, 0, detail::leave_items{})) {
      ring = (ring + 1) % lanes;
      if (ring == 0) muster::sync::yield();
    }
    queue.recover(port_of_seat{seat, ring, &port, nullptr});
  }
  void open(std::optional<consumer_port>& port) {
    queue.recover(port_of_seat{acquire_seat(detail::consumer_role), 0, nullptr, &port});
  }

  queue_type& queue;
  rings_type& rings;

 private:
  unsigned acquire_seat(std::uint32_t role) {
    const unsigned seat = rings.acquire_seat(0, role);
    if (seat == 0) mm::engine::running().fail("more ports than there are seats");
    return seat;
  }
  static std::pair<queue_type, rings_type*>& memory_of(std::size_t capacity) {
    const mm::heap::untracked aside;
    static std::map<std::size_t, std::pair<queue_type, rings_type*>> all;
    auto found = all.find(capacity);
    if (found == all.end()) {
      queue_type made = queue_type::create_anonymous(capacity, {.ports = ports, .lanes = lanes});
      found = all.emplace(capacity, std::pair(std::move(made), rings_type::made)).first;
    }
    return found->second;
  }
};

}  // namespace muster_model_test
