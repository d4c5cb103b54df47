// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// arena.hpp: the layout of the memory shared by the two sides of a sandbox. It holds no pointers: each side maps it at
// its own address.
//
//   arena_head          doorbells, and the inside's stage
//   cell[cells]         requests (guarded_ring.hpp)
//   guarded_slot[calls] answers
//   job_slot[jobs]      jobs to execute inside, and their results
//   copies              `copy_bytes` per call: data of the inside that is in no window
//   windows             `window_bytes` per job
//
// Hostile    The inside can write all of it at any time. The outside takes sizes and places from its own arena_plan.
// Sealed     the memory cannot shrink, so the outside never loses its pages.
#pragma once

#include <muster/base/arch.hpp>                     // line_size
#include <muster/base/detail/mapped_region.hpp>     // mapped_region
#include <muster/base/sync.hpp>                     // sync::atomic
#include <muster/syscall/detail/decode.hpp>         // request_words
#include <muster/syscall/detail/doorbell.hpp>       // doorbell
#include <muster/syscall/detail/guarded_ring.hpp>   // guarded_cell
#include <muster/syscall/detail/guarded_slots.hpp>  // guarded_slot

#include <array>    // errors
#include <bit>      // std::bit_ceil
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t
#include <cstring>  // std::memcpy

namespace muster::inline MUSTER_ABI::detail {

/// The inside's stage, as it reports itself.
enum class inside_stage : std::uint32_t { begun, failed, ready };

struct arena_head {
  doorbell to_broker, to_inside, to_outside;
  alignas(line_size) sync::atomic<std::uint32_t> stage{0};
  sync::atomic<std::int32_t> error{0};  // after failure, with the step
  sync::atomic<std::uint32_t> step{0};
  std::array<sync::atomic<std::int32_t>, 3> layer_errors{};  // of the second lines (launch.hpp); 0: present
};

/// One job at a time: its number, its function, its result. Made of atomic words, because the outside reads them while
/// the inside may write them.
struct alignas(line_size) job_slot {
  static constexpr std::size_t closure_bytes = 448, result_bytes = 64, message_bytes = 128;

  sync::atomic<std::uint64_t> given{0};  // by the outside
  sync::atomic<std::uint64_t> done{0};   // by the inside: the same number
  sync::atomic<std::uint64_t> function{0};
  sync::atomic<std::uint64_t> threw{0};
  sync::atomic<std::uint64_t> closure[closure_bytes / 8];
  sync::atomic<std::uint64_t> result[result_bytes / 8];
  sync::atomic<std::uint64_t> message[message_bytes / 8];
};

/// Copies `bytes` bytes into words of the arena.
inline void put_words(sync::atomic<std::uint64_t>* to, const void* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(from) + at, bytes - at < sizeof word ? bytes - at : sizeof word);
    to[at / sizeof word].store(word, std::memory_order_relaxed);
  }
}
/// Copies them out of the arena, reading each word once.
inline void get_words(void* to, const sync::atomic<std::uint64_t>* from, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = from[at / sizeof word].load(std::memory_order_relaxed);
    std::memcpy(static_cast<char*>(to) + at, &word, bytes - at < sizeof word ? bytes - at : sizeof word);
  }
}

/// The layout. Trivially copyable: it is passed to the inside at its creation.
struct arena_plan {
  std::uint32_t calls = 0;
  std::uint32_t jobs = 0;
  std::uint64_t copy_bytes = 0;
  std::uint64_t window_bytes = 0;

  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t up(std::uint64_t bytes) noexcept { return (bytes + page - 1) / page * page; }
  using cell = guarded_cell<request_words>;

  std::uint64_t cells() const noexcept { return std::bit_ceil(std::uint64_t{calls}); }
  std::uint64_t cells_at() const noexcept { return up(sizeof(arena_head)); }
  std::uint64_t slots_at() const noexcept { return up(cells_at() + cells() * sizeof(cell)); }
  std::uint64_t jobs_at() const noexcept { return up(slots_at() + calls * sizeof(guarded_slot)); }
  /// Here the data begins. Requests point to it by offsets from here.
  std::uint64_t data_at() const noexcept { return up(jobs_at() + jobs * sizeof(job_slot)); }
  std::uint64_t copy_of(std::uint32_t call) const noexcept { return call * copy_bytes; }
  std::uint64_t window_of(std::uint32_t job) const noexcept { return calls * copy_bytes + job * window_bytes; }
  std::uint64_t data_bytes() const noexcept { return window_of(jobs); }
  std::uint64_t bytes() const noexcept { return data_at() + data_bytes(); }
  bool operator==(const arena_plan&) const = default;
};

/// A plan, and its address in this process.
class arena_map {
 public:
  arena_map(const arena_plan& plan, unsigned char* start) noexcept : plan_(plan), start_(start) {}

  const arena_plan& plan() const noexcept { return plan_; }
  arena_head& head() const noexcept { return *reinterpret_cast<arena_head*>(start_); }
  arena_plan::cell* cells() const noexcept { return reinterpret_cast<arena_plan::cell*>(start_ + plan_.cells_at()); }
  guarded_slot* slots() const noexcept { return reinterpret_cast<guarded_slot*>(start_ + plan_.slots_at()); }
  job_slot* jobs() const noexcept { return reinterpret_cast<job_slot*>(start_ + plan_.jobs_at()); }
  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(start_ + plan_.data_at()); }

 private:
  arena_plan plan_;
  unsigned char* start_;
};

/// All zeros, the initial value of everything in it. Data pages take memory once touched.
inline mapped_region make_arena(const arena_plan& plan) {
  return mapped_region::make_anonymous(plan.bytes(), plan.data_at(), [](unsigned char*) {});
}

}  // namespace muster::inline MUSTER_ABI::detail
