// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lane_single.hpp: the side of lane.cuh where each thread of the host is a warp of one lane.
#pragma once

#include <muster/base/sync.hpp>              // sync::atomic
#include <muster/gpu/detail/lane_types.hpp>  // lane_mask, index3

#include <cstdint>  // std::uint32_t

#define MUSTER_GPU_SIDE single
#define MUSTER_GPU inline
#define MUSTER_GPU_COLD inline
#define MUSTER_GPU_ROLLED
#define MUSTER_KERNEL inline
#define MUSTER_GPU_SHARED(type, name) type name

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

template <class T>
using atomic = sync::atomic<T>;

inline unsigned lane_id() { return 0; }
inline unsigned multiprocessor() { return 0; }
inline unsigned warp_place() { return 0; }
inline lane_mask active_mask() { return 1; }
inline lane_mask ballot(lane_mask among, bool yes) { return yes ? among : 0; }
inline lane_mask match_any(lane_mask among, std::uint64_t) { return among; }
inline std::uint64_t shuffle_word(lane_mask, std::uint64_t value, unsigned) { return value; }
inline std::uint32_t reduce_add(lane_mask, std::uint32_t value) { return value; }
inline std::uint32_t reduce_or(lane_mask, std::uint32_t value) { return value; }
inline void sync_warp(lane_mask) {}
inline void sync_block() {}
inline std::uint64_t clock() { return 0; }
inline index3 thread_index() { return {0, 0, 0}; }
inline index3 block_index() { return {0, 0, 0}; }
inline index3 block_size() { return {}; }
inline index3 grid_size() { return {}; }

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
