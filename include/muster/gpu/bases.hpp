// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// bases.hpp: what an allocator such as xmalloc stands on: who gives it large blocks and takes them back. A base is
//
//   void* allocate(std::size_t bytes)      aligned to 16; or null. Each lane calls for itself.
//   void deallocate(void* block)           what allocate() has given
//   bool owns(const void* p) const         false only when p cannot be in one of its blocks
//   std::uintptr_t origin() const          blocks lie from here on, up to 2^32 granules of 2^granule_bits() bytes. What
//   unsigned granule_bits() const          lies elsewhere, or between granules, is not kept in buffers.
#pragma once

#include <muster/gpu/lane.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t
#include <cstdlib>  // malloc

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// As small as 2^32 of them reach over so many bytes.
constexpr MUSTER_GPU unsigned granule_bits_for(std::uint64_t bytes) {
  unsigned bits = 4;
  while (bits < 32 && (bytes - 1) >> (32 + bits) != 0) ++bits;
  return bits;
}

/// CUDA's own malloc in kernels; the C library's elsewhere. Its heap lies around the first block that it gives. Made
/// and used on one side only: what a kernel has allocated, a kernel gives back.
class malloc_base {
 public:
  /// `heap`: in bytes, at least as many as malloc has.
  MUSTER_GPU explicit malloc_base(std::uint64_t heap) : granule_bits_(granule_bits_for(2 * heap)) {
    void* const some = ::malloc(16);
    origin_ = reinterpret_cast<std::uintptr_t>(some) - (std::uintptr_t{1} << (31 + granule_bits_));
    origin_ &= ~((std::uintptr_t{1} << granule_bits_) - 1);
    ::free(some);
  }

  MUSTER_GPU void* allocate(std::size_t bytes) { return ::malloc(bytes); }
  MUSTER_GPU void deallocate(void* block) { ::free(block); }
  /// Where malloc's heap lies is its secret.
  MUSTER_GPU bool owns(const void*) const { return true; }
  MUSTER_GPU std::uintptr_t origin() const { return origin_; }
  MUSTER_GPU unsigned granule_bits() const { return granule_bits_; }

 private:
  std::uintptr_t origin_;
  unsigned granule_bits_;
};

/// Gives the bytes of a region one after another, and takes nothing back. The floor below all allocators.
class bump_base {
 public:
  /// The region must be aligned to 16.
  MUSTER_GPU bump_base(void* region, std::uint64_t bytes)
      : begin_(reinterpret_cast<std::uintptr_t>(region)), bytes_(bytes) {}

  MUSTER_GPU void* allocate(std::size_t bytes) {
    const std::uint64_t granule = std::uint64_t{1} << granule_bits();
    if (bytes > bytes_) return nullptr;
    const std::uint64_t rounded = (bytes + granule - 1) / granule * granule;
    // Who finds too little has taken it nevertheless. So look before: then only as much is lost as lanes look at once.
    if (next_.load(std::memory_order_relaxed) + rounded > bytes_) return nullptr;
    const std::uint64_t at = next_.fetch_add(rounded, std::memory_order_relaxed);
    return at + rounded > bytes_ ? nullptr : reinterpret_cast<void*>(begin_ + at);
  }
  MUSTER_GPU void deallocate(void*) {}
  MUSTER_GPU bool owns(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - begin_ < bytes_; }
  MUSTER_GPU std::uintptr_t origin() const { return begin_; }
  MUSTER_GPU unsigned granule_bits() const { return granule_bits_for(bytes_); }

 private:
  const std::uintptr_t begin_;
  const std::uint64_t bytes_;
  atomic<std::uint64_t> next_{0};
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
