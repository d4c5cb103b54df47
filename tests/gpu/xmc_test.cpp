// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The paper's three calls, on the C library's malloc or CUDA's.
#include <gtest/gtest.h>
#include <muster/gpu/xmc.cuh>

#include "muster_simt/launch.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>
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
/// The first lanes of each warp keep four bytes each: together, blocks of 64 bytes to a KiB.
MUSTER_KERNEL void keep_few(std::uint64_t** out, unsigned active) {
  const unsigned me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (mg::lane_id() >= active) return;
  auto* const mine = static_cast<unsigned*>(xmcMalloc(sizeof(unsigned)));
  if (mine != nullptr) *mine = me;
  out[me] = reinterpret_cast<std::uint64_t*>(mine);
}
/// Each thread frees the object of another one.
MUSTER_KERNEL void check_and_free(std::uint64_t** all, unsigned threads, unsigned* wrong) {
  const unsigned me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  const unsigned its = (me + 77) % threads;
  wrong[me] = all[its] != nullptr && *reinterpret_cast<unsigned*>(all[its]) != its ? 1 : 0;
  xmcFree(all[its]);
  all[its] = nullptr;
}
MUSTER_KERNEL void free_nothing(std::uint64_t** all) {
  xmcFree(all[0]);
  xmcFree(all);  // no object; there is nothing yet that could count it
}
MUSTER_KERNEL void read_misuse(mg::misuse* out) { *out = mg::xmcHeap()->heap.noticed(); }

TEST(xmc, has_no_memory_before_it_is_initialized) {
  device_array<std::uint64_t*> all(64);
  std::uint64_t some = 0;
  for (auto& p : all) p = &some;
  launch({1}, {64}, keep, all.get());
  for (const auto* p : all) EXPECT_EQ(p, nullptr);
  launch({1}, {64}, free_nothing, all.get());
}

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

TEST(xmc, keeps_small_blocks_that_share_chunks) {
  xmcInit(heap_bytes);
  constexpr unsigned threads = 4096;
  for (const unsigned active : {1U, 3U, 8U, 16U, 32U, 1U}) {
    device_array<std::uint64_t*> all(threads);
    device_array<unsigned> wrong(threads);
    launch({threads / 256}, {256}, keep_few, all.get(), active);
    std::set<std::uint64_t*> different(all.begin(), all.end());
    different.erase(nullptr);
    EXPECT_EQ(different.size(), threads / 32 * active);
    launch({threads / 256}, {256}, check_and_free, all.get(), threads, wrong.get());
    for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(wrong[i], 0U);
  }
  device_array<mg::misuse> noticed(1);
  launch({1}, {1}, read_misuse, noticed.get());
  EXPECT_EQ(noticed[0].twice + noticed[0].invalid, 0U);
}

#if !defined(__CUDACC__)
TEST(xmc, keeps_free_blocks_in_a_third_of_the_heap) {
  using heap_type = decltype(mg::xmc_heap::heap);
  const auto all = std::make_unique<mg::xmc_heap>(heap_bytes, 8448);
  std::uint64_t bytes = 0;
  for (unsigned c = 0; c < heap_type::size_classes; ++c)
    bytes += std::uint64_t{all->heap.most_kept(c)} * (heap_type::smallest_block << c);
  EXPECT_LE(bytes, heap_bytes / 3);
  EXPECT_GE(bytes, heap_bytes / 6);
}
#endif

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
