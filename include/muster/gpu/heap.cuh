// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap.cuh: gpu::heap, memory for kernels: created on the host, used by kernels through a heap_ref.
//
// Heaps      any number, each with a memory region of its own: one that the heap allocates, one that the program
//            provides, or one from a stream-ordered pool of CUDA. Objects stay allocated after the kernel that
//            allocated them has ended.
// Handle     heap is a unique owner, for the host; heap_ref is a pointer that kernels receive by value.
// Host       stats(), leaks() and trim() wait for the heap's stream; reset() only takes its turn in the stream. While
//            one of them runs, no kernel may use the heap.
// Cost       in kernels, see slab_heap.hpp. Construction, reset(): a memset of the heap's own memory and a kernel,
//            O(pages). stats(), leaks(), trim(): kernels that look at each page and its objects, and copies of the
//            results; leaks() allocates. ref(), owns(): O(1).
// Errors     std::runtime_error if CUDA reports one; std::invalid_argument for memory that is null or too small.
// Without a GPU (see simt.cuh), the region is in the memory of the host, and streams and pools have no effect.
// The rest   is in slab_heap.hpp: sizes, failure, misuse, progress.
#pragma once

#include <muster/gpu/simt.cuh>  // MUSTER_KERNEL
#include <muster/gpu/slab_heap.hpp>

#include <atomic>     // std::memory_order
#include <cstddef>    // std::size_t
#include <cstdint>    // std::uintptr_t
#include <cstring>    // std::memset
#include <new>        // placement
#include <stdexcept>  // std::invalid_argument
#include <string>     // messages
#include <utility>    // std::exchange, std::forward
#include <vector>     // leaks

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// A heap as kernels receive it. The functions are those of slab_heap.hpp, and two for objects of a type.
template <unsigned PageBits = 16>
class basic_heap_ref {
 public:
  basic_heap_ref() = default;
  /// Made by basic_heap::ref().
  MUSTER_GPU explicit basic_heap_ref(slab_heap<PageBits>* heap) : heap_(heap) {}

  /// Returns at least `bytes` bytes, aligned to 16; null if there is no memory, or for 0 bytes.
  MUSTER_GPU void* malloc(std::size_t bytes) const { return heap_->allocate(bytes); }
  /// As malloc, for `many` objects of `bytes` bytes, all zero; null if the product overflows.
  MUSTER_GPU void* calloc(std::size_t many, std::size_t bytes) const { return heap_->calloc(many, bytes); }
  /// Changes the size of an object, and moves it if the new size does not fit where it is. Returns its address; or null
  /// if there is no memory, and then the object is unchanged.
  MUSTER_GPU void* realloc(void* object, std::size_t bytes) const { return heap_->realloc(object, bytes); }
  /// As malloc, aligned to a power of two.
  MUSTER_GPU void* aligned_alloc(std::size_t alignment, std::size_t bytes) const {
    return heap_->aligned_alloc(alignment, bytes);
  }
  /// Frees an object of this heap. Null has no effect.
  MUSTER_GPU void free(void* object) const { heap_->free(object); }
  /// The bytes that an object may use, at least as many as requested; 0 for an address that is not an object.
  MUSTER_GPU std::size_t usable_size(const void* object) const { return heap_->usable_size(object); }
  /// Returns true if an address is in the memory of this heap.
  MUSTER_GPU bool owns(const void* p) const { return heap_->owns(p); }

  /// One object for all lanes of a mask, which call together.
  MUSTER_GPU void* malloc_together(lane_mask among, std::size_t bytes) const {
    return heap_->allocate_together(among, bytes);
  }
  /// Frees one object for all lanes of a mask, which call together.
  MUSTER_GPU void free_together(lane_mask among, void* object) const { heap_->free_together(among, object); }
  /// One object for a block: all of its threads must call. `slot` must be a variable that the block shares.
  MUSTER_GPU void* malloc_for_block(std::size_t bytes, void*& slot) const {
    return heap_->allocate_for_block(bytes, slot);
  }
  /// Frees one object for a block, all of whose threads call.
  MUSTER_GPU void free_for_block(void* object) const { heap_->free_for_block(object); }

  /// An object of a type, constructed from arguments; null if there is no memory.
  template <class T, class... Arguments>
  MUSTER_GPU T* make(Arguments&&... arguments) const {
    void* const at = heap_->aligned_alloc(alignof(T), sizeof(T));
    return at == nullptr ? nullptr : ::new (at) T(std::forward<Arguments>(arguments)...);
  }
  /// Destroys and frees an object that make() has returned. Null has no effect.
  template <class T>
  MUSTER_GPU void destroy(T* object) const {
    if (object == nullptr) return;
    object->~T();
    heap_->free(object);
  }

  /// The heap in the memory of the device.
  MUSTER_GPU slab_heap<PageBits>& state() const { return *heap_; }

 private:
  slab_heap<PageBits>* heap_ = nullptr;
};

/// For containers in kernels: allocates arrays of T. allocate() returns null if there is no memory.
template <class T, unsigned PageBits = 16>
class basic_heap_allocator {
 public:
  using value_type = T;

  /// An allocator that takes memory from this heap.
  MUSTER_GPU explicit basic_heap_allocator(basic_heap_ref<PageBits> heap) : heap_(heap) {}
  /// The allocator of another type for the same heap.
  template <class U>
  MUSTER_GPU explicit basic_heap_allocator(const basic_heap_allocator<U, PageBits>& other) : heap_(other.heap()) {}

  /// Returns an array without constructing its elements; null if there is no memory.
  MUSTER_GPU T* allocate(std::size_t many) const {
    if (many > ~std::size_t{0} / sizeof(T)) return nullptr;
    return static_cast<T*>(heap_.aligned_alloc(alignof(T), many * sizeof(T)));
  }
  /// Frees an array that allocate() has returned.
  MUSTER_GPU void deallocate(T* objects, std::size_t) const { heap_.free(objects); }
  /// The heap.
  MUSTER_GPU basic_heap_ref<PageBits> heap() const { return heap_; }
  template <class U>
  MUSTER_GPU bool operator==(const basic_heap_allocator<U, PageBits>& other) const {
    return &heap_.state() == &other.heap().state();
  }

 private:
  basic_heap_ref<PageBits> heap_;
};

// ------------------------------------------------------------------------------------------ what the host can call

/// An object that is alive.
struct live_object {
  void* at = nullptr;     // its address
  std::size_t bytes = 0;  // usable
};

namespace heap_visits {

// Each of these is called by `threads` threads, numbered by `me`; together they visit all pages of a heap.

struct prepare {
  template <unsigned PageBits>
  MUSTER_GPU void operator()(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, std::uint32_t me,
                             std::uint32_t threads) const {
    slab_heap<PageBits>::prepare(heap, plan, me, threads);
  }
};
struct trim {
  template <unsigned PageBits>
  MUSTER_GPU void operator()(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, std::uint32_t me,
                             std::uint32_t threads) const {
    for (std::uint32_t p = plan.first + me; p < plan.end; p += threads) heap->trim(p);
  }
};
struct count {
  template <unsigned PageBits>
  MUSTER_GPU void operator()(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, std::uint32_t me,
                             std::uint32_t threads) const {
    std::uint64_t slabs = 0, objects = 0, bytes = 0;
    for (std::uint32_t p = plan.first + me; p < plan.end; p += threads)
      heap->visit(
          p,
          [&](void*, std::size_t its) {
            ++objects;
            bytes += its;
          },
          [&](std::size_t) { ++slabs; });
    heap->visited[0].fetch_add(slabs, std::memory_order_relaxed);
    heap->visited[1].fetch_add(objects, std::memory_order_relaxed);
    heap->visited[2].fetch_add(bytes, std::memory_order_relaxed);
  }
};
struct list {
  live_object* out;
  std::uint64_t room;

  template <unsigned PageBits>
  MUSTER_GPU void operator()(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, std::uint32_t me,
                             std::uint32_t threads) const {
    for (std::uint32_t p = plan.first + me; p < plan.end; p += threads)
      heap->visit(
          p,
          [&](void* at, std::size_t bytes) {
            const std::uint64_t next = heap->visited[0].fetch_add(1, std::memory_order_relaxed);
            if (next < room) out[next] = {at, bytes};
          },
          [](std::size_t) {});
  }
};

}  // namespace heap_visits

#if defined(__CUDACC__)

using heap_stream = cudaStream_t;
using heap_pool = cudaMemPool_t;

template <unsigned PageBits, class Visit>
__global__ void visit_heap(slab_heap<PageBits>* heap, heap_plan<PageBits> plan, Visit visit) {
  visit(heap, plan, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

/// The host's access to the memory of a device, in the order of a stream.
class heap_memory {
 public:
  explicit heap_memory(heap_stream stream) : stream_(stream) {}

  void* allocate(std::size_t bytes) const {
    void* at = nullptr;
    must(cudaMalloc(&at, bytes), "no memory on the device");
    return at;
  }
  void* allocate_from(heap_pool pool, std::size_t bytes) const {
    void* at = nullptr;
    must(pool == nullptr ? cudaMallocAsync(&at, bytes, stream_) : cudaMallocFromPoolAsync(&at, bytes, pool, stream_),
         "no memory in the pool");
    return at;
  }
  void free(void* at) const noexcept { cudaFree(at); }
  void free_in_order(void* at) const noexcept { cudaFreeAsync(at, stream_); }
  void clear(void* at, std::size_t bytes) const {
    must(cudaMemsetAsync(at, 0, bytes, stream_), "cannot clear memory of the device");
  }
  void read(void* to, const void* from, std::size_t bytes) const {
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cannot read memory of the device");
    must(cudaStreamSynchronize(stream_), "a kernel of the heap's stream has failed");
  }
  template <unsigned PageBits, class Visit>
  void execute(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, Visit visit) const {
    const std::uint32_t blocks = plan.end / 256 < 1024 ? plan.end / 256 + 1 : 1024;
    // clang-format off: it does not know launches.
    visit_heap<<<blocks, 256, 0, stream_>>>(heap, plan, visit);
    // clang-format on
    must(cudaGetLastError(), "the program has no code for this device; compile it for this architecture");
  }
  static std::uint32_t multiprocessors() {
    int device = 0, many = 0;
    must(cudaGetDevice(&device), "no device");
    must(cudaDeviceGetAttribute(&many, cudaDevAttrMultiProcessorCount, device), "no device");
    return static_cast<std::uint32_t>(many);
  }

 private:
  static void must(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
      throw std::runtime_error(std::string("gpu::heap: ") + what + ": " + cudaGetErrorString(status));
  }

  heap_stream stream_;
};

#else

using heap_stream = const void*;
using heap_pool = const void*;

/// The memory of the host, where nothing else runs.
class heap_memory {
 public:
  explicit heap_memory(heap_stream) {}

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t(4096)); }
  void* allocate_from(heap_pool, std::size_t bytes) const { return allocate(bytes); }
  void free(void* at) const noexcept { ::operator delete(at, std::align_val_t(4096)); }
  void free_in_order(void* at) const noexcept { free(at); }
  void clear(void* at, std::size_t bytes) const { std::memset(at, 0, bytes); }
  void read(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
  template <unsigned PageBits, class Visit>
  void execute(slab_heap<PageBits>* heap, const heap_plan<PageBits>& plan, Visit visit) const {
    visit(heap, plan, 0, 1);
  }
  static std::uint32_t multiprocessors() { return 8; }
};

#endif

template <unsigned PageBits = 16>
class basic_heap {
  using state = slab_heap<PageBits>;

 public:
  /// The type by which kernels use the heap.
  using ref_type = basic_heap_ref<PageBits>;

  /// Makes a heap in memory that it allocates itself.
  explicit basic_heap(std::size_t bytes, heap_stream stream = nullptr) : memory_(stream), owned_(owned::yes) {
    start(memory_.allocate(bytes), bytes);
  }
  /// Makes a heap in memory of the program. The device must be able to access the region; it must be aligned to 64
  /// bytes and outlive the heap.
  basic_heap(void* region, std::size_t bytes, heap_stream stream = nullptr) : memory_(stream) {
    if (reinterpret_cast<std::uintptr_t>(region) % 64 != 0)
      throw std::invalid_argument("gpu::heap: the region must be aligned to 64 bytes");
    if (region == nullptr) throw std::invalid_argument("gpu::heap: the region is null; has its allocation failed?");
    start(region, bytes);
  }
  /// Makes a heap in memory from a pool, which is allocated and freed in the order of the stream. A null `pool` is the
  /// device's default pool.
  static basic_heap from_pool(std::size_t bytes, heap_pool pool, heap_stream stream) {
    basic_heap made(owned::in_order, stream);
    made.start(made.memory_.allocate_from(pool, bytes), bytes);
    return made;
  }

  basic_heap(basic_heap&& other) noexcept
      : memory_(other.memory_),
        owned_(other.owned_),
        state_(std::exchange(other.state_, nullptr)),
        plan_(other.plan_) {}
  basic_heap& operator=(basic_heap&& other) noexcept {
    if (this != &other) {
      end();
      memory_ = other.memory_;
      owned_ = other.owned_;
      state_ = std::exchange(other.state_, nullptr);
      plan_ = other.plan_;
    }
    return *this;
  }
  /// Frees the memory with all objects in it.
  ~basic_heap() { end(); }

  /// The heap for kernels: pass it by value.
  ref_type ref() const noexcept { return ref_type(state_); }

  /// Frees all objects at once and resets the counts, in the order of the stream, without waiting.
  void reset() { prepare(); }

  /// Counts what is in use. No kernel may use the heap meanwhile. Throws std::runtime_error for errors of CUDA.
  heap_stats stats() const {
    clear_visited();
    memory_.execute(state_, plan_, heap_visits::count{});
    const header now(*this);
    heap_stats all;
    all.bytes = std::uint64_t{plan_.end - plan_.first} * state::page;
    all.free_bytes = all.bytes - std::uint64_t{now->taken_pages()} * state::page;
    all.peak_bytes = std::uint64_t{now->most_pages()} * state::page;
    all.slabs = now->visited[0].load(std::memory_order_relaxed);
    all.objects = now->visited[1].load(std::memory_order_relaxed);
    all.object_bytes = now->visited[2].load(std::memory_order_relaxed);
    all.failed = now->failed();
    all.freed_twice = now->noticed().twice;
    all.freed_invalid = now->noticed().invalid;
    return all;
  }
  /// The objects that are alive, in no particular order. No kernel may use the heap meanwhile.
  std::vector<live_object> leaks() const {
    std::vector<live_object> all(stats().objects);
    if (all.empty()) return all;
    const std::size_t bytes = all.size() * sizeof(live_object);
    auto* const out = static_cast<live_object*>(memory_.allocate(bytes));
    clear_visited();
    memory_.execute(state_, plan_, heap_visits::list{out, all.size()});
    memory_.read(all.data(), out, bytes);
    memory_.free(out);
    return all;
  }
  /// Returns the pages of all empty slabs to the heap; otherwise an active slab keeps its pages when it is empty.
  /// Returns their size in bytes.
  std::size_t trim() {
    const std::uint32_t before = header(*this)->taken_pages();
    memory_.execute(state_, plan_, heap_visits::trim{});
    return std::size_t{before - header(*this)->taken_pages()} * state::page;
  }
  /// True for an address in the heap's pages, in an object or not.
  bool owns(const void* p) const noexcept {
    const std::uint64_t number =
        (reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(state_) - plan_.origin) / state::page;
    return number >= plan_.first && number < plan_.end;
  }

 private:
  enum class owned : std::uint8_t { no, yes, in_order };

  /// A copy of the heap's own variables in host memory; waits for the stream.
  class header {
   public:
    explicit header(const basic_heap& of) { of.memory_.read(bytes_, of.state_, sizeof(bytes_)); }
    const state* operator->() const { return reinterpret_cast<const state*>(bytes_); }

   private:
    alignas(state) unsigned char bytes_[sizeof(state)];
  };

  basic_heap(owned how, heap_stream stream) : memory_(stream), owned_(how) {}

  void start(void* region, std::size_t bytes) {
    state_ = static_cast<state*>(region);
    try {
      plan_ = heap_plan<PageBits>::of(reinterpret_cast<std::uintptr_t>(region), bytes, heap_memory::multiprocessors(),
                                      sizeof(state));
      if (plan_.end == 0)
        throw std::invalid_argument("gpu::heap: there is no room for a page of " + std::to_string(state::page) +
                                    " bytes and the heap's own variables in " + std::to_string(bytes) + " bytes");
      prepare();
    } catch (...) {
      end();
      throw;
    }
  }
  void prepare() {
    memory_.clear(state_, plan_.own_bytes());
    memory_.execute(state_, plan_, heap_visits::prepare{});
  }
  void end() noexcept {
    if (state_ != nullptr && owned_ == owned::yes) memory_.free(state_);
    if (state_ != nullptr && owned_ == owned::in_order) memory_.free_in_order(state_);
    state_ = nullptr;  // start() calls this if it fails, and then the destructor of a heap from from_pool() does
  }
  void clear_visited() const { memory_.clear(static_cast<void*>(&state_->visited), sizeof(state_->visited)); }

  heap_memory memory_;
  owned owned_ = owned::no;
  state* state_ = nullptr;
  heap_plan<PageBits> plan_;
};

/// basic_heap_ref with pages of 64 KiB.
using heap_ref = basic_heap_ref<>;
/// basic_heap with pages of 64 KiB.
using heap = basic_heap<>;
/// basic_heap_allocator with pages of 64 KiB.
template <class T>
using heap_allocator = basic_heap_allocator<T>;

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
