// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xmc.cuh: XMalloc as the paper shows it: xmcInit on the host, xmcMalloc and xmcFree in kernels.
//
// Heap       one per process, on CUDA's malloc, for the device that is current when it is created. Objects live from
//            kernel to kernel.
// Mixing     with malloc and free of kernels is allowed: xmcFree frees objects of xmcMalloc, free all others.
// Files      without relocatable device code, each file has its own variables, so each file with such kernels calls
//            xmcInit itself; all get the same heap.
// Without a GPU (lane.cuh), the base is the C library's malloc.
// Source     Huang, Rodrigues, Jones, Buck, Hwu (J. Supercomputing, 2011), section 4 and Figure 1.
#pragma once

#include <muster/gpu/bases.hpp>    // malloc_base
#include <muster/gpu/xmalloc.hpp>  // xmalloc

#include <cstddef>    // std::size_t
#include <cstdint>    // std::uint64_t
#include <mutex>      // creation of the heap
#include <new>        // placement
#include <stdexcept>  // std::runtime_error
#include <string>     // messages

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The heap that xmcInit creates.
struct xmc_heap {
  MUSTER_GPU explicit xmc_heap(std::uint64_t bytes) : base(bytes), heap(base) {}
  malloc_base base;
  xmalloc<malloc_base> heap;
};

#if defined(__CUDACC__)

#define MUSTER_XMC static __device__ __forceinline__

static __device__ xmc_heap* xmc_of_this_file = nullptr;

template <class Heap>
__global__ void make_xmc_heap(Heap* place, std::uint64_t bytes) {
  ::new (static_cast<void*>(place)) Heap(bytes);
}

inline void require_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("xmcInit: ") + what + ": " + cudaGetErrorString(status));
}

inline int xmc_device() {
  int number = 0;
  require_cuda(cudaGetDevice(&number), "no device");
  return number;
}

inline xmc_heap* new_xmc_heap(std::uint64_t bytes) {
  require_cuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes),
               "cannot set the size of the device's heap; call xmcInit before the first kernel that uses malloc");
  void* place = nullptr;
  require_cuda(cudaMalloc(&place, sizeof(xmc_heap)), "no memory on the device");
  make_xmc_heap<xmc_heap><<<1, 1>>>(static_cast<xmc_heap*>(place), bytes);
  require_cuda(cudaGetLastError(), "the program has no code for this device; compile it for this architecture");
  require_cuda(cudaDeviceSynchronize(), "cannot create the heap");
  return static_cast<xmc_heap*>(place);
}

#else

#define MUSTER_XMC [[maybe_unused]] static inline

static xmc_heap* xmc_of_this_file = nullptr;

inline xmc_heap* new_xmc_heap(std::uint64_t bytes) { return new xmc_heap(bytes); }
inline int xmc_device() { return 0; }

#endif

/// The heap of the process; the first call creates it.
inline xmc_heap* xmc_of_process(std::uint64_t bytes) {
  static std::mutex mutex;
  static xmc_heap* heap = nullptr;
  static std::uint64_t size = 0;
  static int device = 0;
  const std::lock_guard lock(mutex);
  if (heap == nullptr) {
    heap = new_xmc_heap(bytes);
    size = bytes;
    device = xmc_device();
  }
  if (device != xmc_device())
    throw std::runtime_error("xmcInit: the heap of the process is on device " + std::to_string(device) +
                             "; make that device current");
  if (size != bytes)
    throw std::runtime_error("xmcInit: asked for " + std::to_string(bytes) + " bytes, but the heap has " +
                             std::to_string(size) + "; pass the size of the first call");
  return heap;
}

/// Creates the heap, with a size of `bytes`, or finds it. Call it before the file's first kernel that uses the heap.
/// Throws std::runtime_error if CUDA reports an error, or if the heap has another size.
static inline void xmcInit(std::uint64_t bytes = std::uint64_t{500} << 20U) {
  xmc_heap* const heap = xmc_of_process(bytes);
#if defined(__CUDACC__)
  require_cuda(cudaMemcpyToSymbol(xmc_of_this_file, &heap, sizeof(heap)),
               "the heap's address cannot be copied to the device");
#else
  xmc_of_this_file = heap;
#endif
}

/// In kernels: the heap, for example for noticed(); null before xmcInit.
MUSTER_XMC xmc_heap* xmcHeap() { return xmc_of_this_file; }

/// In kernels: allocates `bytes`, aligned to 16. Returns null if there is no room, for 0, and before xmcInit.
MUSTER_XMC void* xmcMalloc(std::size_t bytes) {
  xmc_heap* const all = xmcHeap();
  return all == nullptr ? nullptr : all->heap.allocate(bytes);
}

/// In kernels: frees an object of xmcMalloc; null has no effect.
MUSTER_XMC void xmcFree(void* object) {
  xmc_heap* const all = xmcHeap();
  if (all != nullptr) all->heap.free(object);
}

#undef MUSTER_XMC

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
