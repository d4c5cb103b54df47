// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/ring.hpp: the array of cells of a queue, the mapping of ranks to cells, and checks of the requested sizes.
//
// Ranks are 64 bits and wrap; before() compares two ranks by the sign of their difference. This is correct for ranks up
// to 292 years apart at 10^9 items a second, if ranks advance by one.
#pragma once

#include <muster/base/arch.hpp>               // line_size
#include <muster/base/detail/heap_array.hpp>  // heap_array
#include <muster/base/detail/utilities.hpp>   // std::max
#include <muster/queue/options.hpp>           // queue_options, rank_t

#include <bit>          // std::bit_ceil
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <limits>       // the largest request
#include <stdexcept>    // std::invalid_argument
#include <string>       // messages
#include <type_traits>  // std::conditional_t

namespace muster::inline MUSTER_ABI {

/// Returns true if rank a comes before rank b.
constexpr bool before(rank_t a, rank_t b) noexcept { return static_cast<std::int64_t>(a - b) < 0; }

namespace detail {

// The default minimum: rotation needs some bits, and sleepers' keys repeat every eventcount::keys ranks.
inline constexpr std::size_t least_cells = 16;

[[noreturn]] inline void refuse(const char* queue, const std::string& why) {
  MUSTER_THROW(std::invalid_argument(std::string(queue) + ": " + why));
}

/// Returns the number of cells for a request. Throws std::invalid_argument, whose message names a valid value. `spare`:
/// cells beyond the capacity, for stopped threads that hold one.
inline std::size_t ring_cells(const char* queue, std::size_t capacity, const queue_options& options, std::size_t spare,
                              std::size_t cell_size) {
  const std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / 2 / cell_size;
  if (capacity == 0) refuse(queue, "capacity is 0; it must be at least 1");
  if (options.threads == 0) refuse(queue, "queue_options::threads is 0; it must be at least 1");
  if (capacity > most || options.threads > most - capacity)
    refuse(queue, "capacity is " + std::to_string(capacity) + ", with " + std::to_string(options.threads) +
                      " threads; the sum must be at most " + std::to_string(most));
  if (options.cells == 0) return std::bit_ceil(std::max<std::size_t>(capacity + spare, least_cells));
  const std::size_t least = std::bit_ceil(std::max<std::size_t>(capacity + spare, 2));
  if (options.cells < least || options.cells > most)
    refuse(queue, "queue_options::cells is " + std::to_string(options.cells) + "; with capacity " +
                      std::to_string(capacity) + " and " + std::to_string(spare) + " threads it must be between " +
                      std::to_string(least) + " and " + std::to_string(most) + ", or 0 for the default");
  if (!std::has_single_bit(options.cells))
    refuse(queue, "queue_options::cells is " + std::to_string(options.cells) + "; it must be a power of two, such as " +
                      std::to_string(std::bit_ceil(options.cells)) + ", or 0 for the default");
  return options.cells;
}

}  // namespace detail

/// An array of cells, allocated once and indexed by rank. Its size is a power of two.
template <class Cell, class Layout>
class ring {
 public:
  /// `cells` is a power of two. Throws what the source of memory throws.
  ring(const memory_source& memory, std::size_t cells)
      : cells_(memory, cells),
        mask_(cells - 1),
        low_bits_(std::min(4, std::countr_zero(cells) / 2)),
        high_bits_(std::countr_zero(cells) - low_bits_) {}

  std::size_t cells() const noexcept { return mask_ + 1; }

  /// Returns the cell of a rank. Ranks that differ by cells() share it.
  Cell& operator[](rank_t rank) const noexcept { return cells_[index(rank)].cell; }
  /// Returns the cell at a position in memory, in 0 … cells() − 1.
  Cell& at(std::size_t i) const noexcept { return cells_[i].cell; }

 private:
  struct plain {
    Cell cell;
  };
  struct alignas(Cell) alignas(line_size) lined {
    Cell cell;
  };
  using place = std::conditional_t<Layout::own_line, lined, plain>;

 public:
  static constexpr std::size_t cell_size = sizeof(place);
  /// The cells of this many consecutive ranks fit in a line, so touching one in every this many touches every line.
  static constexpr rank_t ranks_per_line =
      Layout::own_line || Layout::rotates ? 1 : std::bit_floor(std::max<std::size_t>(1, line_size / cell_size));

 private:
  std::size_t index(rank_t rank) const noexcept {
    const std::size_t i = rank & mask_;
    if constexpr (!Layout::rotates) return i;
    // Rotates the index by low_bits_: ranks 0, 1, 2 … are 2^low_bits_ cells apart.
    return ((i << low_bits_) & mask_) | (i >> high_bits_);
  }

  const detail::heap_array<place, std::max(alignof(place), isolation_size)> cells_;
  const std::size_t mask_;
  const int low_bits_;
  const int high_bits_;
};

}  // namespace muster::inline MUSTER_ABI
