// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/shared_layout.hpp: what lies in the memory of a shared_queue, and where. No pointers: each process has it at
// an address of its own.
//
//   shared_header   what it is, and who sleeps
//   seat[seats]     who is inside: a port of a process each
//   ends[rings]     of each ring: where producers and consumers are
//   cell[cells] of each ring
//
// Everything that a process checks before it uses a region is in the first fields of the header, which no later version
// moves.
#pragma once

#include <muster/base/arch.hpp>          // isolation_size, line_size
#include <muster/base/slot.hpp>          // slot
#include <muster/base/wait.hpp>          // event_mask
#include <muster/queue/detail/ring.hpp>  // before
#include <muster/queue/options.hpp>      // rank_t
#include <muster/queue/status.hpp>       // queue_status

#include <array>    // the tag
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

// A rank and what has become of it in one word, so that a claim names its owner in the same step. Ranks advance by
// `step` and wrap after 2^52 of them.
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

// word: free: its rank, and every one before it in this cell, is done with. written: the producer at its seat owns
// `item`. published: nobody does. taken: the consumer at its seat owns `item`; of seat 0, whoever has the place of the
// only consumer. Its rank only grows.
// gap: every rank of this cell up to it is claimed already or never will be; it only grows.
template <class T>
struct shared_cell {
  sync::atomic<rank_t> word{0};
  sync::atomic<rank_t> gap{0};
  sync::cell<slot<T>> item;
};

// What a claim has come to: a rank and its cell, or why there is none. Two words, so that a call returns it in
// registers: in memory it would be written in pieces and read as a whole, which takes longer than the claim.
template <class T>
class shared_claim {
 public:
  shared_claim(queue_status why) noexcept : rank_(static_cast<rank_t>(why)) {}
  shared_claim(rank_t rank, shared_cell<T>& c) noexcept : rank_(rank), place_(&c) {}
  queue_status status() const noexcept { return static_cast<queue_status>(rank_ & (shared_word::step - 1)); }
  explicit operator bool() const noexcept { return status() == queue_status::success; }
  rank_t rank() const noexcept { return rank_; }
  shared_cell<T>& place() const noexcept { return *place_; }

 private:
  static_assert(static_cast<rank_t>(queue_status::success) == 0, "as the last bits of a rank");
  rank_t rank_;
  shared_cell<T>* place_ = nullptr;
};

// A port of a process. 0 in holder: nobody. Whoever holds it writes `last` and nobody else.
struct alignas(isolation_size) shared_seat {
  sync::atomic<std::uint64_t> holder{0};  // its process; set by compare-exchange; emptied by itself or by the keeper
  sync::atomic<std::uint64_t> keeper{0};  // the process that clears up after a dead holder
  sync::atomic<std::uint32_t> role{0};
  sync::atomic<rank_t> last{0};          // of a consumer: the rank of the item that it was given last
  sync::atomic<std::uint64_t> items{0};  // pushed, or given
};

// head and tail are hints: every rank before head is taken or a gap, every rank before tail is claimed or a gap.
// producer, consumer: the seat of the only one, where there may be one only; 0: none.
struct shared_ends {
  alignas(isolation_size) sync::atomic<rank_t> head{0};
  sync::atomic<std::uint32_t> consumer{0};
  alignas(isolation_size) sync::atomic<rank_t> tail{0};
  sync::atomic<std::uint32_t> producer{0};
  alignas(isolation_size) sync::atomic<rank_t> end{0};  // the rank after the last, once the queue is closed
};

// What a region says of itself; constant.
struct shared_facts {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t header_size = 0;
  std::uint64_t size = 0;    // of the region
  std::uint64_t layout = 0;  // a digest of every size and offset that two programs must agree on
  std::array<char, 32> shape{};
  std::array<char, 32> tag{};  // the user's
  std::uint64_t item_size = 0;
  std::uint64_t item_alignment = 0;
  std::uint64_t capacity = 0;  // of a ring
  std::uint64_t cells = 0;     // of a ring
  std::uint64_t rings = 0;
  std::uint64_t seats = 0;
  std::uint64_t seats_at = 0;  // offsets
  std::uint64_t ends_at = 0;
  std::uint64_t cells_at = 0;
  std::uint64_t boot = 0;
  std::uint64_t name_space = 0;
};

struct alignas(isolation_size) shared_header {
  shared_facts facts;
  // Who sleeps. The flags of consumers: see shared_ring.
  alignas(isolation_size) event_mask consumers{futex_scope::shared};
  alignas(isolation_size) event_mask producers{futex_scope::shared};
  sync::atomic<std::uint64_t> deaths{0};  // after which a seat has been cleared up
};

inline constexpr std::array<char, 8> shared_magic = {'m', 'u', 's', 't', 'e', 'r', '-', 'q'};
inline constexpr std::uint32_t shared_version = 4;

/// The facts of a region: its numbers are known, its offsets follow, but for what depends on the item.
inline shared_facts lay_out(shared_facts f) noexcept {
  static_assert(sizeof(shared_header) % isolation_size == 0);
  f.magic = shared_magic;
  f.version = shared_version;
  f.header_size = sizeof(shared_header);
  f.seats_at = sizeof(shared_header);
  f.ends_at = f.seats_at + f.seats * sizeof(shared_seat);
  f.cells_at = f.ends_at + f.rings * sizeof(shared_ends);
  return f;
}

/// All of it.
template <class T>
shared_facts lay_out(shared_facts f) noexcept {
  const auto up = [](std::uint64_t offset) { return (offset + isolation_size - 1) / isolation_size * isolation_size; };
  f = lay_out(f);
  f.item_size = sizeof(T);
  f.item_alignment = alignof(T);
  f.size = f.cells_at + f.rings * up(f.cells * sizeof(shared_cell<T>));
  f.layout = 0xcbf29ce484222325U;
  for (const std::uint64_t part :
       {std::uint64_t{f.header_size}, std::uint64_t{sizeof(event_mask)}, f.item_size, f.item_alignment,
        std::uint64_t{sizeof(shared_cell<T>)}, std::uint64_t{sizeof(shared_seat)}, std::uint64_t{sizeof(shared_ends)},
        f.capacity, f.cells, f.rings, f.seats, f.seats_at, f.ends_at, f.cells_at, f.size})
    f.layout = (f.layout ^ part) * 0x100000001b3U;
  return f;
}

}  // namespace muster::inline MUSTER_ABI::detail
