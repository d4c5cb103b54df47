// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/shared_layout.hpp: the memory layout of a shared_queue. No pointer in it is used, as each process maps it at
// its own address.
//
//   shared_header   the facts and the sleepers
//   seat[seats]     one for each port of a process
//   ends[rings]     of each ring: the positions of producers and consumers
//   arena[rings]    of each ring: the bytes of its messages; only of shared_bytes
//   cell[cells] of each ring
//
// All fields that a process checks before it uses a region come first in the header, and no later version moves them.
#pragma once

#include <muster/base/arch.hpp>                    // isolation_size, line_size
#include <muster/base/detail/eventcount.hpp>       // shared_eventcount
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/queue/detail/ring.hpp>            // before
#include <muster/queue/options.hpp>                // rank_t
#include <muster/queue/status.hpp>                 // queue_status

#include <array>    // the tag
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

// A rank and its state in one word, so that a claim names its owner in the same step. Ranks advance by `step` and wrap
// after 2^52 items.
struct shared_word {
  static constexpr rank_t step = rank_t{1} << 12;
  static constexpr unsigned most_seats = 1024;
  enum state : unsigned { free = 0, written = 1, published = 2, taken = 3 };

  static constexpr rank_t make(rank_t rank, state is, unsigned seat = 0) noexcept { return rank | seat << 2 | is; }
  static constexpr rank_t rank_of(rank_t word) noexcept { return word & ~(step - 1); }
  static constexpr unsigned seat_of(rank_t word) noexcept {
    return static_cast<unsigned>(word >> 2) & (most_seats - 1);
  }
  static constexpr state state_of(rank_t word) noexcept { return static_cast<state>(word & 3); }
};

// word: free: its rank, and every earlier one of this cell, is finished. written: the producer at its seat owns `item`.
// published: `item` has no owner. taken: the consumer at its seat owns `item`; for seat 0, the holder of the only
// consumer's place. Its rank only grows.
// gap: every rank of this cell up to it has been claimed or will have no item; it only grows.
template <class T>
struct shared_cell {
  sync::atomic<rank_t> word{0};
  sync::atomic<rank_t> gap{0};
  sync::cell<manual_lifetime<T>> item;
};

/// How far an item that was published is.
enum class item_use : unsigned char { unclaimed, claimed, finished };

// The result of a claim: a rank and its cell, or why there is none. Two words, so that a call returns it in registers:
// in memory it would be written in pieces and read as a whole, which takes longer than the claim.
template <class T>
class claim_result {
 public:
  claim_result(queue_status why) noexcept : rank_(static_cast<rank_t>(why)) {}
  claim_result(rank_t rank, shared_cell<T>& c) noexcept : rank_(rank), place_(&c) {}
  queue_status status() const noexcept { return static_cast<queue_status>(rank_ & (shared_word::step - 1)); }
  explicit operator bool() const noexcept { return status() == queue_status::success; }
  rank_t rank() const noexcept { return rank_; }
  shared_cell<T>& place() const noexcept { return *place_; }

 private:
  static_assert(static_cast<rank_t>(queue_status::success) == 0, "as the last bits of a rank");
  rank_t rank_;
  shared_cell<T>* place_ = nullptr;
};

// A port of a process. It is free if holder is 0. Only its holder writes `last`.
struct alignas(isolation_size) shared_seat {
  sync::atomic<std::uint64_t> holder{0};  // its process; set by compare-exchange; cleared by itself or by the recoverer
  sync::atomic<std::uint64_t> recoverer{0};  // the process that recovers after a dead holder
  sync::atomic<std::uint32_t> role{0};
  sync::atomic<rank_t> last{0};          // of a consumer: the rank of the last item that it took
  sync::atomic<std::uint64_t> items{0};  // pushed or taken
};

// head and tail are hints: every rank before head is taken or a gap, every rank before tail is claimed or a gap.
// producer, consumer: the seat of the only one, where the shape allows only one; 0: none.
struct shared_ends {
  alignas(isolation_size) sync::atomic<rank_t> head{0};
  sync::atomic<std::uint32_t> consumer{0};
  alignas(isolation_size) sync::atomic<rank_t> tail{0};
  sync::atomic<std::uint32_t> producer{0};
  alignas(isolation_size) sync::atomic<rank_t> end{0};  // the rank after the last, once the queue is closed
};

// The constant description of a region.
struct shared_metadata {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t header_size = 0;
  std::uint64_t size = 0;    // of the region
  std::uint64_t layout = 0;  // a digest of all sizes and offsets that two programs must agree on
  std::array<char, 32> shape{};
  std::array<char, 32> tag{};  // the user's
  std::uint64_t item_size = 0;
  std::uint64_t item_alignment = 0;
  std::uint64_t capacity = 0;  // of a ring
  std::uint64_t cells = 0;     // of a ring
  std::uint64_t rings = 0;
  std::uint64_t seats = 0;
  std::uint64_t arena = 0;     // bytes for the messages of a ring, a multiple of isolation_size; 0: none
  std::uint64_t seats_at = 0;  // offsets
  std::uint64_t ends_at = 0;
  std::uint64_t arenas_at = 0;
  std::uint64_t cells_at = 0;
  std::uint64_t boot = 0;
  std::uint64_t name_space = 0;
};

struct alignas(isolation_size) shared_header {
  shared_metadata facts;
  // The sleepers. For the flags of consumers see shared_ring.
  alignas(isolation_size) shared_eventcount consumers;
  alignas(isolation_size) shared_eventcount producers;
  sync::atomic<std::uint64_t> deaths{0};  // deaths after which a seat was recovered
};

inline constexpr std::array<char, 8> shared_magic = {'m', 'u', 's', 't', 'e', 'r', '-', 'q'};
inline constexpr std::uint32_t shared_version = 5;

/// Completes the facts of a region from its counts, except what depends on the item.
inline shared_metadata lay_out(shared_metadata f) noexcept {
  static_assert(sizeof(shared_header) % isolation_size == 0);
  f.magic = shared_magic;
  f.version = shared_version;
  f.header_size = sizeof(shared_header);
  f.seats_at = sizeof(shared_header);
  f.ends_at = f.seats_at + f.seats * sizeof(shared_seat);
  f.arenas_at = f.ends_at + f.rings * sizeof(shared_ends);
  f.cells_at = f.arenas_at + f.rings * f.arena;
  return f;
}

/// Completes all facts.
template <class T>
shared_metadata lay_out(shared_metadata f) noexcept {
  const auto up = [](std::uint64_t offset) { return (offset + isolation_size - 1) / isolation_size * isolation_size; };
  f = lay_out(f);
  f.item_size = sizeof(T);
  f.item_alignment = alignof(T);
  f.size = f.cells_at + f.rings * up(f.cells * sizeof(shared_cell<T>));
  f.layout = 0xcbf29ce484222325U;
  for (const std::uint64_t part :
       {std::uint64_t{f.header_size}, std::uint64_t{sizeof(eventcount)}, f.item_size, f.item_alignment,
        std::uint64_t{sizeof(shared_cell<T>)}, std::uint64_t{sizeof(shared_seat)}, std::uint64_t{sizeof(shared_ends)},
        f.capacity, f.cells, f.rings, f.seats, f.arena, f.seats_at, f.ends_at, f.arenas_at, f.cells_at, f.size})
    f.layout = (f.layout ^ part) * 0x100000001b3U;
  return f;
}

}  // namespace muster::inline MUSTER_ABI::detail
