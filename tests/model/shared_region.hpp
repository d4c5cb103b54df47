// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_region.hpp: memory with the rings of a shared_queue in it, for programs under the checker, where a process is
// a thread, and one that has stopped forever is dead.
#pragma once

#include <muster/queue/shared.hpp>

#include "checker/engine.hpp"

#include <cstdint>
#include <memory>
#include <new>

namespace muster_model_test {

namespace mm = muster_model;
namespace detail = muster::detail;
using muster::queue_status;
using number = std::uint64_t;

inline constexpr number dead_from_the_beginning = 100;

/// Otherwise it lives, as a process that is stopped by a signal.
inline bool a_stopped_process_is_dead = true;

/// Process n + 1 is thread n. Where no process dies, sleepers do not check for deaths after a time, which would hide a
/// lost wake.
template <bool Mortal>
struct model_life {
  static constexpr bool mortal = Mortal;
  static number self() { return mm::engine::running().current() + 1; }
  static bool alive(number process) {
    if (process == dead_from_the_beginning) return false;
    return !a_stopped_process_is_dead || !mm::engine::running().has_stopped(static_cast<unsigned>(process - 1));
  }
  static number ended(number) { return dead_from_the_beginning; }
};

/// A region of memory with a ring in it, or several.
template <class Shape, bool Mortal>
class region {
  using life = model_life<Mortal>;

 public:
  using rings = detail::shared_ring<number, Shape, muster::wait::park, life>;

  region(std::size_t capacity, std::size_t cells, muster::rank_t first, unsigned seats, unsigned of_them = 1)
      : facts_(facts(capacity, cells, seats, of_them)),
        memory_(static_cast<unsigned char*>(::operator new(facts_.size, alignment))) {
    rings::construct(memory_, facts_, first);
    queue = std::make_unique<rings>(memory_, facts_);
  }
  ~region() {
    const std::size_t ring_bytes = (facts_.size - facts_.cells_at) / facts_.rings;
    for (std::size_t ring = 0; ring < facts_.rings; ++ring)
      std::destroy_n(reinterpret_cast<detail::shared_cell<number>*>(memory_ + facts_.cells_at + ring * ring_bytes),
                     facts_.cells);
    std::destroy_n(&queue->ends(0), facts_.rings);
    std::destroy_n(&queue->seat(0), facts_.seats);
    std::destroy_at(&queue->header());
    ::operator delete(memory_, alignment);
  }

  queue_status try_push(unsigned seat, typename rings::view& seen, number value) {
    const auto at = queue->claim_place(0, seat, seen);
    if (at) queue->publish(seat, at, value);
    return at.status();
  }
  muster::queue_result<number> try_pop(unsigned seat) {
    const auto at = queue->claim_item(0, seat);
    if (!at) return at.status();
    return queue->take(seat, at);
  }
  /// Waits and recovers dead processes as shared_queue's ports do.
  queue_status push(unsigned seat, typename rings::view& seen, number value, const muster::wait_limit& limit = {}) {
    for (;;) {
      const queue_status now = try_push(seat, seen, value);
      if (now == queue_status::success || now == queue_status::closed) return now;
      if (limit.over() || !queue->await_room(limit, now, 0, seen)) return now;
    }
  }
  muster::queue_result<number> pop(unsigned seat, const muster::wait_limit& limit = {}) {
    for (;;) {
      muster::queue_result<number> now = try_pop(seat);
      if (now || now.status() == queue_status::closed) return now;
      if (now.status() == queue_status::busy) queue->help(0, life::self());
      if (limit.over() || !queue->await_item(limit, [&] { return queue->has_news(); })) return now;
    }
  }

  /// The same memory as a program sees it that waits in another way.
  template <class Wait>
  detail::shared_ring<number, Shape, Wait, life> seen_by() {
    return {memory_, facts_};
  }

  std::unique_ptr<rings> queue;

 private:
  static constexpr std::align_val_t alignment{muster::isolation_size};

  static detail::shared_metadata facts(std::size_t capacity, std::size_t cells, unsigned seats, unsigned rings) {
    detail::shared_metadata f;
    f.capacity = capacity;
    f.cells = cells;
    f.rings = rings;
    f.seats = seats;
    return detail::lay_out<number>(f);
  }

  const detail::shared_metadata facts_;
  unsigned char* const memory_;
};

}  // namespace muster_model_test
