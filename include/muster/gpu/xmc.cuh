// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xmc.cuh: XMalloc as the paper shows it: xmcInit on the host, xmcMalloc and xmcFree in kernels.
//
// Heap       one per process, on CUDA's malloc, for the device that is current when it is created. Objects stay
//            allocated from one kernel to the next.
// Mixing     with malloc and free of kernels is allowed: xmcFree frees objects of xmcMalloc, free all others.
// Files      without relocatable device code, each file has its own variables, so each file with such kernels calls
//            xmcInit itself; all get the same heap.
// Memory     The heap keeps free blocks: of each size as many as warps can be resident, 8,448 on an H100, rounded up to
//            16,384 for the 16 FIFOs; but all have a third of the heap at most. With 500 MiB, it has 16,384 of each
//            size up to 2 KiB, and 2,048 of 16 KiB.
// Cost       xmcMalloc, xmcFree: see xmalloc.hpp and malloc_upstream.hpp. xmcInit: a mutex; the first call also
//            allocates on the device, and runs a kernel of one thread that prepares the FIFOs.
// Without a GPU (simt.cuh), the upstream allocator is the C library's malloc.
// Source     Huang, Rodrigues, Jones, Buck, Hwu (J. Supercomputing, 2011), section 4 and Figure 1.
#pragma once

#include <muster/gpu/malloc_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>

#include <cstddef>    // std::size_t
#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
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
  /// Keeps as many free blocks of each size as `warps`, and a third of `bytes` at most.
  MUSTER_GPU xmc_heap(std::uint64_t bytes, unsigned warps) : upstream(bytes, warps), heap(upstream, warps, bytes / 3) {}
  /// CUDA's malloc.
  malloc_upstream upstream;
  /// XMalloc on it.
  xmalloc<malloc_upstream> heap;
};

#if defined(__CUDACC__)

#define MUSTER_XMC static __device__ __forceinline__

static __device__ xmc_heap* xmc_of_this_file = nullptr;

template <class Heap>
__global__ void make_xmc_heap(Heap* place, std::uint64_t bytes, unsigned warps) {
  ::new (static_cast<void*>(place)) Heap(bytes, warps);
}

/// `what` begins with the name of the function that the program has called.
inline void require_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

inline int xmc_device() {
  int number = 0;
  require_cuda(cudaGetDevice(&number), "xmcInit: no device");
  return number;
}

/// How many warps can be resident at once on the current device: so many blocks of a size may be in use, and be freed,
/// at the same time. Throws std::runtime_error if CUDA reports an error.
inline unsigned resident_warps() {
  int device = 0, multiprocessors = 0, threads = 0;
  constexpr const char* error = "resident_warps: no device";
  require_cuda(cudaGetDevice(&device), error);
  require_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), error);
  require_cuda(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device), error);
  return static_cast<unsigned>(multiprocessors) * static_cast<unsigned>(threads) / warp_size;
}

inline xmc_heap* new_xmc_heap(std::uint64_t bytes) {
  struct deleter {
    void operator()(xmc_heap* at) const { cudaFree(at); }
  };
  const unsigned warps = resident_warps();
  require_cuda(
      cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes),
      "xmcInit: cannot set the size of the device's heap; call xmcInit before the first kernel that uses malloc");
  void* place = nullptr;
  require_cuda(cudaMalloc(&place, sizeof(xmc_heap)), "xmcInit: no memory on the device");
  std::unique_ptr<xmc_heap, deleter> made(static_cast<xmc_heap*>(place));
  make_xmc_heap<xmc_heap><<<1, 1>>>(made.get(), bytes, warps);
  require_cuda(cudaGetLastError(),
               "xmcInit: the program has no code for this device; compile it for this architecture");
  require_cuda(cudaDeviceSynchronize(), "xmcInit: cannot create the heap");
  return made.release();
}

#else

#define MUSTER_XMC [[maybe_unused]] static inline

static xmc_heap* xmc_of_this_file = nullptr;

inline int xmc_device() { return 0; }
/// How many warps can be resident at once: without a GPU, 256.
inline unsigned resident_warps() { return 256; }
inline xmc_heap* new_xmc_heap(std::uint64_t bytes) { return new xmc_heap(bytes, resident_warps()); }

#endif

/// The heap of the process; the first call creates it.
inline xmc_heap* xmc_of_process(std::uint64_t bytes) {
  static std::mutex mutex;
  static xmc_heap* made = nullptr;
  static std::uint64_t size = 0;
  static int device = 0;
  const std::lock_guard lock(mutex);
  if (made == nullptr) {
    made = new_xmc_heap(bytes);
    size = bytes;
    device = xmc_device();
  }
  if (device != xmc_device())
    throw std::runtime_error("xmcInit: the heap of the process is on device " + std::to_string(device) +
                             "; make that device current");
  if (size != bytes)
    throw std::runtime_error("xmcInit: asked for " + std::to_string(bytes) + " bytes, but the heap has " +
                             std::to_string(size) + "; pass the size of the first call");
  return made;
}

/// Creates the heap, with a size of `bytes`, or finds it. Call it before the file's first kernel that uses the heap.
/// Throws std::runtime_error if CUDA reports an error, or if the heap has another size.
static inline void xmcInit(std::uint64_t bytes = std::uint64_t{500} << 20U) {
  xmc_heap* const found = xmc_of_process(bytes);
#if defined(__CUDACC__)
  require_cuda(cudaMemcpyToSymbol(xmc_of_this_file, &found, sizeof(found)),
               "xmcInit: the heap's address cannot be copied to the device");
#else
  xmc_of_this_file = found;
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
