// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// upstream.hpp: the allocators below an allocator such as xmalloc, which give it large blocks and take them back. An
// upstream allocator has these functions:
//
//   void* allocate(std::size_t bytes)      aligned to 16; or null. Each lane calls for itself.
//   void deallocate(void* block)           a block from allocate()
//   bool owns(const void* p) const         false only if p cannot be in one of its blocks
//   std::uintptr_t origin() const          blocks begin here, and extend over 2^32 granules of 2^granule_bits() bytes.
//   unsigned granule_bits() const          Blocks elsewhere, or between granules, are not kept in buffers.
//   void trim()                            if it keeps free blocks: returns them; while no lane calls
//
// malloc_upstream and page_upstream have headers of their own; bump_upstream is here.
#pragma once

#include <muster/gpu/simt.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The size of the smallest granules of which 2^32 cover `bytes`, as a power of two.
constexpr MUSTER_GPU unsigned granule_bits_for(std::uint64_t bytes) {
  unsigned bits = 4;
  while (bits < 32 && (bytes - 1) >> (32 + bits) != 0) ++bits;
  return bits;
}

/// Hands out the bytes of a region one after another, and reclaims none. The lower bound on the cost of any allocator:
/// a load and a fetch-add.
class bump_upstream {
 public:
  /// The region must be aligned to 16.
  MUSTER_GPU bump_upstream(void* region, std::uint64_t bytes)
      : begin_(reinterpret_cast<std::uintptr_t>(region)), bytes_(bytes) {}

  /// Returns the next bytes, aligned to a granule; null if too few are left.
  MUSTER_GPU void* allocate(std::size_t bytes) {
    const std::uint64_t granule = std::uint64_t{1} << granule_bits();
    if (bytes > bytes_) return nullptr;
    const std::uint64_t rounded = (bytes + granule - 1) / granule * granule;
    // fetch_add cannot be undone, so check for room first: then at most one request per concurrent lane is lost.
    if (next_.load(std::memory_order_relaxed) + rounded > bytes_) return nullptr;
    const std::uint64_t at = next_.fetch_add(rounded, std::memory_order_relaxed);
    return at + rounded > bytes_ ? nullptr : reinterpret_cast<void*>(begin_ + at);
  }
  /// Has no effect.
  MUSTER_GPU void deallocate(void*) {}
  /// Returns true if an address is in the region.
  MUSTER_GPU bool owns(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - begin_ < bytes_; }
  /// The address of granule 0.
  MUSTER_GPU std::uintptr_t origin() const { return begin_; }
  /// The size of a granule, as a power of two.
  MUSTER_GPU unsigned granule_bits() const { return granule_bits_for(bytes_); }

 private:
  const std::uintptr_t begin_;
  const std::uint64_t bytes_;
  atomic<std::uint64_t> next_{0};
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
