// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simt.cuh: the one seam between the GPU's code and the machine that executes it. All other headers of gpu/ are plain
// C++ on top of these names. There are three sides:
//
// device     compiled by nvcc: CUDA's intrinsics, and atomics in PTX, at the scope of the device and in global memory
//            only: for an address in unknown memory, the compiler emits code to find out which it is.
// emulated   MUSTER_SIMT, without a GPU: warps of 32 lanes on fibers, whose schedule a seed determines.
// single     otherwise: every thread of the host is a warp of one lane. The model checker uses this side.
//
// Masks      of lanes of one warp, bit n for lane n. Every lane in a mask must call the same function with the same
//            mask. Lanes that have ended need not, but must not be read from. active_mask() returns the lanes that
//            execute the call; a mask from it is valid while all of its lanes make the same calls in the same order.
// Order      match, ballot, shuffle and reduce do not order memory. sync_warp does, among the lanes of its mask.
#pragma once

#include <muster/gpu/detail/simt_types.hpp>  // lane_mask, index3

#include <cstdint>      // std::uint32_t
#include <type_traits>  // std::is_integral_v

#if !defined(__cpp_exceptions)
#error "of muster, only the queues work without exceptions: compile the other parts without -fno-exceptions"
#endif

#if defined(__CUDACC__)
#include <muster/gpu/detail/simt_device.cuh>
#elif defined(MUSTER_SIMT)
#include <muster_simt/simt.hpp>
#else
#include <muster/gpu/detail/simt_single.hpp>
#endif

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The number of lanes in a mask.
MUSTER_GPU unsigned many_of(lane_mask lanes) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__popc(lanes));
#else
  return static_cast<unsigned>(__builtin_popcount(lanes));
#endif
}
/// The lowest of some lanes, at least one.
MUSTER_GPU unsigned first_of(lane_mask lanes) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__ffs(static_cast<int>(lanes))) - 1;
#else
  return static_cast<unsigned>(__builtin_ctz(lanes));
#endif
}
/// The highest of some lanes, at least one.
MUSTER_GPU unsigned last_of(lane_mask lanes) {
#if defined(__CUDA_ARCH__)
  return 31 - static_cast<unsigned>(__clz(static_cast<int>(lanes)));
#else
  return 31 - static_cast<unsigned>(__builtin_clz(lanes));
#endif
}
/// The lanes of a mask that are lower than the caller's.
MUSTER_GPU lane_mask before_me(lane_mask lanes) { return lanes & ((lane_mask{1} << lane_id()) - 1); }
/// Returns true if the caller is the lowest lane of a mask that contains it.
MUSTER_GPU bool is_first_of(lane_mask lanes) { return before_me(lanes) == 0; }

/// The value that lane `from` passed, one of `among`; an integer, or a pointer.
template <class T>
MUSTER_GPU T shuffle(lane_mask among, T value, unsigned from) {
  static_assert(std::is_integral_v<T>);
  return static_cast<T>(shuffle_word(among, static_cast<std::uint64_t>(value), from));
}
template <class T>
MUSTER_GPU T* shuffle(lane_mask among, T* value, unsigned from) {
  return reinterpret_cast<T*>(shuffle_word(among, reinterpret_cast<std::uint64_t>(value), from));
}

/// The sum of the values of the lanes that are lower than the caller's. Takes a shuffle for each power of two below the
/// number of lanes.
MUSTER_GPU std::uint32_t exclusive_sum(lane_mask among, std::uint32_t value) {
  // After round r, `sum` is that of the 2^r lanes up to the caller's, and `before` the lane below these.
  std::uint32_t sum = value;
  const lane_mask earlier = before_me(among);
  unsigned before = earlier == 0 ? warp_size : last_of(earlier);
  for (unsigned reach = 1; reach < many_of(among); reach *= 2) {
    const unsigned from = before == warp_size ? lane_id() : before;
    const std::uint64_t its = shuffle_word(among, std::uint64_t{before} << 32U | sum, from);
    if (before != warp_size) {
      sum += static_cast<std::uint32_t>(its);
      before = static_cast<unsigned>(its >> 32U);
    }
  }
  return sum - value;
}

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
