// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap_run.hpp: the kernels that measure the GPU's heaps; compiled for the GPU and for its emulation.
#pragma once

#include <muster/gpu/simt.cuh>

#include <atomic>
#include <cstddef>
#include <cstdint>

// A program for a GPU has both sides, each with kernels and functions of the same names.
namespace muster::bench::inline MUSTER_GPU_SIDE {

inline constexpr unsigned heap_block_threads = 256;
inline constexpr std::size_t heap_filling = 1024;  // bytes of each object that exists before

MUSTER_GPU unsigned thread_number() { return gpu::block_index().x * gpu::block_size().x + gpu::thread_index().x; }
MUSTER_GPU void note_failed(gpu::atomic<std::uint32_t>* failed) { failed->fetch_add(1, std::memory_order_relaxed); }
inline gpu::index3 blocks(std::uint64_t threads) {
  return {static_cast<unsigned>((threads + heap_block_threads - 1) / heap_block_threads)};
}

/// The paper's worker: the active lanes of each warp allocate an object, write to it, and free it.
template <class Heap>
MUSTER_KERNEL void allocate_write_free(Heap* heap, unsigned active, unsigned threads, std::uint32_t bytes,
                                       gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (gpu::lane_id() >= active || me >= threads) return;
  auto* const mine = static_cast<unsigned*>(heap->allocate(bytes));
  if (mine == nullptr) {
    note_failed(failed);
    return;
  }
  *mine = me;
  if (*static_cast<volatile unsigned*>(mine) != me) note_failed(failed);
  heap->free(mine);
}

/// The same without freeing.
template <class Heap>
MUSTER_KERNEL void allocate_and_keep(Heap* heap, unsigned active, unsigned threads, std::uint32_t bytes, void** out) {
  const unsigned me = thread_number();
  if (gpu::lane_id() < active && me < threads) out[me] = heap->allocate(bytes);
}

/// Each thread marks its object. An object that is not there is counted, and one that another thread marks is found by
/// check_objects.
MUSTER_KERNEL void mark_objects(unsigned threads, void* const* all, gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me >= threads) return;
  if (all[me] == nullptr) {
    note_failed(failed);
  } else {
    *static_cast<unsigned*>(all[me]) = me;
  }
}
MUSTER_KERNEL void check_objects(unsigned threads, void* const* all, gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me < threads && all[me] != nullptr && *static_cast<unsigned*>(all[me]) != me) note_failed(failed);
}
template <class Heap>
MUSTER_KERNEL void free_objects(Heap* heap, unsigned threads, void* const* all) {
  const unsigned me = thread_number();
  if (me < threads) heap->free(all[me]);
}

/// Allocates `many` objects and keeps them.
template <class Heap>
MUSTER_KERNEL void fill_heap(Heap* heap, unsigned many, void** out) {
  const unsigned me = thread_number();
  if (me < many) out[me] = heap->allocate(heap_filling);
}

}  // namespace muster::bench::inline MUSTER_GPU_SIDE
