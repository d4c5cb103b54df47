// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// options.hpp: the options of a queue: how many threads use it, and how its cells are laid out in memory.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI {

/// The number of an item, in the order of the pushes.
using rank_t = std::uint64_t;

/// Options of a queue.
struct queue_options {
  /// The maximum number of threads inside the queue's operations at once, including waiting ones.
  std::size_t threads = 64;
  /// Cells of the ring, a power of two; 0 chooses a number that suffices for the capacity and the threads.
  std::size_t cells = 0;
  /// The rank of the first item. For tests of the wrap-around.
  rank_t first_rank = 0;
};

/// Memory layouts of the cells: the four combinations of the FFQ paper, section IV-A.
namespace layout {

/// Cells are adjacent in rank order: least memory, but neighbours share lines.
struct packed {
  static constexpr bool own_line = false;
  static constexpr bool rotates = false;
};
/// Each cell has its own lines.
struct aligned {
  static constexpr bool own_line = true;
  static constexpr bool rotates = false;
};
/// Cells are adjacent, but consecutive ranks are 16 cells apart, so they are in different lines.
struct rotated {
  static constexpr bool own_line = false;
  static constexpr bool rotates = true;
};
/// Both: the spatial prefetcher does not fetch a line that a neighbour is about to write.
struct aligned_rotated {
  static constexpr bool own_line = true;
  static constexpr bool rotates = true;
};

}  // namespace layout

}  // namespace muster::inline MUSTER_ABI
