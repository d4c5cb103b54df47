// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/lane_bitmap.hpp: a bit for each lane that may have items, so that consumers need not check every lane.
//
// While a lane has items no thread writes its bit: the producer sets it only if it is clear, and only consumers about
// to sleep clear it. A set bit may belong to an empty lane. A clear bit may belong to a lane with items only until the
// consumer that cleared it has checked again, as clear_empty() requires, and sets it.
#pragma once

#include <muster/base/arch.hpp>               // isolation_size
#include <muster/base/detail/heap_array.hpp>  // heap_array
#include <muster/base/detail/utilities.hpp>   // std::min
#include <muster/base/sync.hpp>               // sync::atomic

#include <bit>      // std::countr_zero
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class lane_bitmap {
 public:
  /// An empty set for this many lanes. Throws what the source of memory throws.
  lane_bitmap(const memory_source& memory, std::size_t lanes)
      : asymmetric_(sync::asymmetric_fences()), words_(memory, (lanes + lanes_per_word - 1) / lanes_per_word) {}

  /// The location of a lane's bit.
  struct place {
    sync::atomic<std::uint64_t>* bits;
    std::uint64_t bit;
  };
  place of(std::size_t lane) noexcept { return {&words_[lane / lanes_per_word].bits, bit(lane)}; }

  /// Called after an item has been published in the lane.
  void mark(std::size_t lane) noexcept { mark(of(lane)); }
  MUSTER_HOT static void mark(place lane) noexcept {
    // (1) light_fence: alone. Its other side is the heavy fence that clear_empty() requires: either this thread sees
    // the cleared bit, or the check after that fence sees the item.
    sync::light_fence();
    if ((lane.bits->load(std::memory_order_relaxed) & lane.bit) == 0) [[unlikely]]
      lane.bits->fetch_or(lane.bit, std::memory_order_relaxed);
  }

  /// Clears the bits of lanes for which empty(lane) is true. Afterwards the caller must execute a heavy fence, check
  /// all lanes, and mark() each that has an item after all. Without asymmetric fences it does nothing: bits stay set,
  /// and consumers visit empty lanes.
  template <class Empty>
  void clear_empty(Empty empty) noexcept {
    if (!asymmetric_) return;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      std::uint64_t out = 0;
      for (std::uint64_t in = words_[w].bits.load(std::memory_order_relaxed); in != 0; in &= in - 1)
        if (const auto at = static_cast<std::size_t>(std::countr_zero(in)); empty(w * lanes_per_word + at))
          out |= bit(at);
      if (out != 0) words_[w].bits.fetch_and(~out, std::memory_order_relaxed);
    }
  }

  /// Returns the first lane of the set in from … to − 1, or `to` if there is none.
  std::size_t next(std::size_t from, std::size_t to) const noexcept {
    while (from < to) {
      const std::uint64_t in =
          words_[from / lanes_per_word].bits.load(std::memory_order_relaxed) >> from % lanes_per_word;
      if (in != 0) return std::min(to, from + static_cast<std::size_t>(std::countr_zero(in)));
      from = (from / lanes_per_word + 1) * lanes_per_word;
    }
    return to;
  }

 private:
  static constexpr std::size_t lanes_per_word = 64;
  static constexpr std::uint64_t bit(std::size_t lane) noexcept { return std::uint64_t{1} << lane % lanes_per_word; }

  struct alignas(isolation_size) word {
    sync::atomic<std::uint64_t> bits{0};
  };

  const bool asymmetric_;
  heap_array<word> words_;
};

}  // namespace muster::inline MUSTER_ABI::detail
