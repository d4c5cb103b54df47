// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// graph.hpp: a directed graph in the memory of a device, which kernels change: each vertex has an array of the vertices
// that its edges lead to, and gets a larger or smaller one from a gpu::heap when edges are inserted or deleted.
#pragma once

#include <muster/gpu/heap.cuh>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dynamic_graph {

namespace mg = muster::gpu;

/// An edge to insert or to delete.
struct change {
  std::uint32_t from, to;
  bool inserted;
};

/// The array has room for as many edges as heap_ref::usable_size says.
struct vertex {
  std::uint32_t* edges;
  std::uint32_t many;
};

/// Those of one vertex are next to each other: changes[first[v]] up to changes[first[v + 1]], without the last.
struct batch {
  const change* changes;
  const std::uint32_t* first;
};

// [change]
/// Makes room for `many` edges, and returns memory if the array has become far too large. False: there is no memory.
MUSTER_GPU bool resize(mg::heap_ref heap, vertex& of, std::uint32_t many) {
  const std::size_t room = heap.usable_size(of.edges) / sizeof(std::uint32_t);
  if (many <= room && (room <= 8 || many > room / 4)) return true;
  const std::size_t wanted = many > room ? std::size_t{many} * 2 : std::size_t{many} + 1;
  void* const moved = heap.realloc(of.edges, wanted * sizeof(std::uint32_t));
  if (moved == nullptr) return many <= room;  // the old array is still there
  of.edges = static_cast<std::uint32_t*>(moved);
  return true;
}

/// Each lane changes one vertex. Counts changes for which there was no memory.
MUSTER_KERNEL void apply(mg::heap_ref heap, vertex* graph, std::uint32_t vertices, batch all,
                         mg::atomic<std::uint32_t>* no_memory) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= vertices) return;
  vertex mine = graph[me];
  for (std::uint32_t i = all.first[me]; i < all.first[me + 1]; ++i) {
    const change& now = all.changes[i];
    if (now.inserted) {
      if (!resize(heap, mine, mine.many + 1)) {
        no_memory->fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      mine.edges[mine.many++] = now.to;
      continue;
    }
    for (std::uint32_t edge = 0; edge < mine.many; ++edge) {
      if (mine.edges[edge] != now.to) continue;
      mine.edges[edge] = mine.edges[--mine.many];
      resize(heap, mine, mine.many);
      break;
    }
  }
  graph[me] = mine;
}
// [/change]

// [search]
constexpr std::uint32_t never = ~std::uint32_t{0};

/// One step of a search from a vertex, in all directions: each lane with a vertex at `distance` reaches its neighbours.
MUSTER_KERNEL void reach(const vertex* graph, std::uint32_t vertices, std::uint32_t distance,
                         mg::atomic<std::uint32_t>* distances, mg::atomic<std::uint32_t>* reached) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= vertices || distances[me].load(std::memory_order_relaxed) != distance) return;
  std::uint32_t found = 0;
  for (std::uint32_t edge = 0; edge < graph[me].many; ++edge) {
    std::uint32_t expected = never;
    found += distances[graph[me].edges[edge]].compare_exchange_strong(expected, distance + 1, std::memory_order_relaxed,
                                                                      std::memory_order_relaxed);
  }
  if (found != 0) reached->fetch_add(found, std::memory_order_relaxed);
}
// [/search]

/// Each lane frees the array of one vertex.
MUSTER_KERNEL void clear(mg::heap_ref heap, vertex* graph, std::uint32_t vertices) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= vertices) return;
  heap.free(graph[me].edges);
  graph[me] = {nullptr, 0};
}

}  // namespace dynamic_graph
