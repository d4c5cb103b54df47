// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// launch.hpp: launches a kernel, on the GPU or on its emulation, and waits for its end. For tests, experiments and
// examples, which are compiled for both. The GPU ignores the settings of the emulation.
#pragma once

#include <muster/gpu/simt.cuh>

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "muster_simt/machine.hpp"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace muster_simt {

using muster::gpu::index3;

#if defined(__CUDACC__)

inline void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

template <class... Parameters, class... Arguments>
void launch(index3 grid, index3 block, void (*kernel)(Parameters...), Arguments... arguments) {
  kernel<<<dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z)>>>(static_cast<Parameters>(arguments)...);
  must(cudaGetLastError(), "the kernel cannot be launched");
  must(cudaDeviceSynchronize(), "the kernel has failed");
}

/// Memory that the device and the host may use.
inline void* device_memory(std::size_t bytes) {
  void* at = nullptr;
  must(cudaMallocManaged(&at, bytes), "no memory on the device");
  return at;
}
inline void free_device_memory(void* at) noexcept { cudaFree(at); }

#else

template <class... Parameters, class... Arguments>
counts launch(index3 grid, index3 block, void (*kernel)(Parameters...), Arguments... arguments) {
  return execute({grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                 [&] { kernel(static_cast<Parameters>(arguments)...); });
}

inline void* device_memory(std::size_t bytes) { return ::operator new(bytes, std::align_val_t(4096)); }
inline void free_device_memory(void* at) noexcept { ::operator delete(at, std::align_val_t(4096)); }

#endif

/// An array in the memory of the device, zeroed.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) : size_(size), at_(static_cast<T*>(device_memory(size * sizeof(T)))) {
    for (std::size_t i = 0; i < size_; ++i) ::new (static_cast<void*>(&at_[i])) T{};
  }
  ~device_array() { free_device_memory(at_); }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;

  T* get() const noexcept { return at_; }
  T& operator[](std::size_t i) const noexcept { return at_[i]; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return at_; }
  T* end() const noexcept { return at_ + size_; }

 private:
  std::size_t size_;
  T* at_;
};

}  // namespace muster_simt
