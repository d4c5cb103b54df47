// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// XMalloc and CUDA's malloc on a GPU, timed. Each run is in a process of its own, with a fresh heap of 500 MB.
#include <muster/gpu/bases.hpp>
#include <muster/gpu/xmalloc.hpp>

#include "driver/contender.hpp"
#include "driver/heap_run.hpp"
#include "muster_simt/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

using muster_simt::device_array;
using muster_simt::launch;
using muster_simt::must;

constexpr std::size_t heap_bytes = std::size_t{500} << 20U;

/// CUDA's malloc, with the interface of a heap.
class cuda_heap {
 public:
  __device__ explicit cuda_heap(std::uint64_t) {}
  __device__ void* allocate(std::size_t bytes) { return ::malloc(bytes); }
  __device__ void free(void* object) { ::free(object); }
};

template <class Options>
class layered_heap {
 public:
  __device__ explicit layered_heap(std::uint64_t bytes) : base_(bytes), heap_(base_) {}
  __device__ void* allocate(std::size_t bytes) { return heap_.allocate(bytes); }
  __device__ void free(void* object) { heap_.free(object); }

 private:
  gpu::malloc_base base_;
  gpu::xmalloc<gpu::malloc_base, Options> heap_;
};

template <class Heap>
__global__ void make_heap(Heap* at, std::uint64_t bytes) {
  ::new (static_cast<void*>(at)) Heap(bytes);
}

template <class Heap>
outcome run_heap(const heap_spec& spec) {
  outcome result;
  must(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap_bytes), "the heap cannot have 500 MB");
  void* place = nullptr;
  must(cudaMalloc(&place, sizeof(Heap)), "no memory on the device");
  auto* const heap = static_cast<Heap*>(place);
  launch({1}, {1}, make_heap<Heap>, heap, heap_bytes);
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  const auto blocks = [](std::uint64_t threads) {
    return gpu::index3{static_cast<unsigned>((threads + heap_block_threads - 1) / heap_block_threads)};
  };
  device_array<void*> filling(std::max<std::uint64_t>(spec.filled, 1));
  if (spec.filled != 0)
    launch(blocks(spec.filled), {heap_block_threads}, fill_heap<Heap>, heap, static_cast<unsigned>(spec.filled),
           filling.get());
  // The first launch of a kernel loads its code.
  launch({1}, {heap_block_threads}, allocate_write_free<Heap>, heap, spec.active, heap_block_threads, 4U, failed.get());
  cudaEvent_t begin{}, end{};
  must(cudaEventCreate(&begin), "no event");
  must(cudaEventCreate(&end), "no event");
  must(cudaEventRecord(begin), "no event");
  launch(blocks(spec.items), {heap_block_threads}, allocate_write_free<Heap>, heap, spec.active,
         static_cast<unsigned>(spec.items), 4U, failed.get());
  must(cudaEventRecord(end), "no event");
  must(cudaEventSynchronize(end), "the kernel has failed");
  float milliseconds = 0;
  must(cudaEventElapsedTime(&milliseconds, begin, end), "no time");
  result.seconds = milliseconds * 1e-3;
  result.items = spec.items / gpu::warp_size * spec.active;
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  if (spec.filled != 0 && std::count(filling.begin(), filling.end(), nullptr) != 0)
    result.error = "the heap could not be filled";
  return result;
}

struct only_coalescing : gpu::xmalloc_options {
  static constexpr bool buffer = false;
};
struct only_buffers : gpu::xmalloc_options {
  static constexpr bool coalesce = false;
};
template <unsigned Fifos, gpu::fifo_choice Choice>
struct with_fifos : gpu::xmalloc_options {
  static constexpr unsigned fifos = Fifos;
  static constexpr gpu::fifo_choice choice = Choice;
};

}  // namespace

void add_heap_device(catalogue& to) {
  // Initializing CUDA here would make it unusable in the runs, which are forked.
  if (::access("/dev/nvidia0", R_OK) != 0) {
    to.missing.push_back({"GPU", "", "there is none here; XMalloc runs on the emulation of one"});
    return;
  }
  const auto add = [&](const char* name, const char* role, unsigned topics, outcome (*run)(const heap_spec&)) {
    contender c;
    c.name = name;
    c.family = "muster";
    c.role = role;
    c.topics = topics;
    c.on_device = true;
    c.heap = run;
    to.all.push_back(std::move(c));
  };
  constexpr auto hash = gpu::fifo_choice::hash;
  add("CUDA malloc", "baseline", heap_layers | heap_coalescing, run_heap<cuda_heap>);
  add("coalescing", "paper", heap_layers | heap_coalescing | heap_fifos, run_heap<layered_heap<only_coalescing>>);
  add("16 FIFOs", "paper", heap_layers, run_heap<layered_heap<only_buffers>>);
  add("coalescing, 16 FIFOs", "paper", heap_layers | heap_fifos, run_heap<layered_heap<with_fifos<16, hash>>>);
  add("coalescing, 16 FIFOs by multiprocessor", "ours", heap_layers | heap_fifos,
      run_heap<layered_heap<gpu::xmalloc_options>>);
  add("coalescing, 1 FIFO", "paper", heap_fifos, run_heap<layered_heap<with_fifos<1, hash>>>);
  add("coalescing, 4 FIFOs", "paper", heap_fifos, run_heap<layered_heap<with_fifos<4, hash>>>);
}

}  // namespace muster::bench
