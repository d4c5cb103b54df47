// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// options.hpp: what a queue may be told when it is made: how many threads use it, and how its cells lie in memory.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI {

using rank_t = std::uint64_t;

/// What a queue may be told beyond its capacity.
struct queue_options {
  /// The greatest number of threads that are inside the queue's operations at once, waiting ones included.
  std::size_t threads = 64;
  /// Cells of the ring, a power of two; 0 chooses enough for the capacity and the threads.
  std::size_t cells = 0;
  /// The rank of the first item. For tests that want to see the ranks wrap.
  rank_t first_rank = 0;
};

/// How cells lie in memory: the four combinations of the FFQ paper, section IV-A.
namespace layout {

/// Cells side by side, consecutive ranks side by side: the least memory, neighbours share lines.
struct packed {
  static constexpr bool own_line = false;
  static constexpr bool rotates = false;
};
/// Each cell has lines of its own.
struct aligned {
  static constexpr bool own_line = true;
  static constexpr bool rotates = false;
};
/// Cells side by side, but consecutive ranks 16 cells apart, so that they lie in different lines.
struct rotated {
  static constexpr bool own_line = false;
  static constexpr bool rotates = true;
};
/// Both: keeps the spatial prefetcher from fetching what a neighbour is about to write.
struct aligned_rotated {
  static constexpr bool own_line = true;
  static constexpr bool rotates = true;
};

}  // namespace layout

}  // namespace muster::inline MUSTER_ABI
