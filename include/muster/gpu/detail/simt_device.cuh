// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simt_device.cuh: the device's side of simt.cuh: CUDA's intrinsics, and atomics in PTX. In the host's code of a
// program for the device, a thread is a warp of one lane, as in simt_single.hpp.
#pragma once

#if defined(__CUDACC__)

#include <muster/gpu/detail/simt_types.hpp>  // lane_mask, index3

#include <atomic>   // std::memory_order
#include <cstdint>  // std::uint32_t

#define MUSTER_GPU_SIDE device
#define MUSTER_GPU __host__ __device__ __forceinline__
#define MUSTER_GPU_COLD __host__ __device__ __noinline__
/// Before a loop: the compiler makes no copies of its body.
#if defined(__CUDA_ARCH__)
#define MUSTER_GPU_ROLLED _Pragma("unroll 1")
#else
#define MUSTER_GPU_ROLLED
#endif
#define MUSTER_KERNEL __global__
/// In a kernel: memory of the block, of a trivial type. Not gpu::atomic, which is for global memory.
#define MUSTER_GPU_SHARED(type, name) __shared__ type name

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

// clang-format off: it does not know the colons of assembly.
// PTX has the order in the instruction's text, so each is written out. The order is a constant in the caller, so the
// compiler keeps one of them. All have the clobber "memory", because constructors also write the same memory.
#define MUSTER_PTX(order, word, rest, ...)                                     \
  do {                                                                         \
    if (order == std::memory_order_relaxed) {                                  \
      asm volatile(word ".relaxed.gpu.global." rest : __VA_ARGS__ : "memory"); \
    } else if (order == std::memory_order_acquire) {                           \
      asm volatile(word ".acquire.gpu.global." rest : __VA_ARGS__ : "memory"); \
    } else if (order == std::memory_order_release) {                           \
      asm volatile(word ".release.gpu.global." rest : __VA_ARGS__ : "memory"); \
    } else {                                                                   \
      asm volatile(word ".acq_rel.gpu.global." rest : __VA_ARGS__ : "memory"); \
    }                                                                          \
  } while (false)
#define MUSTER_PTX_CHANGE(name, T, type, reg)                                                     \
  __device__ __forceinline__ T ptx_##name(T* at, T value, std::memory_order order) {              \
    T old;                                                                                        \
    MUSTER_PTX(order, "atom", #name type " %0, [%1], %2;", "=" reg(old)                           \
               : "l"(__cvta_generic_to_global(at)), reg(value));                                  \
    return old;                                                                                   \
  }
#define MUSTER_PTX_ALL(T, bits, reg)                                                              \
  MUSTER_PTX_CHANGE(exch, T, ".b" bits, reg)                                                      \
  MUSTER_PTX_CHANGE(add, T, ".u" bits, reg)                                                       \
  MUSTER_PTX_CHANGE(or, T, ".b" bits, reg)                                                        \
  MUSTER_PTX_CHANGE(and, T, ".b" bits, reg)                                                       \
  __device__ __forceinline__ T ptx_cas(T* at, T expected, T desired, std::memory_order order) {   \
    T old;                                                                                        \
    MUSTER_PTX(order, "atom", "cas.b" bits " %0, [%1], %2, %3;", "=" reg(old)                     \
               : "l"(__cvta_generic_to_global(at)), reg(expected), reg(desired));                 \
    return old;                                                                                   \
  }                                                                                               \
  __device__ __forceinline__ T ptx_load(const T* at, std::memory_order order) {                   \
    T value;                                                                                      \
    if (order == std::memory_order_relaxed) {                                                     \
      asm volatile("ld.relaxed.gpu.global.u" bits " %0, [%1];"                                    \
                   : "=" reg(value) : "l"(__cvta_generic_to_global(at)) : "memory");              \
    } else {                                                                                      \
      asm volatile("ld.acquire.gpu.global.u" bits " %0, [%1];"                                    \
                   : "=" reg(value) : "l"(__cvta_generic_to_global(at)) : "memory");              \
    }                                                                                             \
    return value;                                                                                 \
  }                                                                                               \
  __device__ __forceinline__ void ptx_store(T* at, T value, std::memory_order order) {            \
    if (order == std::memory_order_relaxed) {                                                     \
      asm volatile("st.relaxed.gpu.global.u" bits " [%0], %1;"                                    \
                   :: "l"(__cvta_generic_to_global(at)), reg(value) : "memory");                  \
    } else {                                                                                      \
      asm volatile("st.release.gpu.global.u" bits " [%0], %1;"                                    \
                   :: "l"(__cvta_generic_to_global(at)), reg(value) : "memory");                  \
    }                                                                                             \
  }
#if defined(__CUDA_ARCH__)
MUSTER_PTX_ALL(std::uint32_t, "32", "r")
MUSTER_PTX_ALL(std::uint64_t, "64", "l")
#endif
#undef MUSTER_PTX_ALL
#undef MUSTER_PTX_CHANGE
#undef MUSTER_PTX
// clang-format on

#if defined(__CUDA_ARCH__)
#define MUSTER_GPU_EITHER(on_device, on_host) return on_device
#else
#define MUSTER_GPU_EITHER(on_device, on_host) return on_host
#endif

/// Like std::atomic of an unsigned integer of four or eight bytes: the operations that the library uses, none of them
/// sequentially consistent. In a kernel it must be in global memory.
template <class T>
class atomic {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);

 public:
  atomic() = default;
  MUSTER_GPU explicit constexpr atomic(T value) : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  MUSTER_GPU T load(std::memory_order order) const {
    MUSTER_GPU_EITHER(ptx_load(&value_, order), __atomic_load_n(&value_, static_cast<int>(order)));
  }
  MUSTER_GPU void store(T value, std::memory_order order) {
    MUSTER_GPU_EITHER(ptx_store(&value_, value, order), __atomic_store_n(&value_, value, static_cast<int>(order)));
  }
  MUSTER_GPU T exchange(T value, std::memory_order order) {
    MUSTER_GPU_EITHER(ptx_exch(&value_, value, order), __atomic_exchange_n(&value_, value, static_cast<int>(order)));
  }
  MUSTER_GPU T fetch_add(T value, std::memory_order order) {
    MUSTER_GPU_EITHER(ptx_add(&value_, value, order), __atomic_fetch_add(&value_, value, static_cast<int>(order)));
  }
  MUSTER_GPU T fetch_sub(T value, std::memory_order order) { return fetch_add(static_cast<T>(0 - value), order); }
  MUSTER_GPU T fetch_or(T value, std::memory_order order) {
    MUSTER_GPU_EITHER(ptx_or(&value_, value, order), __atomic_fetch_or(&value_, value, static_cast<int>(order)));
  }
  MUSTER_GPU T fetch_and(T value, std::memory_order order) {
    MUSTER_GPU_EITHER(ptx_and(&value_, value, order), __atomic_fetch_and(&value_, value, static_cast<int>(order)));
  }
  MUSTER_GPU bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                                          std::memory_order failure) {
#if defined(__CUDA_ARCH__)
    const T wanted = expected;
    expected = ptx_cas(&value_, wanted, desired, order_for_both(success, failure));
    return expected == wanted;
#else
    return __atomic_compare_exchange_n(&value_, &expected, desired, false, static_cast<int>(success),
                                       static_cast<int>(failure));
#endif
  }

 private:
  T value_{};
};

MUSTER_GPU unsigned lane_id() {
#if defined(__CUDA_ARCH__)
  unsigned id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
#else
  return 0;
#endif
}
MUSTER_GPU unsigned multiprocessor() {
#if defined(__CUDA_ARCH__)
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
#else
  return 0;
#endif
}
/// The warp's place on its multiprocessor: at one time, different for all of its warps. It may change.
MUSTER_GPU unsigned warp_place() {
#if defined(__CUDA_ARCH__)
  unsigned id;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(id));
  return id;
#else
  return 0;
#endif
}
MUSTER_GPU lane_mask active_mask() { MUSTER_GPU_EITHER(__activemask(), 1); }
MUSTER_GPU lane_mask ballot(lane_mask among, bool yes) {
  MUSTER_GPU_EITHER(__ballot_sync(among, yes), yes ? among : 0);
}
MUSTER_GPU lane_mask match_any(lane_mask among, [[maybe_unused]] std::uint64_t value) {
  MUSTER_GPU_EITHER(__match_any_sync(among, static_cast<unsigned long long>(value)), among);
}
MUSTER_GPU std::uint64_t shuffle_word([[maybe_unused]] lane_mask among, std::uint64_t value,
                                      [[maybe_unused]] unsigned from) {
  MUSTER_GPU_EITHER(__shfl_sync(among, static_cast<unsigned long long>(value), static_cast<int>(from)), value);
}
MUSTER_GPU void sync_warp([[maybe_unused]] lane_mask among) {
#if defined(__CUDA_ARCH__)
  __syncwarp(among);
#endif
}
MUSTER_GPU void sync_block() {
#if defined(__CUDA_ARCH__)
  __syncthreads();
#endif
}
MUSTER_GPU std::uint64_t clock() { MUSTER_GPU_EITHER(static_cast<std::uint64_t>(clock64()), 0); }
MUSTER_GPU index3 thread_index() {
  MUSTER_GPU_EITHER((index3{threadIdx.x, threadIdx.y, threadIdx.z}), (index3{0, 0, 0}));
}
MUSTER_GPU index3 block_index() { MUSTER_GPU_EITHER((index3{blockIdx.x, blockIdx.y, blockIdx.z}), (index3{0, 0, 0})); }
MUSTER_GPU index3 block_size() { MUSTER_GPU_EITHER((index3{blockDim.x, blockDim.y, blockDim.z}), index3{}); }
MUSTER_GPU index3 grid_size() { MUSTER_GPU_EITHER((index3{gridDim.x, gridDim.y, gridDim.z}), index3{}); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <class Combine>
__device__ std::uint32_t reduce_by_shuffles(lane_mask among, std::uint32_t value, Combine combine) {
  std::uint32_t all = 0;
  for (lane_mask left = among; left != 0; left &= left - 1)
    all = combine(all, __shfl_sync(among, value, __ffs(static_cast<int>(left)) - 1));
  return all;
}
MUSTER_GPU std::uint32_t reduce_add(lane_mask among, std::uint32_t value) {
  return reduce_by_shuffles(among, value, [](std::uint32_t a, std::uint32_t b) { return a + b; });
}
MUSTER_GPU std::uint32_t reduce_or(lane_mask among, std::uint32_t value) {
  return reduce_by_shuffles(among, value, [](std::uint32_t a, std::uint32_t b) { return a | b; });
}
#else
MUSTER_GPU std::uint32_t reduce_add([[maybe_unused]] lane_mask among, std::uint32_t value) {
  MUSTER_GPU_EITHER(__reduce_add_sync(among, value), value);
}
MUSTER_GPU std::uint32_t reduce_or([[maybe_unused]] lane_mask among, std::uint32_t value) {
  MUSTER_GPU_EITHER(__reduce_or_sync(among, value), value);
}
#endif
#undef MUSTER_GPU_EITHER

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE

#endif
