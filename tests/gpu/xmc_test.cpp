// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The paper's three calls, on the C library's malloc or CUDA's.
#include <gtest/gtest.h>
#include <muster/gpu/xmc.cuh>

#include "muster_simt/launch.hpp"

#include <cstdint>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

namespace {

namespace mg = muster::gpu;
using mg::xmcFree, mg::xmcInit, mg::xmcMalloc;
using muster_simt::device_array;
using muster_simt::launch;

constexpr std::uint64_t heap_bytes = std::uint64_t{64} << 20U;

MUSTER_KERNEL void keep(std::uint64_t** out) {
  const unsigned me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  auto* const mine = static_cast<std::uint64_t*>(xmcMalloc(8 + me % 7 * 40));
  if (mine != nullptr) *mine = me;
  out[me] = mine;
}
MUSTER_KERNEL void mix_and_free(std::uint64_t** all, std::uint64_t* sum) {
  const unsigned me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  void* const other = ::malloc(16 + me);
  sum[me] = all[me] == nullptr ? 0 : *all[me];
  xmcFree(all[me]);
  ::free(other);
  xmcFree(nullptr);
}
MUSTER_KERNEL void read_misuse(mg::misuse* out) { *out = mg::xmcHeap()->heap.noticed(); }

TEST(xmc, keeps_objects_from_kernel_to_kernel_beside_malloc) {
  xmcInit(heap_bytes);
  xmcInit(heap_bytes);  // nothing more
  constexpr unsigned threads = 1000;
  for (unsigned time = 0; time < 3; ++time) {
    device_array<std::uint64_t*> all(threads);
    device_array<std::uint64_t> sum(threads);
    launch({4}, {250}, keep, all.get());
    EXPECT_EQ((std::set<std::uint64_t*>(all.begin(), all.end()).size()), threads);
    launch({4}, {250}, mix_and_free, all.get(), sum.get());
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(sum[i], i);
  }
  device_array<mg::misuse> noticed(1);
  launch({1}, {1}, read_misuse, noticed.get());
  EXPECT_EQ(noticed[0].twice + noticed[0].invalid, 0U);
}

TEST(xmc, says_why_the_heap_cannot_have_another_size) {
  xmcInit(heap_bytes);
  try {
    xmcInit(2 * heap_bytes);
    FAIL() << "two sizes";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("asked for 134217728 bytes, but the heap has 67108864"), std::string::npos)
        << e.what();
  }
}

}  // namespace
