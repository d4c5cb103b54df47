// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simt_types.hpp: the types that all sides of simt.cuh share.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <atomic>   // std::memory_order
#include <cstdint>  // std::uint32_t

#if defined(__CUDACC__)
#define MUSTER_GPU_CONSTANT __host__ __device__ constexpr
#else
#define MUSTER_GPU_CONSTANT constexpr
#endif

namespace muster::inline MUSTER_ABI::gpu {

/// Lanes of a warp on a GPU.
inline constexpr unsigned warp_size = 32;

/// Lanes of one warp: bit n for lane n.
using lane_mask = std::uint32_t;

/// CUDA's dim3.
struct index3 {
  unsigned x = 1, y = 1, z = 1;  // 1 by default
};

/// For machines whose compare-exchange has one order for success and failure. Neither argument is sequentially
/// consistent.
MUSTER_GPU_CONSTANT std::memory_order order_for_both(std::memory_order success, std::memory_order failure) {
  if (failure == std::memory_order_relaxed || success == std::memory_order_acq_rel) return success;
  return success == std::memory_order_release ? std::memory_order_acq_rel : std::memory_order_acquire;
}

}  // namespace muster::inline MUSTER_ABI::gpu
