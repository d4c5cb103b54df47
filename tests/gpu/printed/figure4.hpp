// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// figure4.hpp: XMalloc's coalescing as Figure 4 of the paper prints it, which counts on lanes that go in step: without
// that, a lane sets the sum back that others have begun, the first reads a sum that is not complete, and others read
// the address before it is there. Lines are those of the figure.
#pragma once

#include <muster/gpu/detail/coalesced_block.hpp>
#include <muster/gpu/simt.cuh>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace printed {

namespace mg = muster::gpu;

inline constexpr unsigned most_warps = 32;

struct shared_by_block {
  std::uint32_t sizes[most_warps];
  std::uint64_t blocks[most_warps];
};

/// An operation on an atomic in shared memory, before which another lane may run.
template <class T>
std::atomic_ref<T> shared_atomic(T& word) {
  muster_simt::point(muster_simt::access::change, &word);
  return std::atomic_ref<T>(word);
}

template <class Upstream>
void* figure4(Upstream& upstream, std::uint32_t request) {
  constexpr auto order = std::memory_order_seq_cst;
  MUSTER_GPU_SHARED(shared_by_block, shared);
  const unsigned warp = mg::thread_index().x / mg::warp_size;                   // 1
  const unsigned threads = mg::many_of(mg::ballot(mg::active_mask(), true));    // 2
  shared_atomic(shared.sizes[warp]).store(mg::coalesced_block::header, order);  // 3
  const std::uint32_t offset = shared_atomic(shared.sizes[warp])
                                   .fetch_add(  // 4
                                       static_cast<std::uint32_t>(mg::block_slot::bytes_for(request)), order);
  const std::uint32_t all =
      offset == mg::coalesced_block::header ? shared_atomic(shared.sizes[warp]).load(order) : 0;     // 5
  char* block = all == 0 ? nullptr : static_cast<char*>(upstream.allocate(all));                     // 6
  if (all != 0) {                                                                                    // 7
    shared_atomic(shared.blocks[warp]).store(reinterpret_cast<std::uint64_t>(block), order);         // 8
    if (block != nullptr) ::new (block) mg::coalesced_block{mg::atomic<std::uint32_t>(threads), 0};  // 9
  }
  block = reinterpret_cast<char*>(shared_atomic(shared.blocks[warp]).load(order));  // 10
  if (block == nullptr) return nullptr;                                             // 11
  return mg::block_slot::make(block, offset, false);                                // 12 to 14
}

}  // namespace printed
