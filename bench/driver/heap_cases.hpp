// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap_cases.hpp: the loads of a survey of allocators for GPUs (Winter, Mlakar, Parger, Steinberger: "Are dynamic
// memory managers on GPUs slow?", PPoPP 2021), written anew: how far objects are spread, how much of a heap can be
// used, objects of random sizes, and a graph whose lists of edges grow. Compiled for a GPU, where kernels are timed,
// and for its emulation, where their operations are counted.
#pragma once

#include <muster/gpu/simt.cuh>

#include "driver/contender.hpp"
#include "driver/heap_run.hpp"
#include "muster_simt/launch.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

// A program for a GPU has both sides, each with kernels and functions of the same names.
namespace muster::bench::inline MUSTER_GPU_SIDE {

/// The cost of a kernel: seconds on a GPU, elsewhere operations of all lanes.
struct heap_cost {
  double seconds = 0, atomics = 0, memory = 0, loads = 0;
};

MUSTER_GPU std::uint32_t scrambled(std::uint32_t value) {
  value = (value ^ value >> 16U) * 0x7feb352dU;
  value = (value ^ value >> 15U) * 0x846ca68bU;
  return value ^ value >> 16U;
}

/// A counter that each warp moves once, and no free: less than any allocator can do.
class counter_heap {
 public:
  MUSTER_GPU counter_heap(void* region, std::uint64_t bytes)
      : begin_(static_cast<unsigned char*>(region)), bytes_(bytes) {}
  MUSTER_GPU void* allocate(std::size_t bytes) {
    const gpu::lane_mask together = gpu::active_mask();
    const auto mine = static_cast<std::uint32_t>((bytes + 15) / 16 * 16);
    const std::uint32_t before = gpu::exclusive_sum(together, mine), all = gpu::reduce_add(together, mine);
    std::uint64_t at = 0;
    if (gpu::is_first_of(together)) at = next_.fetch_add(all, std::memory_order_relaxed);
    at = gpu::shuffle(together, at, gpu::first_of(together));
    return at + before + mine > bytes_ ? nullptr : begin_ + at + before;
  }
  MUSTER_GPU void free(void*) {}

 private:
  unsigned char* const begin_;
  const std::uint64_t bytes_;
  gpu::atomic<std::uint64_t> next_{0};
};

// ------------------------------------------------------------------------------------------------------------- kernels

/// Each thread without an object asks for one.
template <class Heap>
MUSTER_KERNEL void fill_gaps(Heap* heap, unsigned threads, std::uint32_t bytes, void** all) {
  const unsigned me = thread_number();
  if (me < threads && all[me] == nullptr) all[me] = heap->allocate(bytes);
}
/// Each thread marks its object, if it has one, at both ends.
MUSTER_KERNEL void mark_ends(unsigned threads, std::uint32_t bytes, void* const* all) {
  const unsigned me = thread_number();
  if (me >= threads || all[me] == nullptr) return;
  auto* const words = static_cast<unsigned*>(all[me]);
  words[0] = words[bytes / 4 - 1] = me;
}
MUSTER_KERNEL void check_ends(unsigned threads, std::uint32_t bytes, void* const* all,
                              gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me >= threads || all[me] == nullptr) return;
  const auto* const words = static_cast<const unsigned*>(all[me]);
  if (words[0] != me || words[bytes / 4 - 1] != me) note_failed(failed);
}
/// Frees each second object; the others, too, if wanted.
template <class Heap>
MUSTER_KERNEL void free_some(Heap* heap, unsigned threads, bool each, void** all) {
  const unsigned me = thread_number();
  if (me >= threads || (me % 2 == 0 && !each)) return;
  heap->free(all[me]);
  all[me] = nullptr;
}

/// A multiple of 4 up to `most`.
MUSTER_GPU std::uint32_t work_bytes(unsigned thread, std::uint32_t seed, std::uint32_t most) {
  return 4 + scrambled(thread * 0x9e3779b9U + seed) % (most / 4) * 4;
}
/// Each thread asks for an object of its own size, and writes to it.
template <class Heap>
MUSTER_KERNEL void generate_work(Heap* heap, unsigned threads, std::uint32_t seed, std::uint32_t most, unsigned** all) {
  const unsigned me = thread_number();
  if (me >= threads) return;
  const std::uint32_t words = work_bytes(me, seed, most) / 4;
  auto* const mine = static_cast<unsigned*>(heap->allocate(std::size_t{words} * 4));
  if (mine != nullptr) mine[0] = mine[words - 1] = me;
  all[me] = mine;
}
template <class Heap>
MUSTER_KERNEL void consume_work(Heap* heap, unsigned threads, std::uint32_t seed, std::uint32_t most, unsigned** all,
                                gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me >= threads) return;
  const std::uint32_t words = work_bytes(me, seed, most) / 4;
  if (all[me] == nullptr || all[me][0] != me || all[me][words - 1] != me) note_failed(failed);
  heap->free(all[me]);
}

/// A vertex with a list of edges, which is allocated again with twice the room when it is full.
struct graph_vertex {
  std::uint32_t* edges;
  std::uint32_t many, room;
};
MUSTER_GPU std::uint32_t edge_of(unsigned vertex, std::uint32_t number) { return vertex * 31 + number; }
/// How many edges a vertex gets in a round; round 0 builds the graph. In a graph with hubs, one vertex in 64 gets all
/// later ones.
MUSTER_GPU std::uint32_t new_edges(unsigned vertex, std::uint32_t round, bool hubs) {
  if (round == 0) return 1 + scrambled(vertex) % 16;
  if (!hubs) return scrambled(vertex + round * 0x9e3779b9U) % 4;
  return vertex % 64 == 0 ? 64 + scrambled(vertex + round) % 64 : 0;
}
/// Each thread inserts the edges of one vertex.
template <class Heap>
MUSTER_KERNEL void insert_edges(Heap* heap, unsigned vertices, std::uint32_t round, bool hubs, graph_vertex* all,
                                gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me >= vertices) return;
  graph_vertex mine = all[me];
  const std::uint32_t more = new_edges(me, round, hubs);
  if (mine.many + more > mine.room) {
    std::uint32_t room = mine.room == 0 ? 4 : mine.room;
    while (room < mine.many + more) room *= 2;
    auto* const edges = static_cast<std::uint32_t*>(heap->allocate(std::size_t{room} * 4));
    if (edges == nullptr) {
      note_failed(failed);
      return;
    }
    for (std::uint32_t i = 0; i < mine.many; ++i) edges[i] = mine.edges[i];
    heap->free(mine.edges);
    mine.edges = edges;
    mine.room = room;
  }
  for (std::uint32_t i = 0; i < more; ++i) mine.edges[mine.many + i] = edge_of(me, mine.many + i);
  mine.many += more;
  all[me] = mine;
}
/// Each thread checks the edges of one vertex and frees them.
template <class Heap>
MUSTER_KERNEL void remove_edges(Heap* heap, unsigned vertices, graph_vertex* all, gpu::atomic<std::uint32_t>* failed) {
  const unsigned me = thread_number();
  if (me >= vertices) return;
  graph_vertex mine = all[me];
  for (std::uint32_t i = 0; i < mine.many; ++i)
    if (mine.edges[i] != edge_of(me, i)) note_failed(failed);
  heap->free(mine.edges);
  all[me] = {nullptr, 0, 0};
}

// --------------------------------------------------------------------------------------------------------------- loads

// `run(threads, kernel, arguments...)` launches a kernel and returns a heap_cost.

#if !defined(__CUDACC__)
/// Counts the operations of a kernel.
struct counted_launch {
  template <class... Parameters, class... Arguments>
  heap_cost operator()(unsigned threads, void (*kernel)(Parameters...), Arguments... arguments) const {
    const auto start = std::chrono::steady_clock::now();
    const muster_simt::counts all = muster_simt::launch(blocks(threads), {heap_block_threads}, kernel, arguments...);
    return {.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
            .atomics = static_cast<double>(all.changes),
            .memory = static_cast<double>(all.memory()),
            .loads = static_cast<double>(all.loads)};
  }
};
#endif

/// Tells the cost of each of so many items.
inline void tell_cost(outcome& of, const heap_cost& cost, double items) {
  of.seconds = cost.seconds;
  of.items = static_cast<std::uint64_t>(items);
  of.detail["atomics"] = cost.atomics / items;
  of.detail["memory operations"] = cost.memory / items;
}

/// Unless there has been an error before.
inline void tell_failed(outcome& of, const gpu::atomic<std::uint32_t>& failed, const char* error) {
  if (of.error.empty() && failed.load(std::memory_order_relaxed) != 0) of.error = error;
}

/// The addresses between the first and the last byte of all objects, by the bytes that were asked for: now, and of all
/// rounds of allocating and freeing together.
template <class Heap, class Run>
outcome spread_objects(const heap_case_spec& spec, Heap* heap, const Run& run) {
  const auto threads = static_cast<unsigned>(spec.items);
  const auto bytes = static_cast<std::uint32_t>(spec.bytes);
  muster_simt::device_array<void*> all(spec.items);
  muster_simt::device_array<gpu::atomic<std::uint32_t>> failed(1);
  std::uintptr_t least = ~std::uintptr_t{0}, most = 0;
  outcome result;
  const auto by_bytes = [&] {
    return static_cast<double>(most - least) / static_cast<double>(spec.items * spec.bytes);
  };
  for (unsigned round = 0; round < 8; ++round) {
    tell_cost(result, run(threads, fill_gaps<Heap>, heap, threads, bytes, all.get()), static_cast<double>(threads));
    for (void* const one : all) {
      if (one == nullptr) result.error = "there was no memory";
      least = std::min(least, reinterpret_cast<std::uintptr_t>(one));
      most = std::max(most, reinterpret_cast<std::uintptr_t>(one) + bytes);
    }
    if (!result.error.empty()) return result;
    if (round == 0) result.detail["range"] = by_bytes();
    run(threads, mark_ends, threads, bytes, all.get());
    run(threads, check_ends, threads, bytes, all.get(), failed.get());
    run(threads, free_some<Heap>, heap, threads, true, all.get());
  }
  result.detail["range later"] = by_bytes();
  tell_failed(result, failed[0], "an object was not there, or was another's");
  return result;
}

/// How much of a heap can be used until a lane gets null; the cost of a null; and how much of the memory of each second
/// object can be used again.
template <class Heap, class Run>
outcome use_all(const heap_case_spec& spec, Heap* heap, std::uint64_t heap_bytes, const Run& run) {
  const auto threads = static_cast<unsigned>(spec.items);
  const auto bytes = static_cast<std::uint32_t>(spec.bytes);
  const std::size_t most_rounds = heap_bytes / bytes / threads + 2;
  muster_simt::device_array<void*> all(most_rounds * threads);
  muster_simt::device_array<gpu::atomic<std::uint32_t>> failed(1);
  outcome result;
  double seconds = 0;
  const auto fill = [&](std::size_t round) {
    const heap_cost cost = run(threads, fill_gaps<Heap>, heap, threads, bytes, all.get() + round * threads);
    seconds += cost.seconds;
    return cost;
  };
  const auto count = [&](std::size_t begin, std::size_t end) {
    return static_cast<std::size_t>(end - begin) -
           static_cast<std::size_t>(std::count(all.get() + begin, all.get() + end, nullptr));
  };
  const auto alive = [&] { return count(0, all.size()); };
  std::size_t rounds = 0, before = 0;
  for (bool full = false; !full && rounds < most_rounds; ++rounds) {
    fill(rounds);
    const std::size_t got = count(rounds * threads, (rounds + 1) * threads);
    full = got != threads;
    before += got;
    if (seconds > 20) {
      result.error = "it takes too long to fill the heap";
      return result;
    }
  }
  result.items = before;
  result.seconds = seconds;
  result.detail["used"] = 100.0 * static_cast<double>(before * bytes) / static_cast<double>(heap_bytes);
  // The rest of the memory goes to lanes that ask again, until all those of a round get null.
  for (std::size_t round = rounds - 1; round < most_rounds;) {
    rounds = round + 1;
    const std::size_t had = count(round * threads, rounds * threads);
    if (had == threads) {
      ++round;
      continue;
    }
    fill(round);
    if (count(round * threads, rounds * threads) == had) break;
  }
  before = alive();
  const auto total = static_cast<unsigned>(rounds * threads);
  run(total, mark_ends, total, bytes, all.get());
  muster_simt::device_array<void*> none(gpu::warp_size);
  const heap_cost cost = run(gpu::warp_size, fill_gaps<Heap>, heap, gpu::warp_size, bytes, none.get());
  if (std::count(none.begin(), none.end(), nullptr) == gpu::warp_size) {
    result.detail["null"] = cost.loads / gpu::warp_size;
    result.detail["null in us"] = cost.seconds * 1e6;
  }
  run(gpu::warp_size, free_some<Heap>, heap, gpu::warp_size, true, none.get());
  run(total, check_ends, total, bytes, all.get(), failed.get());
  run(total, free_some<Heap>, heap, total, false, all.get());
  const std::size_t half = alive();
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t last = count(round * threads, (round + 1) * threads);
    fill(round);
    if (last != threads && count(round * threads, (round + 1) * threads) == last) break;  // there is no more
  }
  result.detail["refilled"] =
      before == half ? 0 : 100.0 * static_cast<double>(alive() - half) / static_cast<double>(before - half);
  run(total, mark_ends, total, bytes, all.get());
  run(total, check_ends, total, bytes, all.get(), failed.get());
  run(total, free_some<Heap>, heap, total, true, all.get());
  tell_failed(result, failed[0], "an object was not there, or was another's");
  return result;
}

/// Objects of random sizes, in a heap that has been used before.
template <class Heap, class Run>
outcome pass_work_on(const heap_case_spec& spec, Heap* heap, const Run& run) {
  const auto threads = static_cast<unsigned>(spec.items);
  const auto most = static_cast<std::uint32_t>(spec.bytes);
  muster_simt::device_array<unsigned*> all(spec.items);
  muster_simt::device_array<gpu::atomic<std::uint32_t>> failed(1);
  outcome result;
  for (std::uint32_t pass = 1; pass <= 2; ++pass) {
    const heap_cost cost = run(threads, generate_work<Heap>, heap, threads, pass, most, all.get());
    tell_cost(result, cost, static_cast<double>(threads));
    run(threads, consume_work<Heap>, heap, threads, pass, most, all.get(), failed.get());
    if (cost.seconds > 0.25) break;  // so slow is no heap that is slow only when it is new
  }
  tell_failed(result, failed[0], "an object was not there, or was another's");
  return result;
}

/// A graph is built; then edges are inserted, at all vertices or at a few.
template <class Heap, class Run>
outcome grow_graph(const heap_case_spec& spec, Heap* heap, const Run& run) {
  const auto vertices = static_cast<unsigned>(spec.items);
  const bool hubs = spec.what == heap_load::graph_hubs, build = spec.what == heap_load::graph_build;
  muster_simt::device_array<graph_vertex> all(spec.items);
  muster_simt::device_array<gpu::atomic<std::uint32_t>> failed(1);
  outcome result;
  heap_cost sum;
  double edges = 0;
  for (std::uint32_t round = 0; round <= (build ? 0U : 8U); ++round) {
    const heap_cost cost = run(vertices, insert_edges<Heap>, heap, vertices, round, hubs, all.get(), failed.get());
    if (round == 0 && !build) continue;
    for (unsigned v = 0; v < vertices; ++v) edges += new_edges(v, round, hubs);
    sum.seconds += cost.seconds;
    sum.atomics += cost.atomics;
    sum.memory += cost.memory;
    if (sum.seconds > 5) break;
  }
  tell_cost(result, sum, edges);
  run(vertices, remove_edges<Heap>, heap, vertices, all.get(), failed.get());
  tell_failed(result, failed[0], "there was no memory, or an edge was not there");
  return result;
}

template <class Heap, class Run>
outcome run_heap_case(const heap_case_spec& spec, Heap* heap, std::uint64_t heap_bytes, const Run& run) {
  switch (spec.what) {
    case heap_load::spread: return spread_objects(spec, heap, run);
    case heap_load::full: return use_all(spec, heap, heap_bytes, run);
    case heap_load::work: return pass_work_on(spec, heap, run);
    default: return grow_graph(spec, heap, run);
  }
}

}  // namespace muster::bench::inline MUSTER_GPU_SIDE
