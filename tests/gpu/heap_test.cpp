// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// gpu::heap. After each kernel, a walk over the heap finds exactly the objects that are alive, none of which overlap,
// and every page either free or in a slab or run.
#include <gtest/gtest.h>
#include <muster/gpu/heap.cuh>

#include "muster_simt/launch.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace mg = muster::gpu;
using muster_simt::device_array;
using muster_simt::launch;
using muster_test::alive_of;
using muster_test::many_of;
using muster_test::number_in_grid;
using muster_test::object;
using muster_test::objects;
using muster_test::value_of;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::size_t kibibyte = 1024, mebibyte = kibibyte * kibibyte;

class heaps : public ::testing::Test {
 protected:
  heaps() { muster_simt::current() = {}; }
  ~heaps() override { muster_simt::current() = {}; }
};

/// The first and the last bytes, which all objects of other sizes would overwrite.
MUSTER_GPU void fill(const object& o, unsigned owner) {
  for (std::uint64_t i = 0; i < o.bytes; i = i == 63 && o.bytes > 128 ? o.bytes - 64 : i + 1)
    o.at[i] = value_of(i, owner);
}
MUSTER_GPU bool is_filled(const object& o, unsigned owner) {
  for (std::uint64_t i = 0; i < o.bytes; i = i == 63 && o.bytes > 128 ? o.bytes - 64 : i + 1)
    if (o.at[i] != value_of(i, owner)) return false;
  return true;
}

// ---------------------------------------------------------------------------------------------------------- kernels

/// Lanes below `active` of each warp ask for `bytes[thread]`, aligned to `alignment[thread]` unless that is null.
template <class Ref>
MUSTER_KERNEL void allocate(Ref heap, const std::uint64_t* bytes, const std::uint64_t* alignment, object* out,
                            unsigned active) {
  const unsigned me = number_in_grid();
  if (mg::lane_id() >= active) return;
  void* const at = alignment == nullptr ? heap.malloc(bytes[me]) : heap.aligned_alloc(alignment[me], bytes[me]);
  out[me] = {static_cast<unsigned char*>(at), at == nullptr ? 0 : bytes[me]};
  fill(out[me], me);
}
/// Each thread frees the object of thread + shift, if `one_in` divides its number.
template <class Ref>
MUSTER_KERNEL void free_others(Ref heap, object* all, unsigned shift, unsigned threads, unsigned one_in,
                               mg::atomic<std::uint32_t>* wrong) {
  const unsigned me = number_in_grid();
  if (me >= threads) return;
  const unsigned its = (me + shift) % threads;
  if (its % one_in != 0) return;
  object& o = all[its];
  if (!is_filled(o, its)) wrong->fetch_add(1, relaxed);
  heap.free(o.at);
  o = {nullptr, 0};
}
/// Each lane allocates, changes the size of, and frees up to four objects, for itself; lanes end at different times.
template <class Ref>
MUSTER_KERNEL void churn(Ref heap, object* all, unsigned rounds, unsigned most_bytes, std::uint32_t seed,
                         mg::atomic<std::uint32_t>* wrong) {
  const unsigned me = number_in_grid();
  std::uint32_t dice = seed + me * 0x9e3779b9U;
  for (unsigned round = 0; round < rounds + me % 5; ++round) {
    dice = dice * 1664525U + 1013904223U;
    object& mine = all[4 * me + (dice >> 20U) % 4];
    const unsigned owner = static_cast<unsigned>(&mine - all);
    const std::uint64_t most = (dice >> 27U) == 0 ? std::uint64_t{most_bytes} * 64 : most_bytes >> (dice >> 24U) % 8;
    const std::uint64_t bytes = 1 + (dice >> 8U) % (most + 1);
    if (!is_filled(mine, owner)) wrong->fetch_add(1, relaxed);
    if (mine.at != nullptr && (dice >> 28U) < 9) {
      heap.free(mine.at);
      mine = {nullptr, 0};
    } else if (mine.at == nullptr) {
      auto* const at = static_cast<unsigned char*>(heap.malloc(bytes));
      mine = {at, at == nullptr ? 0 : bytes};
    } else {
      auto* const at = static_cast<unsigned char*>(heap.realloc(mine.at, bytes));
      if (at == nullptr) continue;
      for (std::uint64_t i = 0; i < bytes && i < mine.bytes && i < 64; ++i)
        if (at[i] != value_of(i, owner)) wrong->fetch_add(1, relaxed);
      mine = {at, bytes};
    }
    fill(mine, owner);
  }
}
template <class Ref>
MUSTER_KERNEL void free_all_of(Ref heap, void* const* pointers) {
  heap.free(pointers[number_in_grid()]);
}
/// Each lane frees one of the last objects of a full heap, and takes it again.
template <class Ref>
MUSTER_KERNEL void take_again(Ref heap, object* all, std::uint64_t bytes, unsigned rounds, std::uint32_t* failed) {
  object& mine = all[number_in_grid()];
  for (unsigned round = 0; round < rounds && mine.at != nullptr; ++round) {
    heap.free(mine.at);
    mine.at = static_cast<unsigned char*>(heap.malloc(bytes));
    if (mine.at == nullptr) failed[number_in_grid()] = 1;
  }
}

/// A lane takes an object of each size, looks at it, and frees it.
MUSTER_KERNEL void take_each_size(mg::heap_ref heap, const std::uint64_t* sizes, unsigned many,
                                  std::uint64_t* wrong_size) {
  for (unsigned i = 0; i < many && number_in_grid() == 0; ++i) {
    auto* const at = static_cast<unsigned char*>(heap.malloc(sizes[i]));
    bool right = at != nullptr;
    if (right) {
      at[0] = at[sizes[i] - 1] = 1;
      const std::uint64_t usable = heap.usable_size(at), more = sizes[i] / 8;
      right = usable >= sizes[i] && usable - sizes[i] <= (more > 15 ? more : 15) && heap.owns(at + usable - 1);
    }
    if (!right) *wrong_size = sizes[i];
    heap.free(at);
  }
}

// ------------------------------------------------------------------------------------------------------------ checks

/// A heap with small pages, so that a small one has many, in memory that the host reads as well.
template <unsigned PageBits = 12>
struct small_heap {
  explicit small_heap(std::size_t bytes, std::size_t skipped = 0)
      : memory(bytes + skipped), all(memory.get() + skipped, bytes) {}
  device_array<unsigned char> memory;
  mg::basic_heap<PageBits> all;

  auto ref() const { return all.ref(); }
};

struct not_counted {
  MUSTER_GPU void operator()(void*, std::size_t) const {}
};
struct sum_of_bytes {
  std::uint64_t* sum;
  MUSTER_GPU void operator()(std::size_t bytes) const { *sum += bytes; }
};

/// The first error of a heap that no kernel uses; empty if there is none.
template <unsigned PageBits>
std::string wrong_in(const mg::basic_heap<PageBits>& heap, const objects& alive) {
  std::ostringstream text;
  std::uintptr_t end = 0;
  std::vector<mg::live_object> found = heap.leaks();
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  auto expected = alive.begin();
  for (const mg::live_object& o : found) {
    const auto at = reinterpret_cast<std::uintptr_t>(o.at);
    if (at < end) text << "two objects overlap; ";
    end = at + o.bytes;
    if (expected == alive.end() || expected->first != at) {
      text << "an object at " << at << " is taken for alive; ";
      break;
    }
    if (expected->second > o.bytes) text << "an object has " << o.bytes << " bytes, not " << expected->second << "; ";
    if (!heap.owns(o.at) || !heap.owns(reinterpret_cast<void*>(end - 1))) text << "an object is outside; ";
    ++expected;
  }
  if (found.size() != alive.size()) text << found.size() << " objects are alive, not " << alive.size() << "; ";
  std::uint64_t in_slabs = 0;
  auto& state = heap.ref().state();
  for (std::uint32_t p = state.plan().first; p < state.plan().end; ++p)
    state.visit(p, not_counted{}, sum_of_bytes{&in_slabs});
  if (!state.is_consistent()) text << "hints do not agree with what they are about; ";
  const mg::heap_stats stats = heap.stats();
  if (stats.free_bytes + in_slabs != stats.bytes)
    text << "of " << stats.bytes << " bytes, " << stats.free_bytes << " are free and " << in_slabs << " used; ";
  if (stats.peak_bytes < stats.bytes - stats.free_bytes) text << "the peak is too low; ";
  return text.str();
}

template <unsigned PageBits>
void expect_no_object(mg::basic_heap<PageBits>& heap) {
  ASSERT_EQ(wrong_in(heap, {}), "");
  heap.trim();
  const mg::heap_stats stats = heap.stats();
  ASSERT_EQ(stats.free_bytes, stats.bytes);
  ASSERT_EQ(stats.slabs, 0U);
}
template <unsigned PageBits>
void expect_no_misuse(const mg::basic_heap<PageBits>& heap) {
  const mg::heap_stats stats = heap.stats();
  ASSERT_EQ(stats.freed_twice, 0U);
  ASSERT_EQ(stats.freed_invalid, 0U);
}

/// Threads that allocate, once, and free each other's.
template <unsigned PageBits>
void allocate_and_free(mg::basic_heap<PageBits>& heap, mg::index3 grid, mg::index3 block, unsigned active,
                       std::uint64_t (*bytes_of)(unsigned), std::uint64_t (*alignment_of)(unsigned) = nullptr) {
  using ref = mg::basic_heap_ref<PageBits>;
  const std::size_t in_block = std::size_t{block.x} * block.y * block.z, threads = grid.x * in_block;
  device_array<std::uint64_t> bytes(threads), alignment(threads);
  device_array<object> all(threads);
  device_array<mg::atomic<std::uint32_t>> wrong(1);
  std::size_t wanted = 0;
  for (unsigned i = 0; i < threads; ++i) {
    bytes[i] = bytes_of(i);
    if (alignment_of != nullptr) alignment[i] = alignment_of(i);
    wanted += i % in_block % 32 < active && bytes[i] != 0;
  }
  const std::uint64_t* const alignments = alignment_of == nullptr ? nullptr : alignment.get();
  launch(grid, block, allocate<ref>, heap.ref(), bytes.get(), alignments, all.get(), active);
  ASSERT_EQ(many_of(all), wanted);
  const objects alive = alive_of(all);
  ASSERT_EQ(alive.size(), wanted);
  for (unsigned i = 0; i < threads && alignment_of != nullptr; ++i)
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(all[i].at) % alignment[i], 0U) << alignment[i];
  ASSERT_EQ(wrong_in(heap, alive), "");
  launch(grid, block, free_others<ref>, heap.ref(), all.get(), 5U, static_cast<unsigned>(threads), 1U, wrong.get());
  ASSERT_EQ(wrong[0].load(relaxed), 0U);
  ASSERT_NO_FATAL_FAILURE(expect_no_object(heap));
  ASSERT_NO_FATAL_FAILURE(expect_no_misuse(heap));
}

// ------------------------------------------------------------------------------------------------------------- sizes

template <unsigned PageBits>
void expect_sizes() {
  using classes = mg::size_classes<PageBits>;
  unsigned last = 0;
  for (std::size_t bytes = 1; bytes <= classes::largest; ++bytes) {
    const unsigned c = classes::of(bytes);
    ASSERT_TRUE(c == last || c == last + 1);
    ASSERT_GE(classes::size(c), bytes);
    ASSERT_LE(classes::size(c) - bytes, std::max<std::size_t>(15, bytes / 8));
    ASSERT_EQ(classes::size(c) % 16, 0U);
    last = c;
  }
  EXPECT_EQ(last + 1, classes::many);
  EXPECT_EQ(classes::of(1), 0U);
  for (const std::uint64_t pages : {16U, 1000U, 1U << 20U}) {
    const classes its = classes::for_pages(pages);
    for (unsigned c = 0; c < classes::many; ++c) {
      const std::size_t slab = its.pages(c) * classes::page;
      ASSERT_EQ(its.objects(c), slab / classes::size(c));
      ASSERT_LE(its.words(c), 64U);
      ASSERT_LE(its.words(c), its.pages(c) * mg::heap_plan<PageBits>::words_of_page);
      std::uint32_t bits = 0;
      for (unsigned w = 0; w < its.words(c); ++w) bits += mg::count_bits(its.objects_of(c, w));
      ASSERT_EQ(bits, its.objects(c));
      ASSERT_EQ(its.objects_of(c, its.words(c)), 0U);
    }
  }
  for (std::size_t alignment = 16; alignment <= classes::largest; alignment *= 2)
    for (std::size_t bytes = 1; bytes <= classes::largest; bytes += bytes / 7 + 1) {
      const std::size_t size = classes::size(classes::of(bytes, alignment));
      ASSERT_GE(size, bytes);
      ASSERT_EQ(size % alignment, 0U);
    }
}
TEST_F(heaps, rounds_sizes_up_by_an_eighth_at_most) {
  expect_sizes<12>();
  expect_sizes<16>();
}

// ----------------------------------------------------------------------------------------------------- the bit tree

TEST_F(heaps, finds_the_next_member_of_a_set) {
  EXPECT_EQ(mg::tree_shape::of(std::uint32_t{1} << 31U).levels, mg::tree_shape::most_levels);
  for (const std::uint32_t many : {1U, 63U, 64U, 65U, 4096U, 4097U, 300'000U}) {
    const auto shape = mg::tree_shape::of(many);
    device_array<mg::atomic<std::uint64_t>> words(shape.words);
    mg::bit_tree tree(shape, words.get());
    EXPECT_EQ(tree.find(0), mg::bit_tree::none);
    EXPECT_EQ(tree.find(many - 1), mg::bit_tree::none);
    std::vector<std::uint32_t> members;
    for (std::uint32_t n = 0; n < many; n += n / 3 + 1) members.push_back(n);
    for (const std::uint32_t n : members) EXPECT_FALSE(tree.change(n, true));
    for (const std::uint32_t n : members) EXPECT_TRUE(tree.change(n, true));
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(tree.find(members[i]), members[i]);
      const std::uint32_t next = i + 1 == members.size() ? mg::bit_tree::none : members[i + 1];
      if (members[i] + 1 == many) continue;
      EXPECT_EQ(tree.find(members[i] + 1), next);
      EXPECT_EQ(tree.find_around(members[i] + 1), next == mg::bit_tree::none ? 0 : next);
    }
    for (const std::uint32_t n : members) {
      EXPECT_EQ(tree.find(0), n);
      EXPECT_TRUE(tree.change(n, false));
    }
    EXPECT_EQ(tree.find(0), mg::bit_tree::none);
    for (const auto& word : words) EXPECT_EQ(word.load(relaxed), 0U);
    for (std::uint32_t level = 0; level < shape.levels; ++level)
      for (std::uint32_t w = 0; w < (shape.bits[level] + 63) / 64; ++w)
        words[shape.begin[level] + w].store(shape.word_of_range(level, w, many / 3, many / 2 + 1), relaxed);
    for (std::uint32_t n = 0; n < many; n += n / 50 + 1)
      ASSERT_EQ(tree.find(n), n > many / 2 ? mg::bit_tree::none : std::max(n, many / 3)) << many;
  }
}

// ------------------------------------------------------------------------------------------------- allocate and free

TEST_F(heaps, serves_every_number_of_lanes) {
  small_heap heap(mebibyte);
  for (unsigned active = 1; active <= 32; ++active) {
    muster_simt::current().seed = active;
    allocate_and_free(heap.all, {3}, {64}, active, [](unsigned i) { return std::uint64_t{1} + i * 37 % 200; });
  }
}

TEST_F(heaps, serves_every_shape_of_block) {
  small_heap heap(4 * mebibyte);
  for (const mg::index3 block :
       {mg::index3{1}, mg::index3{33}, mg::index3{7, 3, 5}, mg::index3{2, 2, 32}, mg::index3{512}})
    allocate_and_free(heap.all, {2}, block, 32, [](unsigned i) { return std::uint64_t{4} << i % 5; });
}

TEST_F(heaps, serves_small_and_large_and_nothing_side_by_side) {
  small_heap heap(32 * mebibyte);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    muster_simt::current().seed = seed;
    muster_simt::current().multiprocessors = 1 + seed % 2;
    allocate_and_free(heap.all, {2}, {96}, 32, [](unsigned i) -> std::uint64_t {
      constexpr std::uint64_t sizes[] = {0, 4, 256, 257, 16, 5000, 1, 32768, 32769, 130'000, 31, 300'000};
      return sizes[i * 7 % 12];
    });
  }
}

// Wherever the region begins in a chunk, all of its whole pages are used, and an object of each size fits.
TEST_F(heaps, uses_all_pages_of_a_region_and_serves_every_size) {
  for (const std::size_t skipped : {0U, 64U, 4096U, 4160U, 100'032U}) {
    small_heap heap(2 * mebibyte - 12'345, skipped);
    const mg::heap_stats stats = heap.all.stats();
    EXPECT_GE(stats.bytes + 3 * 4096 + heap.ref().state().plan().own_bytes(), 2 * mebibyte - 12'345);
    EXPECT_EQ(stats.bytes, stats.free_bytes);
    for (std::uint64_t bytes = 1; bytes <= mebibyte; bytes += bytes / 5 + 1) {
      void* const at = heap.ref().malloc(bytes);
      ASSERT_NE(at, nullptr) << bytes;
      ASSERT_GE(heap.ref().usable_size(at), bytes);
      ASSERT_LE(heap.ref().usable_size(at), bytes + std::max<std::size_t>(bytes <= 32768 ? bytes / 8 : 4096, 15));
      ASSERT_EQ(wrong_in(heap.all, {{reinterpret_cast<std::uintptr_t>(at), bytes}}), "");
      heap.ref().free(at);
      ASSERT_NO_FATAL_FAILURE(expect_no_object(heap.all));
    }
  }
}

TEST_F(heaps, serves_objects_of_up_to_a_gibibyte) {
  mg::heap heap(1280 * mebibyte);
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 1; size <= 1024 * mebibyte; size *= 2)
    for (const std::uint64_t one : {size - 1, size, size + 1, size + size / 3})
      if (one != 0 && one <= 1024 * mebibyte) sizes.push_back(one);
  device_array<std::uint64_t> all(sizes.size()), wrong_size(1);
  for (std::size_t i = 0; i < sizes.size(); ++i) all[i] = sizes[i];
  launch({1}, {32}, take_each_size, heap.ref(), all.get(), static_cast<unsigned>(sizes.size()), wrong_size.get());
  EXPECT_EQ(wrong_size[0], 0U);
  EXPECT_TRUE(heap.leaks().empty());
  heap.trim();
  const mg::heap_stats stats = heap.stats();
  EXPECT_EQ(stats.free_bytes, stats.bytes);
  EXPECT_EQ(stats.failed + stats.freed_twice + stats.freed_invalid, 0U);
  EXPECT_GE(stats.peak_bytes, 1024 * mebibyte);
}

TEST_F(heaps, aligns_up_to_a_chunk) {
  small_heap heap(24 * mebibyte);
  for (unsigned seed = 1; seed <= 8; ++seed) {
    muster_simt::current().seed = seed;
    SCOPED_TRACE(seed);
    allocate_and_free(
        heap.all, {1}, {96}, 32, [](unsigned i) { return std::uint64_t{1} + i * i * 17 % 60'000; },
        [](unsigned i) { return std::uint64_t{1} << i % 18; });
  }
  const auto ref = heap.ref();
  for (std::uint64_t bytes : {1U, 40'000U, 131'072U, 200'000U}) {
    void* const at = ref.aligned_alloc(131'072, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 131'072, 0U);
    EXPECT_NE(at, nullptr);
    ref.free(at);
  }
  EXPECT_EQ(ref.aligned_alloc(262'144, 1), nullptr);
  EXPECT_EQ(ref.aligned_alloc(48, 1), nullptr);
  EXPECT_EQ(ref.aligned_alloc(64, 0), nullptr);
  EXPECT_EQ(ref.aligned_alloc(0, 64), nullptr);
  expect_no_object(heap.all);
}

TEST_F(heaps, returns_null_for_too_large_a_size) {
  small_heap heap(mebibyte);
  for (const std::uint64_t huge : {std::uint64_t{1} << 20U, std::uint64_t{1} << 32U, ~std::uint64_t{0},
                                   ~std::uint64_t{0} - 4095, std::uint64_t{1} << 44U, std::uint64_t{1} << 63U}) {
    EXPECT_EQ(heap.ref().malloc(huge), nullptr);
    EXPECT_EQ(heap.ref().aligned_alloc(4096, huge), nullptr);
    EXPECT_EQ(heap.ref().calloc(huge, 2), nullptr);
    EXPECT_EQ(heap.ref().calloc(2, huge), nullptr);
  }
  EXPECT_EQ(heap.ref().malloc(0), nullptr);
  EXPECT_EQ(heap.ref().calloc((std::uint64_t{1} << 60U) + 1, 16), nullptr);  // 16 bytes, modulo 2^64
  EXPECT_EQ(heap.ref().calloc(0, 8), nullptr);
  EXPECT_EQ(heap.ref().calloc(8, 0), nullptr);
  EXPECT_GE(heap.all.stats().failed, 6U);
  expect_no_object(heap.all);
}

TEST_F(heaps, clears_and_moves_objects) {
  small_heap heap(4 * mebibyte);
  const auto ref = heap.ref();
  auto* dirty = static_cast<unsigned char*>(ref.malloc(1000));
  for (unsigned i = 0; i < 1000; ++i) dirty[i] = 7;
  ref.free(dirty);
  auto* const clean = static_cast<unsigned char*>(ref.calloc(250, 4));
  EXPECT_EQ(clean, dirty);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(clean[i], 0);
  for (unsigned i = 0; i < 1000; ++i) clean[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(ref.realloc(clean, ref.usable_size(clean)), clean);
  auto* at = clean;
  std::size_t kept = 1000;
  for (const std::size_t bytes : {1001U, 5000U, 300'000U, 40'000U, 999U, 3U, 4U, 16U, 17U}) {
    at = static_cast<unsigned char*>(ref.realloc(at, bytes));
    ASSERT_NE(at, nullptr);
    kept = std::min(kept, bytes);
    for (unsigned i = 0; i < kept; ++i) ASSERT_EQ(at[i], static_cast<unsigned char>(i)) << bytes;
    ASSERT_LE(ref.usable_size(at), bytes + std::max<std::size_t>(bytes <= 32768 ? bytes / 8 : 4096, 15));
    ASSERT_EQ(wrong_in(heap.all, {{reinterpret_cast<std::uintptr_t>(at), bytes}}), "");
  }
  EXPECT_EQ(ref.realloc(at, 1U << 30U), nullptr);
  EXPECT_NE(ref.usable_size(at), 0U);  // it stays
  EXPECT_EQ(ref.realloc(at, 0), nullptr);
  expect_no_object(heap.all);
  EXPECT_EQ(ref.realloc(at, 10), nullptr);
  EXPECT_EQ(heap.all.stats().freed_twice + heap.all.stats().freed_invalid, 1U);
  at = static_cast<unsigned char*>(ref.realloc(nullptr, 10));
  EXPECT_NE(at, nullptr);
  ref.free(at);
  expect_no_object(heap.all);
}

// -------------------------------------------------------------------------------------------------------- schedules

template <unsigned PageBits>
void churn_once(mg::basic_heap<PageBits>& heap, std::uint32_t seed, mg::index3 grid, mg::index3 block, unsigned rounds,
                unsigned most_bytes, device_array<object>& all) {
  using ref = mg::basic_heap_ref<PageBits>;
  device_array<mg::atomic<std::uint32_t>> wrong(1);
  launch(grid, block, churn<ref>, heap.ref(), all.get(), rounds, most_bytes, seed, wrong.get());
  ASSERT_EQ(wrong[0].load(relaxed), 0U) << "seed " << seed;
  const objects alive = alive_of(all);
  ASSERT_EQ(alive.size(), many_of(all));
  ASSERT_EQ(wrong_in(heap, alive), "") << "seed " << seed;
}

/// On heaps that are large, and on some that run out of memory all the time.
void churn_many(unsigned seeds, unsigned rounds) {
  for (const std::size_t bytes : {8 * mebibyte, 700 * kibibyte, 300 * kibibyte}) {
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
      muster_simt::current().seed = seed;
      muster_simt::current().multiprocessors = 1 + seed % 3;
      muster_simt::current().resident = 3;
      muster_simt::current().split_one_in = seed % 4;
      muster_simt::current().switch_one_in = 1 + seed % 5;
      small_heap heap(bytes);
      device_array<object> all(std::size_t{4} * 3 * 64);
      // The same objects live on from kernel to kernel.
      for (unsigned kernel = 0; kernel < 3; ++kernel)
        ASSERT_NO_FATAL_FAILURE(
            churn_once(heap.all, 3 * seed + kernel, {3}, {64}, rounds, seed % 2 == 0 ? 600 : 5000, all));
      for (object& o : all) heap.ref().free(o.at);
      ASSERT_NO_FATAL_FAILURE(expect_no_object(heap.all));
      ASSERT_NO_FATAL_FAILURE(expect_no_misuse(heap.all));
    }
  }
}
TEST_F(heaps, survives_churn_under_many_schedules) { churn_many(12, 12); }
TEST_F(heaps, nightly_survives_churn_under_a_thousand_schedules) { churn_many(1000, 25); }

// Pages change their use all the time: 10'000'000 operations, and no page is lost.
TEST_F(heaps, nightly_survives_ten_million_operations) {
  muster_simt::current().multiprocessors = 2;
  muster_simt::current().resident = 4;
  muster_simt::current().switch_one_in = 4;
  small_heap heap(3 * mebibyte);
  device_array<object> all(std::size_t{4} * 8 * 128);
  for (unsigned kernel = 0; kernel < 100; ++kernel) {
    muster_simt::current().seed = kernel + 1;
    ASSERT_NO_FATAL_FAILURE(churn_once(heap.all, kernel, {8}, {128}, 100, 4000, all));
  }
  for (object& o : all) heap.ref().free(o.at);
  ASSERT_NO_FATAL_FAILURE(expect_no_object(heap.all));
  ASSERT_NO_FATAL_FAILURE(expect_no_misuse(heap.all));
}

// A heap is full but for the object of each lane, which it frees and takes again, while others do.
TEST_F(heaps, finds_the_last_free_object) {
  using ref = mg::basic_heap_ref<12>;
  for (const std::uint64_t bytes : {16U, 400U, 6000U, 40'000U}) {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      muster_simt::current() = {.seed = seed};
      small_heap heap(400 * kibibyte);
      std::vector<object> all;
      while (void* const at = heap.ref().malloc(bytes)) all.push_back({static_cast<unsigned char*>(at), 0});
      const unsigned lanes = std::min<unsigned>(static_cast<unsigned>(all.size()), 4);
      device_array<object> last(lanes);
      device_array<std::uint32_t> failed(lanes);
      for (unsigned i = 0; i < lanes; ++i) last[i] = all[all.size() - 1 - (i % 2 == 0 ? i : all.size() - 1 - i)];
      launch({lanes}, {1}, take_again<ref>, heap.ref(), last.get(), bytes, 20U, failed.get());
      for (const std::uint32_t f : failed) ASSERT_EQ(f, 0U) << bytes << " bytes, seed " << seed;
      EXPECT_EQ(heap.all.stats().objects, all.size());
    }
  }
}

// ------------------------------------------------------------------------------------------------------------- memory

/// All objects of a size that a heap has room for.
template <unsigned PageBits>
objects fill_up(const mg::basic_heap<PageBits>& heap, std::uint64_t size) {
  objects all;
  while (void* const at = heap.ref().malloc(size)) all[reinterpret_cast<std::uintptr_t>(at)] = size;
  return all;
}

// By one size; then of each two objects one is freed, and the heap filled again; and at last by another size.
TEST_F(heaps, can_be_filled_and_refilled) {
  for (const std::uint64_t size : {16U, 64U, 1024U, 4096U, 65536U}) {
    const std::size_t bytes = size == 16 ? 2 * mebibyte : 16 * mebibyte;
    device_array<unsigned char> memory(bytes);
    mg::heap heap(memory.get(), bytes);
    const auto percent_of = [&](std::size_t many, std::uint64_t each) { return 100 * many * each / bytes; };
    objects all = fill_up(heap, size);
    EXPECT_GE(percent_of(all.size(), size), size == 16 ? 90U : 97U) << size;  // a page is 64 KiB
    EXPECT_EQ(heap.stats().object_bytes, all.size() * size);
    std::size_t freed = 0;
    for (auto it = all.begin(); it != all.end(); ++freed) {
      heap.ref().free(reinterpret_cast<void*>(it->first));
      it = all.erase(it);
      if (it != all.end()) ++it;
    }
    const objects more = fill_up(heap, size);
    EXPECT_EQ(more.size(), freed) << size;
    all.insert(more.begin(), more.end());
    EXPECT_EQ(wrong_in(heap, all), "");
    for (const auto& [at, its] : all) heap.ref().free(reinterpret_cast<void*>(at));
    const std::uint64_t other = size == 64 ? 1000 : 320;
    EXPECT_GE(percent_of(fill_up(heap, other).size(), other), size == 16 ? 85U : 93U) << size;
  }
}

// Sizes at random: the live bytes when the first lane gets null are most of the heap.
TEST_F(heaps, mixes_sizes_in_a_small_heap) {
  small_heap<16> heap(32 * mebibyte);
  std::uint32_t dice = 1;
  std::uint64_t got = 0;
  for (;;) {
    dice = dice * 1664525U + 1013904223U;
    const std::uint64_t bytes = 16 + (dice >> 8U) % 8177;
    if (heap.ref().malloc(bytes) == nullptr) break;
    got += bytes;
  }
  EXPECT_GE(got, 24 * mebibyte);
}

TEST_F(heaps, serves_from_larger_objects_when_it_is_full) {
  small_heap heap(mebibyte);
  objects all = fill_up(heap.all, 1024);
  // And pages that are too few for a slab of the larger objects.
  for (const std::uint64_t bytes : {440U, 900U}) all.merge(fill_up(heap.all, bytes));
  EXPECT_EQ(heap.ref().malloc(900), nullptr);
  const auto large = std::find_if(all.begin(), all.end(), [](const auto& o) { return o.second == 1024; });
  void* const one = reinterpret_cast<void*>(large->first);
  heap.ref().free(one);
  EXPECT_EQ(heap.ref().malloc(440), nullptr);
  EXPECT_EQ(heap.ref().malloc(900), one);
  EXPECT_EQ(heap.ref().usable_size(one), 1024U);
  EXPECT_EQ(heap.ref().malloc(900), nullptr);
  EXPECT_EQ(wrong_in(heap.all, all), "");
}

// Larger objects serve only if they are aligned as well.
TEST_F(heaps, aligns_in_a_full_heap) {
  small_heap heap(mebibyte);
  const auto ref = heap.ref();
  std::vector<void*> of_80, of_96;
  for (unsigned i = 0; i < 10; ++i) {
    of_80.push_back(ref.malloc(80));
    of_96.push_back(ref.malloc(96));
  }
  fill_up(heap.all, 16);
  ref.free(of_80[3]);
  EXPECT_EQ(ref.aligned_alloc(32, 64), nullptr);
  EXPECT_EQ(ref.aligned_alloc(1, 64), of_80[3]);
  ref.free(of_96[4]);
  EXPECT_EQ(ref.aligned_alloc(64, 64), nullptr);
  EXPECT_EQ(ref.aligned_alloc(32, 64), of_96[4]);
}

// Active slabs keep their pages when they are empty, until others need these.
TEST_F(heaps, uses_the_pages_of_empty_slabs) {
  small_heap heap(2 * mebibyte);
  const std::size_t fresh = fill_up(heap.all, 48).size();
  heap.all.reset();
  std::vector<void*> all;
  for (std::size_t bytes = 16; bytes <= 2048; bytes *= 2) all.push_back(heap.ref().malloc(bytes));
  for (void* const at : all) heap.ref().free(at);
  EXPECT_LT(heap.all.stats().free_bytes, heap.all.stats().bytes);
  EXPECT_EQ(wrong_in(heap.all, {}), "");
  EXPECT_EQ(fill_up(heap.all, 48).size(), fresh);
}

TEST_F(heaps, counts_pages_and_lanes_that_got_nothing) {
  small_heap heap(2 * mebibyte);
  const std::size_t all = heap.all.stats().bytes;
  heap.ref().free(heap.ref().malloc(std::size_t{20} * 4096));
  void* const run = heap.ref().malloc(std::size_t{10} * 4096);
  EXPECT_EQ(heap.all.stats().peak_bytes, 20 * 4096U);
  EXPECT_EQ(heap.all.stats().free_bytes, all - std::size_t{10} * 4096);
  heap.ref().free(heap.ref().malloc(100));  // its slab stays until a trim
  const std::size_t slab = all - std::size_t{10} * 4096 - heap.all.stats().free_bytes;
  EXPECT_GT(slab, 0U);
  EXPECT_EQ(heap.all.stats().slabs, 2U);
  EXPECT_EQ(heap.all.trim(), slab);
  EXPECT_EQ(heap.all.trim(), 0U);
  heap.ref().free(run);
  EXPECT_EQ(heap.all.stats().failed, 0U);
  fill_up(heap.all, 100);
  for (const std::uint64_t bytes : {100U, 33'000U}) {
    const std::uint64_t before = heap.all.stats().failed;
    device_array<std::uint64_t> wanted(96);
    device_array<object> none(96);
    for (auto& b : wanted) b = bytes;
    launch({1}, {96}, allocate<mg::basic_heap_ref<12>>, heap.ref(), wanted.get(),
           static_cast<const std::uint64_t*>(nullptr), none.get(), 32U);
    EXPECT_EQ(many_of(none), 0U);
    EXPECT_EQ(heap.all.stats().failed - before, 96U) << bytes;
  }
}

template <class Ref>
MUSTER_GPU void take_in_rounds(const Ref& heap, std::uint64_t bytes, unsigned rounds, std::uint32_t* failed) {
  for (unsigned round = 0; round < rounds; ++round) {
    void* const at = heap.malloc(bytes);
    if (at == nullptr) failed[number_in_grid()] = 1;
    heap.free(at);
  }
}

template <class Ref>
MUSTER_KERNEL void take_and_free(Ref heap, std::uint64_t bytes, unsigned rounds, std::uint32_t* failed) {
  take_in_rounds(heap, bytes, rounds, failed);
}

// A few objects to a slab, so that slabs are opened and closed all the time. There is room for the object of each lane.
TEST_F(heaps, opens_and_closes_slabs_while_others_use_them) {
  for (const std::uint64_t bytes : {20'000U, 30'000U}) {
    for (unsigned seed = 1; seed <= 40; ++seed) {
      muster_simt::current() = {.seed = seed, .resident = 8, .switch_one_in = 1 + seed % 3};
      small_heap heap(mebibyte);
      device_array<std::uint32_t> failed(6);
      launch({6}, {1}, take_and_free<mg::basic_heap_ref<12>>, heap.ref(), bytes, 15U, failed.get());
      for (const std::uint32_t f : failed) ASSERT_EQ(f, 0U) << "seed " << seed;
      ASSERT_NO_FATAL_FAILURE(expect_no_object(heap.all));
      ASSERT_NO_FATAL_FAILURE(expect_no_misuse(heap.all));
    }
  }
}

/// As take_and_free(), but for the first block, which closes slabs.
template <class Ref>
MUSTER_KERNEL void take_while_one_trims(Ref heap, std::uint64_t bytes, unsigned rounds, std::uint32_t* failed) {
  if (mg::block_index().x != 0) return take_in_rounds(heap, bytes, rounds, failed);
  const auto& plan = heap.state().plan();
  for (unsigned round = 0; round < rounds; ++round)
    for (std::uint32_t page = plan.first; page < plan.first + 16; ++page) heap.state().trim(page);
}

TEST_F(heaps, can_be_trimmed_while_others_use_it) {
  for (const std::uint64_t bytes : {100U, 3000U}) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      muster_simt::current() = {.seed = seed, .resident = 8, .switch_one_in = 1 + seed % 2};
      small_heap heap(600 * kibibyte);
      device_array<std::uint32_t> failed(6);
      launch({6}, {1}, take_while_one_trims<mg::basic_heap_ref<12>>, heap.ref(), bytes, 20U, failed.get());
      for (const std::uint32_t f : failed) ASSERT_EQ(f, 0U) << "seed " << seed;
      ASSERT_NO_FATAL_FAILURE(expect_no_object(heap.all));
      ASSERT_NO_FATAL_FAILURE(expect_no_misuse(heap.all));
    }
  }
}

// A lane that closes the only slab finds it in use again; meanwhile, the other may have found no room there.
TEST_F(heaps, keeps_its_hints_when_a_slab_is_not_closed) {
  device_array<unsigned char> memory(512 * kibibyte);
  // At the beginning of a chunk, so that all runs are the same.
  const auto at = (reinterpret_cast<std::uintptr_t>(memory.get()) / (128 * kibibyte) + 1) * (128 * kibibyte);
  mg::basic_heap<12> heap(reinterpret_cast<void*>(at), 300 * kibibyte);
  device_array<std::uint32_t> failed(2);
  for (const unsigned bytes : {500U, 2000U}) {
    for (unsigned seed = 1; seed <= 1500; ++seed) {
      muster_simt::current() = {.seed = seed, .switch_one_in = 3};
      launch({2}, {1}, take_while_one_trims<mg::basic_heap_ref<12>>, heap.ref(), bytes, 6U, failed.get());
      ASSERT_EQ(failed[1], 0U) << "seed " << seed;
      ASSERT_TRUE(heap.ref().state().is_consistent()) << "seed " << seed;
    }
  }
}

/// The two blocks run at the same time, on different multiprocessors.
MUSTER_KERNEL void allocate_side_by_side(mg::heap_ref heap, mg::atomic<std::uint32_t>* begun, object* out) {
  if (mg::thread_index().x == 0) begun->fetch_add(1, relaxed);
  while (begun->load(relaxed) < 2) {
  }
  out[number_in_grid()] = {static_cast<unsigned char*>(heap.malloc(16)), 16};
}

TEST_F(heaps, has_slabs_for_each_multiprocessor) {
  muster_simt::current().multiprocessors = 2;
  muster_simt::current().resident = 1;
  device_array<mg::atomic<std::uint32_t>> begun(1);
  device_array<object> all(std::size_t{2} * 256);
  const mg::heap heap(64 * mebibyte);
  launch({2}, {256}, allocate_side_by_side, heap.ref(), begun.get(), all.get());
  ASSERT_EQ(alive_of(all).size(), all.size());
  std::set<std::uintptr_t> pages[2];
  for (unsigned i = 0; i < all.size(); ++i) pages[i / 256].insert(reinterpret_cast<std::uintptr_t>(all[i].at) >> 16U);
  for (const std::uintptr_t page : pages[0]) EXPECT_FALSE(pages[1].contains(page));
}

// The last chunk has fewer pages than the others, but is not used before them.
TEST_F(heaps, is_filled_from_one_end) {
  device_array<unsigned char> memory(8 * mebibyte);
  const auto at = (reinterpret_cast<std::uintptr_t>(memory.get()) / (128 * kibibyte) + 1) * (128 * kibibyte);
  mg::basic_heap<12> heap(reinterpret_cast<void*>(at), 7 * mebibyte + 64 * kibibyte);
  for (const std::uint64_t bytes : {100U, 3000U}) {
    std::uintptr_t least = ~std::uintptr_t{0}, most = 0;
    for (unsigned i = 0; i < mebibyte / bytes; ++i) {
      const auto one = reinterpret_cast<std::uintptr_t>(heap.ref().malloc(bytes));
      least = std::min(least, one);
      most = std::max(most, one);
    }
    EXPECT_LE(most - least, 2 * mebibyte);
    heap.reset();
  }
}

TEST_F(heaps, returns_whole_chunks_for_large_objects) {
  small_heap heap(2 * mebibyte);
  std::vector<void*> all;
  while (void* const at = heap.ref().malloc(48)) all.push_back(at);
  EXPECT_EQ(heap.ref().malloc(500'000), nullptr);
  for (void* const at : all) heap.ref().free(at);
  void* const large = heap.ref().malloc(1'500'000);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(heap.ref().usable_size(large), (1'500'000 + 4095) / 4096 * 4096U);
  heap.ref().free(large);
  expect_no_object(heap.all);
}

#if !defined(__CUDACC__)
// The figures that docs/design/gpu.md has.
TEST_F(heaps, needs_few_atomics_and_finds_out_quickly_that_it_is_full) {
  constexpr unsigned threads = 4096;
  muster_simt::current() = {.multiprocessors = 1, .resident = 4, .split_one_in = 0};
  device_array<std::uint64_t> bytes(threads);
  const auto counted = [&](std::size_t region, bool full, std::uint64_t (*bytes_of)(unsigned)) {
    mg::heap heap(region);
    if (full) fill_up(heap, bytes_of(0));
    device_array<object> all(threads);
    for (unsigned i = 0; i < threads; ++i) bytes[i] = bytes_of(i);
    return launch({threads / 256}, {256}, allocate<mg::heap_ref>, heap.ref(), bytes.get(),
                  static_cast<const std::uint64_t*>(nullptr), all.get(), 32U);
  };
  constexpr std::size_t large = 2048 * mebibyte;
  const auto atomics = [&](std::size_t region, std::uint64_t (*bytes_of)(unsigned)) {
    return static_cast<double>(counted(region, false, bytes_of).changes) / threads;
  };
  const auto kilo = [](unsigned) { return std::uint64_t{1024}; };
  const double one = atomics(large, [](unsigned) { return std::uint64_t{4}; });
  const double other = atomics(large, kilo);
  const double small = atomics(64 * mebibyte, kilo);
  const double mixed = atomics(large, [](unsigned i) { return std::uint64_t{16} * (1 + i % 32); });
  const double loads = static_cast<double>(counted(8 * mebibyte, true, kilo).loads) / threads;
  EXPECT_LE(one, 0.06);
  EXPECT_LE(other, 0.06);
  EXPECT_LE(small, 0.7);
  EXPECT_LE(mixed, 1);
  EXPECT_LE(loads, 6);
  RecordProperty("atomics_4_bytes", std::to_string(one));
  RecordProperty("atomics_1024_bytes", std::to_string(other));
  RecordProperty("atomics_1024_bytes_in_64_mebibytes", std::to_string(small));
  RecordProperty("atomics_32_sizes", std::to_string(mixed));
  RecordProperty("loads_full", std::to_string(loads));
}
#endif

// ------------------------------------------------------------------------------------------------------------- misuse

TEST_F(heaps, notices_double_frees_by_any_lanes) {
  using ref = mg::basic_heap_ref<12>;
  for (const std::uint64_t bytes : {16U, 100U, 5000U, 40'000U, 300'000U}) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      muster_simt::current().seed = seed;
      small_heap heap(2 * mebibyte);
      void* const stays = heap.ref().malloc(bytes);
      void* const one = heap.ref().malloc(bytes);
      device_array<void*> all(96);
      for (auto& p : all) p = one;
      launch({1}, {96}, free_all_of<ref>, heap.ref(), all.get());
      const mg::heap_stats stats = heap.all.stats();
      EXPECT_EQ(stats.freed_twice + stats.freed_invalid, 95U) << bytes;
      EXPECT_EQ(stats.objects, 1U);
      EXPECT_EQ(wrong_in(heap.all, {{reinterpret_cast<std::uintptr_t>(stays), bytes}}), "");
    }
  }
}

TEST_F(heaps, takes_nothing_for_an_object_that_is_none) {
  small_heap heap(2 * mebibyte), other(2 * mebibyte);
  const auto ref = heap.ref();
  std::uint64_t refused = 0;
  for (const std::uint64_t bytes : {16U, 100U, 2000U, 33'000U, 300'000U}) {
    auto* const one = static_cast<char*>(ref.malloc(bytes));
    objects alive{{reinterpret_cast<std::uintptr_t>(one), bytes}};
    for (std::uint64_t at = 1; at < bytes; at += at / 3 + 1) {
      ref.free(one + at);
      ++refused;
      EXPECT_EQ(ref.usable_size(one + at), 0U);
    }
    // An object of another heap, and none at all.
    other.ref().free(one);
    EXPECT_FALSE(other.ref().owns(one));
    EXPECT_EQ(other.ref().usable_size(one), 0U);
    ASSERT_EQ(wrong_in(heap.all, alive), "");
    ref.free(one);
  }
  EXPECT_EQ(other.all.stats().freed_invalid, 5U);
  char outside[64];
  const mg::heap_stats stats = heap.all.stats();
  auto* const region = reinterpret_cast<char*>(&ref.state());
  for (void* const none : {static_cast<void*>(outside), static_cast<void*>(region), static_cast<void*>(region + 4096),
                           static_cast<void*>(region + 2 * mebibyte), reinterpret_cast<void*>(16)}) {
    ref.free(none);
    ++refused;
    EXPECT_EQ(ref.usable_size(none), 0U);
    EXPECT_FALSE(heap.all.owns(none));
  }
  EXPECT_EQ(heap.all.stats().freed_invalid + stats.freed_twice, refused);
  ref.free(nullptr);
  expect_no_object(heap.all);
}

TEST_F(heaps, owns_its_pages_and_no_more) {
  small_heap heap(2 * mebibyte, 64);
  const auto& plan = heap.ref().state().plan();
  auto* const origin = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(&heap.ref().state()) + plan.origin);
  char* const first = origin + std::size_t{plan.first} * 4096;
  char* const end = origin + std::size_t{plan.end} * 4096;
  for (const auto& owns : {+[](const small_heap<>& h, char* p) { return h.all.owns(p); },
                           +[](const small_heap<>& h, char* p) { return h.ref().owns(p); }}) {
    EXPECT_TRUE(owns(heap, first));
    EXPECT_TRUE(owns(heap, end - 1));
    EXPECT_FALSE(owns(heap, first - 1));
    EXPECT_FALSE(owns(heap, end));
  }
}

TEST_F(heaps, takes_no_object_from_before_a_reset) {
  small_heap heap(2 * mebibyte);
  std::vector<void*> all;
  for (unsigned i = 0; i < 100; ++i) all.push_back(heap.ref().malloc(i * 30));
  heap.ref().free(all[5]);
  heap.ref().free(all[5]);
  heap.all.reset();
  EXPECT_EQ(heap.all.stats().freed_twice, 0U);
  EXPECT_EQ(heap.all.stats().peak_bytes, 0U);
  expect_no_object(heap.all);
  for (void* const p : all) heap.ref().free(p);
  EXPECT_EQ(heap.all.stats().freed_invalid, 99U);  // one is null
  expect_no_object(heap.all);
}

// -------------------------------------------------------------------------------------- warps, blocks, types, the host

template <class Ref>
MUSTER_KERNEL void share(Ref heap, std::uint64_t* sums, void** kept) {
  MUSTER_GPU_SHARED(void*, slot);
  const unsigned warp = number_in_grid() / 32;
  const mg::lane_mask all = mg::ballot(~mg::lane_mask{0}, true);
  auto* const of_warp = static_cast<std::uint32_t*>(heap.malloc_together(all, 32 * 4));
  of_warp[mg::lane_id()] = mg::lane_id() + 1000 * warp;
  mg::sync_warp(all);
  std::uint64_t sum = of_warp[31 - mg::lane_id()];
  if (mg::lane_id() != 0) heap.free(heap.malloc(8));     // the first lane is first
  if (heap.usable_size(of_warp) == 0) sum += 1'000'000;  // but waits before it frees
  heap.free_together(all, of_warp);
  for (unsigned round = 0; round < 2; ++round) {
    auto* const of_block = static_cast<std::uint32_t*>(heap.malloc_for_block(mg::block_size().x * 4, slot));
    of_block[mg::thread_index().x] = warp;
    mg::sync_block();
    sum += of_block[mg::block_size().x - 1 - mg::thread_index().x];
    // Two at once: the second one must not reach a thread in place of the first.
    auto* const first = static_cast<std::uint32_t*>(heap.malloc_for_block(4, slot));
    auto* const second = static_cast<std::uint32_t*>(heap.malloc_for_block(4, slot));
    if (first == second || heap.usable_size(first) == 0) sum += 1'000'000;
    heap.free_for_block(first);
    heap.free_for_block(second);
    if (round == 0) {
      heap.free_for_block(of_block);
    } else if (mg::thread_index().x == 0) {
      kept[mg::block_index().x] = of_block;
    }
  }
  sums[number_in_grid()] = sum;
}

TEST_F(heaps, serves_warps_and_blocks_as_a_whole) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    muster_simt::current() = {.seed = seed, .switch_one_in = 1U << seed % 6};
    small_heap heap(2 * mebibyte);
    device_array<std::uint64_t> sums(192);
    device_array<void*> kept(2);
    launch({2}, {96}, share<mg::basic_heap_ref<12>>, heap.ref(), sums.get(), kept.get());
    for (unsigned i = 0; i < 192; ++i) {
      const unsigned first = i / 96 * 3;
      EXPECT_EQ(sums[i], 31 - i % 32 + i / 32 * 1000 + 2 * (first + (95 - i % 96) / 32)) << i;
    }
    EXPECT_EQ(wrong_in(heap.all, {{reinterpret_cast<std::uintptr_t>(kept[0]), 384},
                                  {reinterpret_cast<std::uintptr_t>(kept[1]), 384}}),
              "");
  }
}

struct alignas(64) counted {
  MUSTER_GPU counted(unsigned its, mg::atomic<std::uint32_t>* all) : value(its), alive(all) {
    alive->fetch_add(1, relaxed);
  }
  MUSTER_GPU ~counted() { alive->fetch_sub(1, relaxed); }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  unsigned value;
  mg::atomic<std::uint32_t>* alive;
};

template <class Ref>
MUSTER_KERNEL void make_and_destroy(Ref heap, mg::atomic<std::uint32_t>* alive, std::uint32_t* wrong) {
  const unsigned me = number_in_grid();
  counted* const mine = heap.template make<counted>(me, alive);
  const mg::basic_heap_allocator<std::uint32_t, 12> of_numbers(heap);
  const mg::basic_heap_allocator<counted, 12> same(of_numbers);
  std::uint32_t* const numbers = of_numbers.allocate(me + 1);
  numbers[me] = me;
  if (mine->value != me || numbers[me] != me || reinterpret_cast<std::uintptr_t>(mine) % 64 != 0 ||
      !(same == of_numbers) || of_numbers.allocate(~std::size_t{0} / 2) != nullptr)
    wrong[me] = 1;
  of_numbers.deallocate(numbers, me + 1);
  if (me % 2 == 0) heap.destroy(mine);
  heap.destroy(static_cast<counted*>(nullptr));
}

TEST_F(heaps, makes_objects_of_a_type) {
  small_heap heap(2 * mebibyte);
  device_array<mg::atomic<std::uint32_t>> alive(1);
  device_array<std::uint32_t> wrong(96);
  launch({1}, {96}, make_and_destroy<mg::basic_heap_ref<12>>, heap.ref(), alive.get(), wrong.get());
  EXPECT_EQ(alive[0].load(relaxed), 48U);
  EXPECT_EQ(heap.all.stats().objects, 48U);
  for (const std::uint32_t w : wrong) EXPECT_EQ(w, 0U);
}

TEST_F(heaps, is_a_unique_owner_of_memory_from_anywhere) {
  mg::heap own(8 * mebibyte);
  EXPECT_EQ(own.stats().objects, 0U);
  mg::heap pooled = mg::heap::from_pool(8 * mebibyte, nullptr, nullptr);
  auto& state = pooled.ref().state();
  mg::heap moved(std::move(pooled));
  EXPECT_EQ(&moved.ref().state(), &state);
  own = std::move(moved);
  EXPECT_EQ(&own.ref().state(), &state);
  mg::heap& same = own;
  own = std::move(same);
  EXPECT_EQ(&own.ref().state(), &state);
  EXPECT_EQ(own.stats().objects, 0U);
  device_array<unsigned char> memory(8 * mebibyte);
  {
    mg::heap in_region(memory.get(), memory.size());
    EXPECT_TRUE(in_region.stats().free_bytes > 7 * mebibyte);
  }
  EXPECT_THROW(mg::heap(memory.get() + 8, memory.size() - 8), std::invalid_argument);
  EXPECT_THROW(mg::heap(memory.get(), 1000), std::invalid_argument);
  EXPECT_THROW(mg::heap(nullptr, memory.size()), std::invalid_argument);
  EXPECT_THROW(mg::heap(0), std::invalid_argument);
  EXPECT_THROW(mg::heap::from_pool(1000, nullptr, nullptr), std::invalid_argument);
}

}  // namespace
