// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xmalloc on an upstream allocator of pages. After each kernel, a walk over the heap finds that nothing is lost and
// nothing overlaps.
#include <gtest/gtest.h>
#include <muster/gpu/xmalloc.hpp>

#include "heap_check.hpp"
#include "muster_simt/launch.hpp"
#include "objects.hpp"
#include "xmalloc_kernels.hpp"
#if !defined(__CUDACC__)
#include <muster/fiber/detail/switch_observers.hpp>

#include "printed/figure4.hpp"
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace mg = muster::gpu;
using muster_simt::device_array;
using muster_simt::launch;
using muster_test::alive_of;
using muster_test::all_filled;
using muster_test::allocate;
using muster_test::churn;
using muster_test::free_others;
using muster_test::many_of;
using muster_test::number_in_grid;
using muster_test::object;
using muster_test::objects;
using muster_test::paged_heap;
#if !defined(__CUDACC__)
using muster_test::counting_upstream;
#endif

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

class xmalloc : public ::testing::Test {
 protected:
  xmalloc() { muster_simt::current() = {}; }
  ~xmalloc() override { muster_simt::current() = {}; }
};

// ---------------------------------------------------------------------------------------------------------- kernels

/// One lane frees the only block that may be free, and takes it again.
template <class Heap>
MUSTER_KERNEL void take_again(Heap* heap, void** block, std::size_t bytes, unsigned rounds, std::uint32_t* failed) {
  for (unsigned round = 0; round < rounds && *failed == 0; ++round) {
    heap->free(*block);
    *block = heap->allocate(bytes);
    if (*block == nullptr) *failed = 1;
  }
}

// ------------------------------------------------------------------------------------------------------------ tests

template <class Heap>
void allocate_write_and_free(const Heap& heap, mg::index3 grid, mg::index3 block, unsigned active,
                             std::uint64_t (*bytes_of)(unsigned)) {
  const std::size_t threads = std::size_t{grid.x} * block.x * block.y * block.z;
  device_array<std::uint64_t> bytes(threads);
  device_array<object> all(threads);
  std::size_t wanted = 0;
  for (unsigned i = 0; i < threads; ++i) {
    bytes[i] = bytes_of(i);
    wanted += i % (std::size_t{block.x} * block.y * block.z) % 32 < active && bytes[i] != 0;
  }
  launch(grid, block, allocate<typename Heap::type>, heap.get(), bytes.get(), all.get(), active);
  ASSERT_EQ(many_of(all), wanted);
  ASSERT_EQ(heap.wrong(alive_of(all)), "");
  ASSERT_TRUE(all_filled(all));
  launch(grid, block, free_others<typename Heap::type>, heap.get(), all.get(), 5U, static_cast<unsigned>(threads));
  ASSERT_EQ(heap.wrong({}), "");
  heap->trim();
  ASSERT_EQ(heap->upstream().free_pages(), heap->upstream().pages());
  ASSERT_EQ(heap->noticed().twice + heap->noticed().invalid, 0U);
  ASSERT_EQ(heap->upstream().freed_twice() + heap->upstream().freed_invalid(), 0U);
}

TEST_F(xmalloc, serves_every_number_of_lanes) {
  const paged_heap heap(mebibyte);
  for (unsigned active = 1; active <= 32; ++active) {
    muster_simt::current().seed = active;
    allocate_write_and_free(heap, {3}, {64}, active, [](unsigned i) { return std::uint64_t{1} + i * 37 % 200; });
  }
}

TEST_F(xmalloc, serves_every_shape_of_block) {
  const paged_heap heap(2 * mebibyte);
  for (const mg::index3 block :
       {mg::index3{1}, mg::index3{33}, mg::index3{7, 3, 5}, mg::index3{2, 2, 32}, mg::index3{512}})
    allocate_write_and_free(heap, {2}, block, 32, [](unsigned i) { return std::uint64_t{4} << i % 5; });
}

TEST_F(xmalloc, serves_small_and_large_and_nothing_side_by_side) {
  const paged_heap heap(16 * mebibyte);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    muster_simt::current().seed = seed;
    allocate_write_and_free(heap, {2}, {96}, 32, [](unsigned i) -> std::uint64_t {
      constexpr std::uint64_t sizes[] = {0, 4, 256, 257, 16, 5000, 1, 16368, 16369, 40'000, 31, 255};
      return sizes[i * 7 % 12];
    });
  }
}

TEST_F(xmalloc, returns_null_for_too_large_a_size) {
  const paged_heap heap(mebibyte);
  for (const std::uint64_t huge : {std::uint64_t{1} << 20U, std::uint64_t{1} << 32U, ~std::uint64_t{0},
                                   ~std::uint64_t{0} - 15, ~std::uint64_t{0} - 32, std::uint64_t{1} << 63U}) {
    device_array<std::uint64_t> bytes(64);
    device_array<object> all(64);
    for (auto& b : bytes) b = huge;
    launch({1}, {64}, allocate<paged_heap<>::type>, heap.get(), bytes.get(), all.get(), 32U);
    EXPECT_EQ(many_of(all), 0U) << huge;
    EXPECT_EQ(heap.wrong({}), "");
  }
}

TEST_F(xmalloc, gives_the_remaining_blocks_and_null_to_the_others) {
  const paged_heap heap(mebibyte / 4);
  constexpr unsigned threads = 4096;
  std::size_t first = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    muster_simt::current().seed = seed;
    device_array<std::uint64_t> bytes(threads);
    device_array<object> all(threads);
    for (auto& b : bytes) b = 100;
    launch({threads / 128}, {128}, allocate<paged_heap<>::type>, heap.get(), bytes.get(), all.get(), 32U);
    EXPECT_EQ(heap.wrong(alive_of(all)), "");
    EXPECT_TRUE(all_filled(all));
    // 32 objects together fill a page; fewer, when groups are torn apart, take a power of two.
    EXPECT_GT(many_of(all), mebibyte / 4 / 128 * 3 / 4);
    EXPECT_LT(many_of(all), threads);
    if (first == 0) first = many_of(all);
    launch({threads / 128}, {128}, free_others<paged_heap<>::type>, heap.get(), all.get(), 77U, threads);
    EXPECT_EQ(heap.wrong({}), "");
  }
  heap->trim();
  EXPECT_EQ(heap->upstream().free_pages(), heap->upstream().pages());
}

struct no_coalescing : mg::xmalloc_options {
  static constexpr bool coalesce = false;
};
struct no_buffers : mg::xmalloc_options {
  static constexpr bool buffer = false;
};
struct base_alone : no_coalescing {
  static constexpr bool buffer = false;
};
struct hashed : mg::xmalloc_options {
  static constexpr auto choice = mg::fifo_choice::hash;
};
struct small_fifo : mg::xmalloc_options {
  static constexpr unsigned fifos = 1;
  static constexpr unsigned blocks = 4;
  static constexpr auto choice = mg::fifo_choice::hash;
};

template <class Options>
void churn_with(unsigned seeds, unsigned multiprocessors) {
  using heap_type = typename paged_heap<Options>::type;
  const paged_heap<Options> heap(4 * mebibyte);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    muster_simt::current().seed = seed;
    muster_simt::current().multiprocessors = multiprocessors;
    device_array<object> all(std::size_t{4} * 96);
    device_array<mg::atomic<std::uint32_t>> wrong(1);
    launch({4}, {96}, churn<heap_type>, heap.get(), all.get(), 12U, seed % 3 == 0 ? 2000U : 120U, seed, wrong.get());
    ASSERT_EQ(wrong[0].load(relaxed), 0U) << "seed " << seed;
    ASSERT_TRUE(all_filled(all)) << "seed " << seed;
    ASSERT_EQ(heap.wrong(alive_of(all)), "") << "seed " << seed;
    launch({4}, {96}, free_others<heap_type>, heap.get(), all.get(), seed, 384U);
    ASSERT_EQ(heap.wrong({}), "") << "seed " << seed;
  }
  EXPECT_EQ(heap->noticed().twice + heap->noticed().invalid, 0U);
}

TEST_F(xmalloc, survives_churn) { churn_with<mg::xmalloc_options>(40, 1); }
TEST_F(xmalloc, survives_churn_on_several_multiprocessors) { churn_with<mg::xmalloc_options>(20, 3); }
TEST_F(xmalloc, survives_churn_with_one_small_fifo) { churn_with<small_fifo>(20, 2); }
TEST_F(xmalloc, survives_churn_without_coalescing) { churn_with<no_coalescing>(10, 2); }
TEST_F(xmalloc, survives_churn_without_buffers) { churn_with<no_buffers>(10, 2); }
TEST_F(xmalloc, survives_churn_of_the_base_alone) { churn_with<base_alone>(10, 2); }

TEST_F(xmalloc, finds_the_last_free_block_in_whatever_fifo_it_is) {
  const paged_heap<hashed> heap(mebibyte / 8);
  std::vector<void*> others;
  device_array<void*> last(1);
  while (void* const one = heap->allocate(2000)) others.push_back(std::exchange(last[0], one));
  ASSERT_NE(last[0], nullptr);
  device_array<std::uint32_t> failed(1);
  launch({1}, {1}, take_again<paged_heap<hashed>::type>, heap.get(), last.get(), std::size_t{2000}, 200U, failed.get());
  EXPECT_EQ(failed[0], 0U);
}

TEST_F(xmalloc, serves_two_kernels_at_once) {
  using heap_type = paged_heap<>::type;
  const paged_heap heap(4 * mebibyte);
  muster_simt::current().multiprocessors = 2;
  device_array<object> all[2] = {device_array<object>(192), device_array<object>(192)};
  device_array<mg::atomic<std::uint32_t>> wrong(1);
  const auto kernel = [&](unsigned which) {
    launch({2}, {96}, churn<heap_type>, heap.get(), all[which].get(), 20U, 300U, which, wrong.get());
  };
  {
    const std::jthread other(kernel, 1);
    kernel(0);
  }
  EXPECT_EQ(wrong[0].load(relaxed), 0U);
  objects alive = alive_of(all[0]);
  alive.merge(alive_of(all[1]));
  EXPECT_EQ(alive.size(), many_of(all[0]) + many_of(all[1]));
  EXPECT_EQ(heap.wrong(alive), "");
}

// On the host, which is one lane.

TEST_F(xmalloc, finds_blocks_that_are_kept_for_other_sizes_and_remembers_theirs) {
  const paged_heap heap(mebibyte / 8);
  std::vector<void*> all;
  while (void* const one = heap->allocate(4000)) all.push_back(one);  // a page each
  ASSERT_GT(all.size(), 20U);
  for (void* const one : all) heap->free(one);
  ASSERT_EQ(heap.wrong({}), "");
  // The upstream allocator has some pages that did not fit into the FIFO, then nothing: what is left is kept, for 4
  // KiB.
  objects alive;
  while (void* const one = heap->allocate(2000)) alive[reinterpret_cast<std::uintptr_t>(one)] = 2000;
  EXPECT_GE(alive.size(), all.size());
  ASSERT_EQ(heap.wrong(alive), "");
  for (const auto& [at, bytes] : alive) heap->free(reinterpret_cast<void*>(at));
  ASSERT_EQ(heap.wrong({}), "");
  std::size_t again = 0;
  while (heap->allocate(4000) != nullptr) ++again;
  EXPECT_GE(again, 16U);  // a FIFO's worth, which has not become smaller
}

TEST_F(xmalloc, serves_some_where_there_is_no_room_for_all_together) {
  muster_simt::current().split_one_in = 0;
  const paged_heap heap(mebibyte / 8);
  std::vector<void*> large;
  while (void* const one = heap->allocate(4000)) large.push_back(one);
  heap->free(large.back());  // one page: 32 objects of 256 bytes do not fit
  device_array<std::uint64_t> bytes(32);
  device_array<object> all(32);
  for (auto& b : bytes) b = 250;
  launch({1}, {32}, allocate<paged_heap<>::type>, heap.get(), bytes.get(), all.get(), 32U);
  EXPECT_GE(many_of(all), 1U);
  EXPECT_TRUE(all_filled(all));
}

#if !defined(__CUDACC__)

/// Owns what others have made.
struct pretended_base {
  void* allocate(std::size_t) { return nullptr; }
  void deallocate(void* block) { given_back = block; }
  bool owns(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) >= begin; }
  std::uintptr_t origin() const { return begin - 5 * 256; }
  unsigned granule_bits() const { return 8; }

  std::uintptr_t begin;
  void* given_back = nullptr;
};
/// A block of one object, as xmalloc makes it.
void* make_area(std::uintptr_t at) {
  auto* const its = ::new (reinterpret_cast<void*>(at)) mg::coalesced_block;
  its->live.store(1, relaxed);
  its->size_class = 0;
  return mg::block_slot::make(reinterpret_cast<char*>(its), mg::coalesced_block::header, true);
}

TEST_F(xmalloc, keeps_no_block_that_its_numbers_cannot_name) {
  device_array<std::max_align_t> region(256);
  const auto begin = (reinterpret_cast<std::uintptr_t>(region.get()) + 255) / 256 * 256;
  for (const unsigned shift : {0U, 64U, 128U, 240U}) {
    pretended_base upstream{begin};
    mg::xmalloc<pretended_base> heap(upstream);
    heap.free(make_area(begin + shift));
    std::uintptr_t kept = 0;
    heap.each_kept([&](void* block, std::size_t) { kept = reinterpret_cast<std::uintptr_t>(block); });
    EXPECT_EQ(kept, shift == 0 ? begin : 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(upstream.given_back), shift == 0 ? 0 : begin + shift);
  }
}

TEST_F(xmalloc, reads_no_memory_outside_the_base) {
  device_array<std::max_align_t> region(256);
  const auto at = (reinterpret_cast<std::uintptr_t>(region.get()) + 255) / 256 * 256;
  void* const object = make_area(at);
  pretended_base upstream{reinterpret_cast<std::uintptr_t>(object)};
  mg::xmalloc<pretended_base> heap(upstream);
  heap.free(object);
  EXPECT_EQ(heap.noticed().invalid, 1U);
  EXPECT_EQ(upstream.given_back, nullptr);
}

#endif

TEST_F(xmalloc, numbers_reach_over_the_whole_heap) {
  constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30U;
  EXPECT_EQ(mg::granule_bits_for(1), 4U);
  EXPECT_EQ(mg::granule_bits_for(64 * gibibyte), 4U);
  EXPECT_EQ(mg::granule_bits_for(64 * gibibyte + 1), 5U);
  EXPECT_EQ(mg::granule_bits_for(128 * gibibyte), 5U);
  EXPECT_EQ(mg::granule_bits_for(139 * gibibyte), 6U);
  EXPECT_EQ(mg::granule_bits_for(288 * gibibyte), 7U);
}

TEST_F(xmalloc, takes_no_copy_of_an_object_for_one) {
  const paged_heap heap(mebibyte);
  auto* const one = static_cast<unsigned char*>(heap->allocate(1000));
  auto* const other = static_cast<unsigned char*>(heap->allocate(100));
  std::memcpy(one + 56, other - 8, 72);  // with what lies before it
  heap->free(one + 64);
  heap->free(reinterpret_cast<void*>(heap->upstream().origin()));  // nothing can lie before it
  EXPECT_EQ(heap->noticed().invalid, 2U);
  heap->free(one);
  heap->free(other);
  EXPECT_EQ(heap->noticed().invalid, 2U);
  EXPECT_EQ(heap.wrong({}), "");
}

template <class Heap>
MUSTER_KERNEL void misuse_everything(Heap* heap, object* mine, unsigned char* foreign) {
  const unsigned me = mg::lane_id();
  object& o = mine[me];
  switch (me % 8) {
    case 0: heap->free(o.at + 16); break;  // interior
    case 1: heap->free(o.at + 1); break;   // not even aligned
    case 2: heap->free(foreign); break;    // not of this heap
    case 3: heap->free(nullptr); break;    // allowed
    case 4: heap->free(o.at - 16); break;  // a header
    case 5:
      heap->free(o.at);
      heap->free(o.at);  // twice
      o = {nullptr, 0};
      break;
    default: break;
  }
}

TEST_F(xmalloc, notices_double_frees_and_foreign_blocks) {
  using heap_type = paged_heap<>::type;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    muster_simt::current().seed = seed;
    const paged_heap heap(mebibyte);
    device_array<std::uint64_t> bytes(32);
    device_array<object> all(32);
    alignas(16) unsigned char foreign[64] = {};
    for (unsigned i = 0; i < 32; ++i) bytes[i] = i < 16 ? 100 : 400;  // together and alone
    launch({1}, {32}, allocate<heap_type>, heap.get(), bytes.get(), all.get(), 32U);
    launch({1}, {32}, misuse_everything<heap_type>, heap.get(), all.get(), foreign + 32);
    EXPECT_EQ(heap->noticed().twice, 4U);
    EXPECT_EQ(heap->noticed().invalid, 16U);
    EXPECT_EQ(heap.wrong(alive_of(all)), "");
    EXPECT_TRUE(all_filled(all));
    launch({1}, {32}, free_others<heap_type>, heap.get(), all.get(), 3U, 32U);
    EXPECT_EQ(heap.wrong({}), "");
  }
}

template <class Heap>
MUSTER_KERNEL void free_the_same(Heap* heap, object* all, unsigned many) {
  heap->free(all[mg::lane_id() % many].at);
}

TEST_F(xmalloc, reports_all_but_one_of_simultaneous_frees_of_a_block) {
  using heap_type = paged_heap<>::type;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    muster_simt::current().seed = seed;
    const paged_heap heap(mebibyte);
    device_array<std::uint64_t> bytes(32);
    device_array<object> all(32);
    for (unsigned i = 0; i < 32; ++i) bytes[i] = i < 2 ? 100 : 400;  // two together, others alone
    launch({1}, {32}, allocate<heap_type>, heap.get(), bytes.get(), all.get(), 32U);
    launch({1}, {32}, free_the_same<heap_type>, heap.get(), all.get(), 4U);
    EXPECT_EQ(heap->noticed().twice, 28U);
    EXPECT_EQ(heap->noticed().invalid, 0U);
    for (unsigned i = 0; i < 4; ++i) all[i] = {nullptr, 0};
    EXPECT_EQ(heap.wrong(alive_of(all)), "");
  }
}

#if !defined(__CUDACC__)

template <class Options>
unsigned base_calls(unsigned active, std::uint64_t of_bytes = 4) {
  using heap_type = mg::xmalloc<counting_upstream, Options>;
  device_array<std::max_align_t> region(mebibyte / 16);
  counting_upstream upstream(region.get(), mebibyte);
  heap_type heap(upstream);
  device_array<std::uint64_t> bytes(256);
  device_array<object> all(256);
  for (auto& b : bytes) b = of_bytes;
  for (unsigned time = 0; time < 2; ++time) {
    launch({1}, {256}, allocate<heap_type>, &heap, bytes.get(), all.get(), active);
    launch({1}, {256}, free_others<heap_type>, &heap, all.get(), 0U, 256U);
  }
  return upstream.allocated;
}

TEST_F(xmalloc, asks_the_base_once_for_all_lanes_that_come_together) {
  muster_simt::current().split_one_in = 0;
  for (unsigned active = 1; active <= 32; ++active) {
    EXPECT_EQ(base_calls<base_alone>(active), 2 * 8 * active);
    EXPECT_EQ(base_calls<no_buffers>(active), 2 * 8U);
    EXPECT_EQ(base_calls<mg::xmalloc_options>(active), 8U);
  }
  EXPECT_EQ(base_calls<no_buffers>(32, 256), 2 * 8U);
  EXPECT_EQ(base_calls<no_buffers>(32, 257), 2 * 8 * 32U);  // too large to be together
}

template <class Upstream>
MUSTER_KERNEL void allocate_as_printed(Upstream* upstream, object* out) {
  const unsigned me = number_in_grid();
  const std::uint32_t bytes = 8 + me * 8 % 120;
  auto* const at = static_cast<unsigned char*>(printed::figure4(*upstream, bytes));
  out[me] = {at, bytes};
}

TEST_F(xmalloc, as_figure_4_prints_it_gives_objects_that_overlap) {
#if defined(MUSTER_THREAD_SANITIZER)
  GTEST_SKIP() << "its races are what is wrong with it, and end the program";
#endif
  unsigned wrong = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    muster_simt::current().seed = seed;
    device_array<std::max_align_t> region(mebibyte / 16);
    mg::bump_upstream upstream(region.get(), mebibyte);
    device_array<object> all(128);
    launch({1}, {128}, allocate_as_printed<mg::bump_upstream>, &upstream, all.get());
    wrong += many_of(all) != 128 || alive_of(all).size() != 128 || !muster_test::overlap_in(alive_of(all)).empty();
  }
  EXPECT_GE(wrong, 95U);
}

#endif

}  // namespace
