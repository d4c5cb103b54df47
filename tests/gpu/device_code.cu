// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled and measured by tools/device_code.py: the calls of users, each in a kernel of its own.
#include <muster/gpu/heap.cuh>
#include <muster/gpu/malloc_upstream.hpp>
#include <muster/gpu/page_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>
#include <muster/gpu/xmc.cuh>

#include "lane_side.hpp"

namespace mg = muster::gpu;

extern "C" {

__global__ void xmalloc_allocate(mg::xmalloc<mg::malloc_upstream>* heap, std::size_t bytes, void** out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = heap->allocate(bytes);
}
__global__ void xmalloc_free(mg::xmalloc<mg::malloc_upstream>* heap, void** all) {
  heap->free(all[blockIdx.x * blockDim.x + threadIdx.x]);
}
__global__ void xmalloc_on_pages_allocate(mg::xmalloc<mg::page_upstream>* heap, std::size_t bytes, void** out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = heap->allocate(bytes);
}
__global__ void xmalloc_on_pages_free(mg::xmalloc<mg::page_upstream>* heap, void** all) {
  heap->free(all[blockIdx.x * blockDim.x + threadIdx.x]);
}
__global__ void page_upstream_allocate(mg::page_upstream* upstream, std::size_t bytes, void** out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = upstream->allocate(bytes);
}
__global__ void heap_allocate(mg::heap_ref heap, std::size_t bytes, void** out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = heap.malloc(bytes);
}
__global__ void heap_free(mg::heap_ref heap, void** all) { heap.free(all[blockIdx.x * blockDim.x + threadIdx.x]); }
__global__ void heap_realloc(mg::heap_ref heap, std::size_t bytes, void** all) {
  void*& mine = all[blockIdx.x * blockDim.x + threadIdx.x];
  mine = heap.realloc(mine, bytes);
}
__global__ void xmc_allocate_write_free() {
  auto* const mine = static_cast<int*>(mg::xmcMalloc(sizeof(int)));
  if (mine != nullptr) *mine = 1;
  mg::xmcFree(mine);
}
__global__ void cuda_allocate_write_free() {
  auto* const mine = static_cast<int*>(malloc(sizeof(int)));
  if (mine != nullptr) *mine = 1;
  free(mine);
}

}  // extern "C"
