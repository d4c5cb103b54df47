// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// size_classes.hpp: the sizes of gpu::heap's objects, and of the slabs that hold them.
//
// Sizes      16 bytes apart up to 256; then eight to each power of two. So a request is rounded up by 15 bytes or an
//            eighth at most.
// Slabs      a power of two of pages up to 32, aligned to their size: for 2048 objects if 32 pages suffice;
//            in small heaps for fewer, but for 8 if 32 pages suffice. The unused end of a slab is less than an object,
//            and less than a fifth of the slab.
#pragma once

#include <muster/gpu/simt.cuh>  // last_of

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

template <unsigned PageBits>
struct size_classes {
  static constexpr std::size_t granule = 16;
  static constexpr std::size_t page = std::size_t{1} << PageBits;
  static constexpr unsigned pages_in_chunk = 32;
  static constexpr std::size_t chunk = page * pages_in_chunk;
  static constexpr std::size_t largest = 8 * page;
  static constexpr unsigned many = 8 * (PageBits - 3);  // up to 8 << (PageBits - 4) granules

  /// The class of a size, from 1 up to `largest`.
  static MUSTER_GPU unsigned of(std::size_t bytes) {
    const auto last = static_cast<std::uint32_t>((bytes - 1) / granule);
    if (last < 16) return last;
    const unsigned doublings = last_of(last) - 3;
    return 8 * doublings + (last >> doublings);
  }
  static MUSTER_GPU std::uint32_t size(unsigned size_class) {
    const unsigned doublings = size_class < 16 ? 0 : size_class / 8 - 1;
    return (size_class - 8 * doublings + 1) * static_cast<std::uint32_t>(granule) << doublings;
  }
  /// The smallest class whose objects have at least that many bytes and are all aligned. The alignment is a power of
  /// two, and neither is more than `largest`.
  static MUSTER_GPU unsigned of(std::size_t bytes, std::size_t alignment) {
    unsigned c = of(bytes < alignment ? alignment : bytes);
    while (size(c) % alignment != 0) ++c;
    return c;
  }

  /// The pages of a slab: a power of two.
  MUSTER_GPU std::uint32_t pages(unsigned size_class) const {
    const std::uint32_t last = size(size_class) - 1;
    // Rounded up to a power of two; less 1 until then.
    const std::uint32_t best = last * (2048U >> fewer) >> PageBits, least = last * 8U >> PageBits;
    const std::uint32_t wanted = best < least ? least : best;
    if (wanted >= pages_in_chunk / 2) return pages_in_chunk;
    return wanted == 0 ? 1 : std::uint32_t{2} << last_of(wanted);
  }
  MUSTER_GPU std::uint32_t objects(unsigned size_class) const {
    return pages(size_class) * static_cast<std::uint32_t>(page) / size(size_class);
  }
  /// The words with a bit for each object.
  MUSTER_GPU std::uint32_t words(unsigned size_class) const { return (objects(size_class) + 63) / 64; }
  /// The bits of a word that stand for objects.
  MUSTER_GPU std::uint64_t objects_of(unsigned size_class, std::uint32_t word) const {
    const std::uint32_t all = objects(size_class);
    if (all <= 64 * word) return 0;
    return all - 64 * word >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (all - 64 * word)) - 1;
  }

  /// Chooses the slabs of a heap with that many pages so that one slab of each class takes an eighth of it at most, if
  /// slabs of 8 objects do.
  static MUSTER_GPU size_classes for_pages(std::uint64_t pages) {
    size_classes made;
    for (; made.fewer < 8; ++made.fewer) {
      std::uint64_t all = 0;
      for (unsigned c = 0; c < many; ++c) all += made.pages(c);
      if (all <= pages / 8) break;
    }
    return made;
  }

  /// A slab is for 2048 objects divided by this power of two.
  std::uint32_t fewer = 0;
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
