// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xmalloc_kernels.hpp: what tests of xmalloc over any upstream allocator share: kernels that allocate and free, and a
// counting upstream allocator.
#pragma once

#include <muster/gpu/upstream.hpp>

#include "objects.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muster_test {

/// Fills a block that no other lane writes to.
MUSTER_GPU void fill(const object& o, unsigned owner) {
  for (std::uint64_t i = 0; i < o.bytes; ++i) o.at[i] = value_of(i, owner);
}
MUSTER_GPU bool is_filled(const object& o, unsigned owner) {
  for (std::uint64_t i = 0; i < o.bytes; ++i)
    if (o.at[i] != value_of(i, owner)) return false;
  return true;
}
inline bool all_filled(const muster_simt::device_array<object>& all) {
  for (unsigned i = 0; i < all.size(); ++i)
    if (all[i].at != nullptr && !is_filled(all[i], i)) return false;
  return true;
}

/// Lanes below `active` of each warp ask for `bytes[thread]`; the others do nothing.
template <class Heap>
MUSTER_KERNEL void allocate(Heap* heap, const std::uint64_t* bytes, object* out, unsigned active) {
  const unsigned me = number_in_grid();
  if (muster::gpu::lane_id() >= active) return;
  const std::uint64_t wanted = bytes[me];
  auto* const at = static_cast<unsigned char*>(heap->allocate(wanted));
  out[me] = {at, at == nullptr ? 0 : wanted};
  fill(out[me], me);
}
/// Each thread frees the block of thread + shift.
template <class Heap>
MUSTER_KERNEL void free_others(Heap* heap, object* all, unsigned shift, unsigned threads) {
  const unsigned me = number_in_grid();
  if (me >= threads) return;
  object& o = all[(me + shift) % threads];
  heap->free(o.at);
  o = {nullptr, 0};
}
/// Some of the lanes free, others allocate, each for itself, in a loop; lanes end at different times.
template <class Heap>
MUSTER_KERNEL void churn(Heap* heap, object* all, unsigned rounds, unsigned most_bytes, std::uint32_t seed,
                         muster::gpu::atomic<std::uint32_t>* wrong) {
  const unsigned me = number_in_grid();
  std::uint32_t dice = seed + me * 0x9e3779b9U;
  object mine{nullptr, 0};
  for (unsigned round = 0; round < rounds + me % 5; ++round) {
    dice = dice * 1664525U + 1013904223U;
    if (mine.at != nullptr && (dice >> 28U) < 9) {
      if (!is_filled(mine, me)) wrong->fetch_add(1, std::memory_order_relaxed);
      heap->free(mine.at);
      mine = {nullptr, 0};
    } else if (mine.at == nullptr) {
      const std::uint64_t bytes = 1 + (dice >> 8U) % most_bytes;
      auto* const at = static_cast<unsigned char*>(heap->allocate(bytes));
      mine = {at, at == nullptr ? 0 : bytes};
      fill(mine, me);
    }
  }
  all[me] = mine;
}

#if !defined(__CUDACC__)
/// Counts what reaches the upstream allocator.
struct counting_upstream : muster::gpu::bump_upstream {
  using bump_upstream::bump_upstream;
  void* allocate(std::size_t bytes) {
    allocated.fetch_add(1, std::memory_order_relaxed);
    return bump_upstream::allocate(bytes);
  }
  void deallocate(void*) { returned.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<unsigned> allocated{0}, returned{0};
};
#endif

}  // namespace muster_test
