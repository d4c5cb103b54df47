// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The programs of docs/guide/gpu.md, and of the README. Compiled for the emulation of a GPU, and by nvcc for GPUs.

// [first]
#include <muster/gpu/xmc.cuh>

using namespace muster::gpu;

struct edge {
  edge* next;
  unsigned to;
};

MUSTER_KERNEL void add_edges(edge** lists, unsigned many) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  if (me >= many) return;
  auto* const mine = static_cast<edge*>(xmcMalloc(sizeof(edge)));
  if (mine == nullptr) return;  // no memory for this lane; others may have got some
  *mine = {lists[me], me + 1};
  lists[me] = mine;
}
// [/first]

MUSTER_KERNEL void remove_edges(edge** lists, unsigned many, unsigned* sum) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  if (me >= many) return;
  for (edge* at = lists[me]; at != nullptr;) {
    edge* const next = at->next;
    sum[me] += at->to;
    xmcFree(at);
    at = next;
  }
  lists[me] = nullptr;
}

#include <muster/gpu.hpp>

#include "muster_simt/launch.hpp"

#include <cstdio>

namespace {

int failures = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "guide-gpu: %s\n", what);
  ++failures;
}

// [heap]
struct few_buffers : xmalloc_options {
  static constexpr unsigned fifos = 4;
  static constexpr unsigned largest_coalesced = 128;
};
using buffered = xmalloc<page_upstream, few_buffers>;

template <class Heap>
MUSTER_KERNEL void use(Heap* all, unsigned* failed) {
  void* const mine = all->allocate(40 + lane_id());
  if (mine == nullptr) failed[lane_id()] = 1;
  all->free(mine);
}
// [/heap]

// [nodes]
struct node {
  MUSTER_GPU node(unsigned its_key, node* its_next) : key(its_key), next(its_next) {}
  unsigned key;
  node* next;
};

MUSTER_KERNEL void push_nodes(heap_ref heap, node** lists, unsigned many) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  if (me >= many) return;
  node* const made = heap.make<node>(me, lists[me]);  // null if there is no memory
  if (made != nullptr) lists[me] = made;
}
// [/nodes]

MUSTER_KERNEL void pop_nodes(heap_ref heap, node** lists, unsigned many) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  if (me >= many || lists[me] == nullptr) return;
  node* const first = lists[me];
  lists[me] = first->next;
  heap.destroy(first);
}

// [together]
MUSTER_KERNEL void share(heap_ref heap, unsigned* sums) {
  MUSTER_GPU_SHARED(void*, slot);
  auto* const all = static_cast<unsigned*>(heap.malloc_for_block(block_size().x * sizeof(unsigned), slot));
  if (all == nullptr) return;  // for all threads of the block
  all[thread_index().x] = thread_index().x;
  sync_block();
  sums[block_index().x * block_size().x + thread_index().x] = all[block_size().x - 1 - thread_index().x];
  heap.free_for_block(all);
}
// [/together]

void many_heaps() {
  constexpr unsigned many = 1000;
  muster_simt::device_array<node*> lists(many);
  // [handle]
  muster::gpu::heap memory(std::size_t{64} << 20U);  // freed at the end of the scope
  muster_simt::launch({(many + 255) / 256}, {256}, push_nodes, memory.ref(), lists.get(), many);
  const heap_stats now = memory.stats();
  // [/handle]
  expect(now.objects == many && now.failed == 0, "a node is missing");
  muster_simt::launch({(many + 255) / 256}, {256}, push_nodes, memory.ref(), lists.get(), many);
  muster_simt::launch({(many + 255) / 256}, {256}, pop_nodes, memory.ref(), lists.get(), many);
  // [leaks]
  std::size_t lost = 0;
  for (const live_object& one : memory.leaks()) lost += one.bytes;
  memory.reset();  // frees all objects at once
  // [/leaks]
  expect(lost == many * 16, "leaks() does not list the nodes that are left");
  expect(memory.stats().objects == 0, "reset() left an object");
  muster_simt::device_array<unsigned> sums(256);
  muster_simt::launch({2}, {128}, share, memory.ref(), sums.get());
  for (unsigned i = 0; i < 256; ++i) expect(sums[i] == 127 - i % 128, "the threads of a block do not share");
  memory.trim();
  expect(memory.stats().free_bytes == memory.stats().bytes, "a page is lost");
}

void lists() {
  constexpr unsigned many = 1000;
  // [launch]
  muster_simt::device_array<edge*> lists(many);
  xmcInit(std::size_t{64} << 20U);
  muster_simt::launch({(many + 255) / 256}, {256}, add_edges, lists.get(), many);
  // [/launch]
  muster_simt::launch({(many + 255) / 256}, {256}, add_edges, lists.get(), many);
  muster_simt::device_array<unsigned> sum(many);
  muster_simt::launch({(many + 255) / 256}, {256}, remove_edges, lists.get(), many, sum.get());
  for (unsigned i = 0; i < many; ++i) expect(sum[i] == 2 * (i + 1), "an edge is lost");
}

void own_heap() {
  struct place {
    alignas(buffered) unsigned char bytes[sizeof(buffered)];
  };
  muster_simt::device_array<unsigned> failed(32);
  // [make]
  constexpr std::size_t size = std::size_t{16} << 20U;
  muster_simt::device_array<unsigned char> region(size + page_upstream::page_size);
  const auto at = reinterpret_cast<std::uintptr_t>(region.get());
  void* const aligned = region.get() + (page_upstream::page_size - at % page_upstream::page_size);
  page_upstream* const pages = page_upstream::make(aligned, size);
  muster_simt::device_array<place> state(1);
  auto* const all = ::new (static_cast<void*>(state.get())) buffered(*pages);
  muster_simt::launch({4}, {128}, use<buffered>, all, failed.get());
  all->trim();  // returns the kept blocks to the pages
  // [/make]
  expect(pages->free_pages() == pages->pages(), "a page is lost");
  expect(all->noticed().twice + all->noticed().invalid == 0, "something was freed that was not an object");
  for (unsigned i = 0; i < 32; ++i) expect(failed[i] == 0, "there was no memory");
}

void on_every_schedule() {
#if !defined(__CUDACC__)
  // [schedules]
  for (unsigned seed = 1; seed <= 100; ++seed) {
    muster_simt::current() = {.seed = seed, .multiprocessors = 2};
    lists();  // throws muster_simt::error if lanes wait forever, and says for what
  }
  // [/schedules]
  muster_simt::device_array<node*> lists_of(1000);
  muster::gpu::heap memory(std::size_t{64} << 20U);
  // [addresses]
  muster_simt::current() = {.split_one_in = 0, .by_address = true};  // warps stay together
  const muster_simt::counts counted = muster_simt::launch({4}, {256}, push_nodes, memory.ref(), lists_of.get(), 1000);
  const double atomics = static_cast<double>(counted.changes) / 1000;  // for each call of a lane
  const std::uint64_t in_a_row = counted.addresses.front().changes;    // of the atomic that is changed most
  // [/addresses]
  expect(atomics < 0.5 && in_a_row < 100, "the lanes of a warp do not allocate together");
  muster_simt::current() = {};
#endif
}

}  // namespace

int main() {
  lists();
  own_heap();
  many_heaps();
  on_every_schedule();
  return failures == 0 ? 0 : 1;
}
