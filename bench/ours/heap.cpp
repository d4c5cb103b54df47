// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// XMalloc and gpu::heap on the emulation of a GPU, where nothing can be timed, but everything can be counted.
#include <muster/gpu/heap.cuh>
#include <muster/gpu/page_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>
#include <muster/gpu/xmc.cuh>

#include "driver/contender.hpp"
#include "driver/heap_cases.hpp"
#include "driver/heap_run.hpp"
#include "muster_simt/launch.hpp"
#include "tests/gpu/heap_check.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

using muster_simt::device_array;
using muster_simt::launch;

/// A page_upstream that counts.
class counted_upstream {
 public:
  explicit counted_upstream(gpu::page_upstream& of) : of_(of) {}

  void* allocate(std::size_t bytes) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return of_.allocate(bytes);
  }
  void deallocate(void* block) { of_.deallocate(block); }
  bool owns(const void* p) const { return of_.owns(p); }
  std::uintptr_t origin() const { return of_.origin(); }
  unsigned granule_bits() const { return of_.granule_bits(); }

  std::uint32_t pages() const { return of_.pages(); }
  std::uint32_t free_pages() const { return of_.free_pages(); }
  template <class F>
  void each_block(F f) const {
    of_.each_block(f);
  }

  std::atomic<std::uint64_t> calls{0};

 private:
  gpu::page_upstream& of_;
};

template <class Options>
outcome run_heap(const heap_spec& spec) {
  using heap_type = gpu::xmalloc<counted_upstream, Options>;
  constexpr std::size_t page = gpu::page_upstream::page_size;
  const std::size_t bytes = std::max<std::size_t>(std::size_t{16} << 20U, spec.filled * heap_filling * 4);
  muster_simt::current() = {.seed = spec.seed, .multiprocessors = 1, .resident = 4, .split_one_in = 0};
  device_array<unsigned char> region(bytes + page);
  const auto begin = (reinterpret_cast<std::uintptr_t>(region.get()) + page - 1) / page * page;
  counted_upstream upstream(*gpu::page_upstream::make(reinterpret_cast<void*>(begin), bytes));
  heap_type heap(upstream);
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  device_array<void*> filling(std::max<std::uint64_t>(spec.filled, 1));
  if (spec.filled != 0)
    launch(blocks(spec.filled), {heap_block_threads}, fill_heap<heap_type>, &heap, static_cast<unsigned>(spec.filled),
           filling.get());
  upstream.calls = 0;
  const auto start = std::chrono::steady_clock::now();
  const muster_simt::counts all = launch(blocks(spec.items), {heap_block_threads}, allocate_write_free<heap_type>,
                                         &heap, spec.active, static_cast<unsigned>(spec.items), 4U, failed.get());
  outcome result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.items = spec.items / gpu::warp_size * spec.active;
  const auto requests = static_cast<double>(result.items);
  result.detail["upstream calls"] = static_cast<double>(upstream.calls.load()) / requests;
  result.detail["atomics"] = static_cast<double>(all.changes) / requests;
  result.detail["memory operations"] = static_cast<double>(all.memory()) / requests;
  result.detail["blocks"] = Options::coalesce ? requests / spec.active : requests;  // requested blocks

  // Allocations alone: each free has an atomic per object, which detects double frees.
  device_array<void*> kept(spec.items);
  const muster_simt::counts allocations = launch(blocks(spec.items), {heap_block_threads}, allocate_and_keep<heap_type>,
                                                 &heap, spec.active, static_cast<unsigned>(spec.items), 4U, kept.get());
  result.detail["atomics per allocation"] = static_cast<double>(allocations.changes) / requests;

  muster_test::objects alive;
  for (void* const at : kept)
    if (at != nullptr) alive[reinterpret_cast<std::uintptr_t>(at)] = 4;
  if (alive.size() != result.items) result.error = "there was no memory";
  for (void* const at : filling)
    if (at != nullptr) alive[reinterpret_cast<std::uintptr_t>(at)] = heap_filling;
  result.error = muster_test::wrong_in(heap, alive);
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  if (alive.size() != spec.filled + result.items) result.error = "the heap could not be filled";
  if (heap.noticed().twice + heap.noticed().invalid != 0) result.error = "an object was not known when it was freed";
  return result;
}

using slabs = gpu::slab_heap<16>;

/// The same with gpu::heap, which has no upstream.
outcome run_slabs(const heap_spec& spec) {
  muster_simt::current() = {.seed = spec.seed, .multiprocessors = 1, .resident = 4, .split_one_in = 0};
  const gpu::heap heap(std::max<std::size_t>(std::size_t{64} << 20U, spec.filled * heap_filling * 4));
  slabs* const state = &heap.ref().state();
  const auto threads = static_cast<unsigned>(spec.items);
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  device_array<void*> filling(std::max<std::uint64_t>(spec.filled, 1));
  if (spec.filled != 0)
    launch(blocks(spec.filled), {heap_block_threads}, fill_heap<slabs>, state, static_cast<unsigned>(spec.filled),
           filling.get());
  const auto start = std::chrono::steady_clock::now();
  const muster_simt::counts all = launch(blocks(threads), {heap_block_threads}, allocate_write_free<slabs>, state,
                                         spec.active, threads, 4U, failed.get());
  outcome result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.items = spec.items / gpu::warp_size * spec.active;
  result.detail["atomics"] = static_cast<double>(all.changes) / static_cast<double>(result.items);
  result.detail["memory operations"] = static_cast<double>(all.memory()) / static_cast<double>(result.items);
  const gpu::heap_stats now = heap.stats();
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  if (now.objects != spec.filled) result.error = "other objects are alive than were kept";
  if (now.freed_twice + now.freed_invalid != 0) result.error = "an object was not known when it was freed";
  return result;
}

/// Counts the changes by allocations alone, and by frees alone, in a heap that has been used before.
template <class Heap>
outcome count_sizes(Heap* heap, const heap_size_spec& spec) {
  const auto threads = static_cast<unsigned>(spec.items);
  const auto objects = static_cast<double>(spec.items);
  device_array<void*> all(spec.items);
  device_array<gpu::atomic<std::uint32_t>> failed(1);
  outcome result;
  result.items = spec.items;
  for (unsigned pass = 0; pass < 2; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    const muster_simt::counts allocations =
        launch(blocks(threads), {heap_block_threads}, allocate_and_keep<Heap>, heap, gpu::warp_size, threads,
               static_cast<std::uint32_t>(spec.bytes), all.get());
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    launch(blocks(threads), {heap_block_threads}, mark_objects, threads, all.get(), failed.get());
    launch(blocks(threads), {heap_block_threads}, check_objects, threads, all.get(), failed.get());
    const muster_simt::counts frees =
        launch(blocks(threads), {heap_block_threads}, free_objects<Heap>, heap, threads, all.get());
    result.detail["atomics"] = static_cast<double>(allocations.changes) / objects;
    result.detail["memory operations"] = static_cast<double>(allocations.memory()) / objects;
    result.detail["free"] = static_cast<double>(frees.changes) / objects;
  }
  if (failed[0].load(std::memory_order_relaxed) != 0) result.error = "an object was not there, or was another's";
  return result;
}

std::size_t bytes_for_sizes(const heap_size_spec& spec) {
  return std::max<std::size_t>(std::size_t{64} << 20U, spec.items * spec.bytes * 4);
}

outcome run_slab_sizes(const heap_size_spec& spec) {
  muster_simt::current() = {.seed = spec.seed, .multiprocessors = 1, .resident = 4, .split_one_in = 0};
  const gpu::heap heap(bytes_for_sizes(spec));
  outcome result = count_sizes(&heap.ref().state(), spec);
  const gpu::heap_stats now = heap.stats();
  if (result.error.empty() && now.objects + now.freed_twice + now.freed_invalid != 0)
    result.error = "not all objects were freed once";
  return result;
}

outcome run_xmalloc_sizes(const heap_size_spec& spec) {
  muster_simt::current() = {.seed = spec.seed, .multiprocessors = 1, .resident = 4, .split_one_in = 0};
  const muster_test::paged_heap<> heap(bytes_for_sizes(spec));
  outcome result = count_sizes(heap.get(), spec);
  if (result.error.empty()) result.error = heap.wrong({});
  if (result.error.empty() && heap->noticed().twice + heap->noticed().invalid != 0)
    result.error = "not all objects were freed once";
  return result;
}

std::size_t bytes_for_case(const heap_case_spec& spec) {
  if (spec.what == heap_load::full) return std::size_t{16} << 20U;
  return std::max<std::size_t>(std::size_t{64} << 20U, spec.items * spec.bytes * 4);
}
void set_out(const heap_case_spec& spec) {
  muster_simt::current() = {.seed = spec.seed, .multiprocessors = 1, .resident = 4, .split_one_in = 0};
}

outcome run_slab_case(const heap_case_spec& spec) {
  set_out(spec);
  const gpu::heap heap(bytes_for_case(spec));
  outcome result = run_heap_case(spec, &heap.ref().state(), bytes_for_case(spec), counted_launch());
  const gpu::heap_stats now = heap.stats();
  if (result.error.empty() && now.objects + now.freed_twice + now.freed_invalid != 0)
    result.error = "not all objects were freed once";
  return result;
}
outcome run_paged_case(const heap_case_spec& spec) {
  set_out(spec);
  const muster_test::paged_heap<> heap(bytes_for_case(spec));
  outcome result = run_heap_case(spec, heap.get(), bytes_for_case(spec), counted_launch());
  if (result.error.empty()) result.error = heap.wrong({});
  if (result.error.empty() && heap->noticed().twice + heap->noticed().invalid != 0)
    result.error = "not all objects were freed once";
  return result;
}
/// Over the C library's malloc, which never has too little.
outcome run_malloc_case(const heap_case_spec& spec) {
  set_out(spec);
  const auto all = std::make_unique<gpu::xmc_heap>(bytes_for_case(spec), 256);
  outcome result = run_heap_case(spec, &all->heap, bytes_for_case(spec), counted_launch());
  if (all->heap.noticed().twice + all->heap.noticed().invalid != 0) result.error = "not all objects were freed once";
  all->heap.trim();
  return result;
}
outcome run_counter_case(const heap_case_spec& spec) {
  set_out(spec);
  device_array<std::max_align_t> region(bytes_for_case(spec) / sizeof(std::max_align_t));
  counter_heap heap(region.get(), bytes_for_case(spec));
  return run_heap_case(spec, &heap, bytes_for_case(spec), counted_launch());
}

struct nothing : gpu::xmalloc_options {
  static constexpr bool coalesce = false;
  static constexpr bool buffer = false;
};
struct only_coalescing : gpu::xmalloc_options {
  static constexpr bool buffer = false;
};
template <unsigned Fifos>
struct with_fifos : gpu::xmalloc_options {
  static constexpr unsigned fifos = Fifos;
  static constexpr gpu::fifo_choice choice = gpu::fifo_choice::hash;
};
struct only_buffers : with_fifos<16> {
  static constexpr bool coalesce = false;
};

contender one(std::string name, std::string role, std::string note, unsigned topics, outcome (*run)(const heap_spec&)) {
  return {.name = std::move(name),
          .family = "muster",
          .role = std::move(role),
          .note = std::move(note),
          .topics = topics,
          .heap = run};
}

}  // namespace

void add_heap(catalogue& to) {
  const auto add = [&](const char* name, const char* role, const char* note, unsigned topics,
                       outcome (*run)(const heap_spec&)) { to.all.push_back(one(name, role, note, topics, run)); };
  add("upstream alone", "baseline", "page_upstream, with XMalloc's headers", heap_layers | heap_coalescing,
      run_heap<nothing>);
  add("coalescing", "paper", "", heap_layers | heap_coalescing | heap_fifos, run_heap<only_coalescing>);
  add("16 FIFOs", "paper", "without coalescing", heap_layers, run_heap<only_buffers>);
  add("coalescing, 16 FIFOs", "paper", "", heap_layers | heap_fifos, run_heap<with_fifos<16>>);
  add("coalescing, 1 FIFO", "paper", "", heap_fifos, run_heap<with_fifos<1>>);
  add("coalescing, 4 FIFOs", "paper", "", heap_fifos, run_heap<with_fifos<4>>);
  add("gpu::heap", "ours", "", heap_layers, run_slabs);
  to.all.back().heap_sizes = run_slab_sizes;
  to.all.back().heap_case = run_slab_case;
  add("xmalloc on pages", "paper", "", 0, nullptr);
  to.all.back().heap_sizes = run_xmalloc_sizes;
  to.all.back().heap_case = run_paged_case;
  add("xmalloc on malloc", "paper", "the C library's malloc, whose own operations are not counted", 0, nullptr);
  to.all.back().heap_case = run_malloc_case;
  to.all.back().heap_loads = ~static_cast<unsigned>(heap_load::spread) & ~static_cast<unsigned>(heap_load::full);
  add("one counter", "limit", "which never frees", 0, nullptr);
  to.all.back().heap_case = run_counter_case;
  to.all.back().heap_loads = static_cast<unsigned>(heap_load::work);
}

}  // namespace muster::bench
