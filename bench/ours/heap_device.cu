// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// XMalloc, gpu::heap and CUDA's malloc on a GPU, timed. Each run is in a process of its own, with a fresh heap.
#include <muster/gpu/heap.cuh>
#include <muster/gpu/malloc_upstream.hpp>
#include <muster/gpu/page_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>
#include <muster/gpu/xmc.cuh>

#include "driver/contender.hpp"
#include "driver/heap_cases.hpp"
#include "driver/heap_run.hpp"
#include "driver/machine.hpp"
#include "muster_simt/launch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace muster::bench {
namespace {

using muster_simt::device_array;
using muster_simt::launch;
using muster_simt::must;

constexpr std::size_t heap_bytes = std::size_t{500} << 20U;  // as in the paper
constexpr std::size_t sizes_heap_bytes = std::size_t{2} << 30U;

/// CUDA's malloc, with the interface of a heap.
class cuda_heap {
 public:
  __device__ cuda_heap(std::uint64_t, unsigned) {}
  __device__ void* allocate(std::size_t bytes) { return ::malloc(bytes); }
  __device__ void free(void* object) { ::free(object); }
};

/// CUDA's malloc as an upstream allocator that asks for each block by itself, of whatever size.
class plain_malloc_upstream {
 public:
  __device__ plain_malloc_upstream(std::uint64_t bytes, unsigned) : granule_bits_(gpu::granule_bits_for(2 * bytes)) {
    void* const some = ::malloc(16);
    origin_ = reinterpret_cast<std::uintptr_t>(some) - (std::uintptr_t{1} << (31 + granule_bits_));
    origin_ &= ~((std::uintptr_t{1} << granule_bits_) - 1);
    ::free(some);
  }
  __device__ void* allocate(std::size_t bytes) { return ::malloc(bytes); }
  __device__ void deallocate(void* block) { ::free(block); }
  __device__ bool owns(const void*) const { return true; }
  __device__ std::uintptr_t origin() const { return origin_; }
  __device__ unsigned granule_bits() const { return granule_bits_; }

 private:
  std::uintptr_t origin_;
  unsigned granule_bits_;
};

/// The paper keeps 256 blocks of a size; ours, as many as warps can be resident, in a third of the heap at most.
template <class Options, class Upstream = gpu::malloc_upstream>
class layered_heap {
 public:
  __device__ layered_heap(std::uint64_t bytes, unsigned warps)
      : upstream_(bytes, warps), heap_(upstream_, warps, bytes / 3) {}
  __device__ void* allocate(std::size_t bytes) { return heap_.allocate(bytes); }
  __device__ void free(void* object) { heap_.free(object); }

 private:
  Upstream upstream_;
  gpu::xmalloc<Upstream, Options> heap_;
};

template <class Heap>
__global__ void make_heap(Heap* at, std::uint64_t bytes, unsigned warps) {
  ::new (static_cast<void*>(at)) Heap(bytes, warps);
}

/// Creates a heap of those above, for the rest of the process.
template <class Heap>
struct on_malloc {
  using type = Heap;
  explicit on_malloc(std::size_t bytes) {
    must(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes), "CUDA's heap cannot have this size");
    void* place = nullptr;
    must(cudaMalloc(&place, sizeof(Heap)), "no memory on the device");
    at = static_cast<Heap*>(place);
    launch({1}, {1}, make_heap<Heap>, at, std::uint64_t{bytes}, gpu::resident_warps());
  }
  static std::string wrong(std::uint64_t) { return {}; }
  Heap* at = nullptr;
};
/// gpu::heap.
struct slabs {
  using type = gpu::slab_heap<16>;
  explicit slabs(std::size_t bytes) : memory(bytes), at(&memory.ref().state()) {}
  std::string wrong(std::uint64_t alive) const {
    const gpu::heap_stats now = memory.stats();
    if (now.objects != alive) return "other objects are alive than were kept";
    return now.freed_twice + now.freed_invalid == 0 ? "" : "an object was not known when it was freed";
  }
  gpu::heap memory;
  type* at;
};

using paged = gpu::xmalloc<gpu::page_upstream>;

__global__ void make_paged(paged* at, void* region, std::uint64_t bytes, unsigned warps) {
  ::new (static_cast<void*>(at)) paged(*gpu::page_upstream::make(region, bytes), warps, bytes / 3);
}
__global__ void make_counter(counter_heap* at, void* region, std::uint64_t bytes) {
  ::new (static_cast<void*>(at)) counter_heap(region, bytes);
}

/// Memory for a heap and its state, for the rest of the process.
template <class Heap>
struct in_region {
  using type = Heap;
  explicit in_region(std::size_t bytes) {
    void *region = nullptr, *place = nullptr;
    must(cudaMalloc(&region, bytes), "no memory on the device");
    must(cudaMalloc(&place, sizeof(Heap)), "no memory on the device");
    at = static_cast<Heap*>(place);
    if constexpr (std::is_same_v<Heap, paged>) {
      launch({1}, {1}, make_paged, at, region, std::uint64_t{bytes}, gpu::resident_warps());
    } else {
      launch({1}, {1}, make_counter, at, region, std::uint64_t{bytes});
    }
  }
  static std::string wrong(std::uint64_t) { return {}; }
  Heap* at = nullptr;
};

/// Times what lies between two events.
class stopwatch {
 public:
  stopwatch() {
    must(cudaEventCreate(&begin_), "no event");
    must(cudaEventCreate(&end_), "no event");
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  /// The seconds of one kernel.
  template <class... Parameters, class... Arguments>
  double time(gpu::index3 grid, void (*kernel)(Parameters...), Arguments... arguments) const {
    must(cudaEventRecord(begin_), "no event");
    // clang-format off: it does not know launches.
    kernel<<<grid.x, heap_block_threads>>>(static_cast<Parameters>(arguments)...);
    // clang-format on
    must(cudaGetLastError(), "the kernel cannot be launched");
    must(cudaEventRecord(end_), "no event");
    must(cudaEventSynchronize(end_), "the kernel has failed");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin_, end_), "no time");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t begin_{}, end_{};
};

template <class Made>
outcome run_heap(const heap_spec& spec) {
  using Heap = typename Made::type;
  outcome result;
  const Made made(heap_bytes);
  Heap* const heap = made.at;
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  device_array<void*> filling(std::max<std::uint64_t>(spec.filled, 1));
  if (spec.filled != 0)
    launch(blocks(spec.filled), {heap_block_threads}, fill_heap<Heap>, heap, static_cast<unsigned>(spec.filled),
           filling.get());
  // The first launch of a kernel loads its code.
  launch({1}, {heap_block_threads}, allocate_write_free<Heap>, heap, spec.active, heap_block_threads, 4U, failed.get());
  result.seconds = stopwatch().time(blocks(spec.items), allocate_write_free<Heap>, heap, spec.active,
                                    static_cast<unsigned>(spec.items), 4U, failed.get());
  result.items = spec.items / gpu::warp_size * spec.active;
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  if (spec.filled != 0 && std::count(filling.begin(), filling.end(), nullptr) != 0)
    result.error = "the heap could not be filled";
  if (result.error.empty()) result.error = made.wrong(spec.filled);
  return result;
}

/// All objects are allocated, marked, checked and freed, several times. The first is cold, the last is what counts.
template <class Made>
outcome run_sizes(const heap_size_spec& spec) {
  using Heap = typename Made::type;
  const Made made(sizes_heap_bytes);
  const auto threads = static_cast<unsigned>(spec.items);
  const auto bytes = static_cast<std::uint32_t>(spec.bytes);
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  // No page of the array may travel while a kernel is timed.
  void* room = nullptr;
  must(cudaMalloc(&room, spec.items * sizeof(void*)), "no memory on the device");
  auto** const all = static_cast<void**>(room);
  const stopwatch watch;
  outcome result;
  result.items = spec.items;
  const auto nanoseconds = [&](double seconds) { return seconds * 1e9 / static_cast<double>(spec.items); };
  // The first launch of a kernel loads its code; these do nothing.
  watch.time({1}, allocate_and_keep<Heap>, made.at, 0U, threads, bytes, all);
  watch.time({1}, free_objects<Heap>, made.at, 0U, all);
  for (unsigned pass = 0; pass < 4; ++pass) {
    result.seconds = watch.time(blocks(threads), allocate_and_keep<Heap>, made.at, gpu::warp_size, threads, bytes, all);
    if (pass == 0) result.detail["cold"] = nanoseconds(result.seconds);
    watch.time(blocks(threads), mark_objects, threads, all, failed.get());
    watch.time(blocks(threads), check_objects, threads, all, failed.get());
    result.detail["free"] = nanoseconds(watch.time(blocks(threads), free_objects<Heap>, made.at, threads, all));
    if (result.seconds > 0.25) break;  // so slow is no heap that is cold only once
  }
  cudaFree(room);
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  if (result.error.empty()) result.error = made.wrong(0);
  return result;
}

/// Launches kernels and times them.
class timed_launch {
 public:
  template <class... Parameters, class... Arguments>
  heap_cost operator()(unsigned threads, void (*kernel)(Parameters...), Arguments... arguments) const {
    // Loads the kernel's code, or the first launch would.
    cudaFuncAttributes loaded{};
    must(cudaFuncGetAttributes(&loaded, reinterpret_cast<const void*>(kernel)), "the kernel cannot be loaded");
    heap_cost cost;
    cost.seconds = watch_.time(blocks(threads), kernel, arguments...);
    return cost;
  }

 private:
  stopwatch watch_;
};

template <class Made>
outcome run_case(const heap_case_spec& spec) {
  const std::size_t bytes = spec.what == heap_load::full ? std::size_t{64} << 20U : sizes_heap_bytes;
  const Made made(bytes);
  outcome result = run_heap_case(spec, made.at, bytes, timed_launch());
  if (result.error.empty()) result.error = made.wrong(0);
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
  static constexpr unsigned blocks = 256;
  static constexpr gpu::fifo_choice choice = Choice;
};

}  // namespace

void add_heap_device(catalogue& to) {
  if (!has_gpu()) {
    to.missing.push_back({"GPU", "", "there is none here; heaps run on the emulation of one"});
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
  add("CUDA malloc", "baseline", heap_layers | heap_coalescing, run_heap<on_malloc<cuda_heap>>);
  to.all.back().heap_sizes = run_sizes<on_malloc<cuda_heap>>;
  to.all.back().heap_case = run_case<on_malloc<cuda_heap>>;
  add("coalescing", "paper", heap_layers | heap_coalescing | heap_fifos,
      run_heap<on_malloc<layered_heap<only_coalescing>>>);
  add("16 FIFOs", "paper", heap_layers, run_heap<on_malloc<layered_heap<only_buffers>>>);
  add("coalescing, 16 FIFOs", "paper", heap_layers | heap_fifos,
      run_heap<on_malloc<layered_heap<with_fifos<16, hash>>>>);
  add("coalescing, 16 FIFOs by multiprocessor", "ours", heap_layers | heap_fifos,
      run_heap<on_malloc<layered_heap<gpu::xmalloc_options>>>);
  to.all.back().heap_sizes = run_sizes<on_malloc<layered_heap<gpu::xmalloc_options>>>;
  to.all.back().heap_case = run_case<on_malloc<layered_heap<gpu::xmalloc_options>>>;
  add("coalescing, 1 FIFO", "paper", heap_fifos, run_heap<on_malloc<layered_heap<with_fifos<1, hash>>>>);
  add("coalescing, 4 FIFOs", "paper", heap_fifos, run_heap<on_malloc<layered_heap<with_fifos<4, hash>>>>);
  add("coalescing, 16 FIFOs, without chunks", "paper", heap_layers,
      run_heap<on_malloc<layered_heap<with_fifos<16, hash>, plain_malloc_upstream>>>);
  add("gpu::heap", "ours", heap_layers, run_heap<slabs>);
  to.all.back().heap_sizes = run_sizes<slabs>;
  to.all.back().heap_case = run_case<slabs>;
  add("xmalloc on pages", "paper", 0, nullptr);
  to.all.back().heap_case = run_case<in_region<paged>>;
  add("one counter", "limit", 0, nullptr);
  to.all.back().heap_case = run_case<in_region<counter_heap>>;
  to.all.back().heap_loads = static_cast<unsigned>(heap_load::work);
}

}  // namespace muster::bench
