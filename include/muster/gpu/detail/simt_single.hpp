// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simt_single.hpp: the side of simt.cuh where each thread of the host is a warp of one lane.
#pragma once

#include <muster/base/sync.hpp>              // sync::atomic
#include <muster/gpu/detail/simt_types.hpp>  // lane_mask, index3

#include <cstdint>  // std::uint32_t

#define MUSTER_GPU_SIDE single
/// Of a function that kernels call, and the host: device code, where it is compiled for a GPU.
#define MUSTER_GPU inline
#define MUSTER_GPU_COLD inline
#define MUSTER_GPU_ROLLED
/// Of a kernel: __global__, where it is compiled for a GPU.
#define MUSTER_KERNEL inline
/// In a kernel: memory of the block, of a trivial type. Not gpu::atomic, which is for global memory.
#define MUSTER_GPU_SHARED(type, name) type name

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// An atomic in global memory, of 32 or 64 bits, with the functions of std::atomic.
template <class T>
using atomic = sync::atomic<T>;

/// The number of the calling lane in its warp.
inline unsigned lane_id() { return 0; }
/// The number of the multiprocessor that executes the call. It may change.
inline unsigned multiprocessor() { return 0; }
/// The warp's place on its multiprocessor: at one time, different for all of its warps. It may change.
inline unsigned warp_place() { return 0; }
/// The lanes of the warp that execute this call together.
inline lane_mask active_mask() { return 1; }
/// The lanes of `among` that have passed true.
inline lane_mask ballot(lane_mask among, bool yes) { return yes ? among : 0; }
/// The lanes of `among` that have passed the same value as the caller.
inline lane_mask match_any(lane_mask among, [[maybe_unused]] std::uint64_t value) { return among; }
/// The word that lane `from` of `among` has passed. shuffle() takes other types.
inline std::uint64_t shuffle_word([[maybe_unused]] lane_mask among, std::uint64_t value,
                                  [[maybe_unused]] unsigned from) {
  return value;
}
/// The sum of the values of all lanes of `among`.
inline std::uint32_t reduce_add([[maybe_unused]] lane_mask among, std::uint32_t value) { return value; }
/// The values of all lanes of `among`, combined bit by bit.
inline std::uint32_t reduce_or([[maybe_unused]] lane_mask among, std::uint32_t value) { return value; }
/// Waits for the lanes of `among`, and orders memory among them.
inline void sync_warp([[maybe_unused]] lane_mask among) {}
/// Waits for all threads of the block, and orders memory among them.
inline void sync_block() {}
/// A counter of cycles; 0 where there is none.
inline std::uint64_t clock() { return 0; }
/// CUDA's threadIdx.
inline index3 thread_index() { return {0, 0, 0}; }
/// CUDA's blockIdx.
inline index3 block_index() { return {0, 0, 0}; }
/// CUDA's blockDim.
inline index3 block_size() { return {}; }
/// CUDA's gridDim.
inline index3 grid_size() { return {}; }

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
