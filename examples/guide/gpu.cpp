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
using heap = xmalloc<page_base, few_buffers>;

template <class Heap>
MUSTER_KERNEL void use(Heap* all, unsigned* failed) {
  void* const mine = all->allocate(40 + lane_id());
  if (mine == nullptr) failed[lane_id()] = 1;
  all->free(mine);
}
// [/heap]

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
    alignas(heap) unsigned char bytes[sizeof(heap)];
  };
  muster_simt::device_array<unsigned> failed(32);
  // [make]
  constexpr std::size_t size = std::size_t{16} << 20U;
  muster_simt::device_array<unsigned char> region(size + page_base::page_size);
  const auto at = reinterpret_cast<std::uintptr_t>(region.get());
  void* const aligned = region.get() + (page_base::page_size - at % page_base::page_size);
  page_base* const pages = page_base::make(aligned, size);
  muster_simt::device_array<place> state(1);
  auto* const all = ::new (static_cast<void*>(state.get())) heap(*pages);
  muster_simt::launch({4}, {128}, use<heap>, all, failed.get());
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
  muster_simt::current() = {};
#endif
}

}  // namespace

int main() {
  lists();
  own_heap();
  on_every_schedule();
  return failures == 0 ? 0 : 1;
}
