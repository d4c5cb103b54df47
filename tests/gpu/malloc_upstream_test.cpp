// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// malloc_upstream over a malloc that counts and may have little memory; and how many blocks xmalloc keeps.
#include <gtest/gtest.h>
#include <muster/gpu/malloc_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>

#include "heap_check.hpp"
#include "muster_simt/launch.hpp"
#include "objects.hpp"
#include "xmalloc_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

namespace mg = muster::gpu;
using muster_simt::device_array;
using muster_simt::launch;
using muster_test::alive_of;
using muster_test::all_filled;
using muster_test::churn;
using muster_test::counting_upstream;
using muster_test::free_others;
using muster_test::many_of;
using muster_test::number_in_grid;
using muster_test::object;
using muster_test::overlap_in;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30U;
constexpr std::uint64_t heap_bytes = std::uint64_t{64} << 20U;

/// Stands for CUDA's malloc: its heap is one region. It counts, and may have little memory.
struct counted_malloc {
  static void* allocate(std::size_t bytes) {
    if (alive.fetch_add(bytes, relaxed) + bytes > limit.load(relaxed)) {
      alive.fetch_sub(bytes, relaxed);
      refused.fetch_add(1, relaxed);
      return nullptr;
    }
    calls.fetch_add(1, relaxed);
    if (bytes > 128 && bytes < 2048) slow.fetch_add(1, relaxed);
    const std::lock_guard lock(mutex);
    sizes& all = *region();
    auto& old = all.freed[bytes];
    std::uint64_t at = all.used;
    if (old.empty()) {
      all.used += (bytes + 15) / 16 * 16 + 16;
    } else {
      at = old.back();
      old.pop_back();
    }
    EXPECT_LE(all.used, heap_bytes);
    all.given[at] = bytes;
    return all.begin + at;
  }
  static void free(void* block) {
    const std::lock_guard lock(mutex);
    sizes& all = *region();
    const auto found = all.given.find(static_cast<std::uint64_t>(static_cast<unsigned char*>(block) - all.begin));
    ASSERT_NE(found, all.given.end());
    alive.fetch_sub(found->second, relaxed);
    all.freed[found->second].push_back(found->first);
    all.given.erase(found);
  }
  static std::uintptr_t origin() { return reinterpret_cast<std::uintptr_t>(region()->begin); }
  static void reset(std::uint64_t most = ~std::uint64_t{0}) {
    limit.store(most, relaxed);
    for (auto* one : {&alive, &calls, &slow, &refused}) one->store(0, relaxed);
  }
  static inline std::atomic<std::uint64_t> alive, calls, slow, refused;  // slow: where CUDA's malloc is
  static inline std::atomic<std::uint64_t> limit;

 private:
  struct sizes {
    device_array<std::max_align_t> memory{heap_bytes / sizeof(std::max_align_t)};
    unsigned char* begin = reinterpret_cast<unsigned char*>(memory.get());
    std::uint64_t used = 0;
    std::map<std::uint64_t, std::size_t> given;
    std::map<std::size_t, std::vector<std::uint64_t>> freed;
  };
  static std::shared_ptr<sizes> region() {
    static const auto made = std::make_shared<sizes>();
    return made;
  }
  static inline std::mutex mutex;
};
using malloc_upstream = mg::basic_malloc_upstream<counted_malloc>;

/// The upstream allocator that asks for what it is asked for.
struct plain_base {
  explicit plain_base(std::uint64_t) {}
  void* allocate(std::size_t bytes) { return counted_malloc::allocate(bytes); }
  void deallocate(void* block) { counted_malloc::free(block); }
  bool owns(const void*) const { return true; }
  std::uintptr_t origin() const { return counted_malloc::origin(); }
  unsigned granule_bits() const { return 4; }
};

class malloc_upstreams : public ::testing::Test {
 protected:
  malloc_upstreams() {
    muster_simt::current() = {};
    counted_malloc::reset();
  }
  ~malloc_upstreams() override { muster_simt::current() = {}; }
};

/// Blocks by size: each is as large as asked for, aligned, and overlaps no other.
struct blocks {
  explicit blocks(malloc_upstream& from) : upstream(from) {}
  bool add(std::size_t bytes) {
    auto* const at = static_cast<unsigned char*>(upstream.allocate(bytes));
    if (at == nullptr) return false;
    std::memset(at, static_cast<int>(bytes % 251), bytes);
    all.push_back({at, bytes});
    return true;
  }
  void free(std::size_t which) {
    const object one = all[which];
    all[which] = all.back();
    all.pop_back();
    for (std::uint64_t i = 0; i < one.bytes; ++i) ASSERT_EQ(one.at[i], one.bytes % 251);
    upstream.deallocate(one.at);
  }
  void expect_apart() const {
    muster_test::objects alive;
    for (const object& one : all) alive[reinterpret_cast<std::uintptr_t>(one.at)] = one.bytes;
    EXPECT_EQ(alive.size(), all.size());
    EXPECT_EQ(overlap_in(alive), "");
  }
  malloc_upstream& upstream;
  std::vector<object> all;
};

TEST_F(malloc_upstreams, ask_for_two_kib_or_more) {
  const auto upstream = std::make_unique<malloc_upstream>(heap_bytes);
  counted_malloc::reset();
  blocks some(*upstream);
  for (std::size_t bytes = 1; bytes <= 6000; bytes += 13) ASSERT_TRUE(some.add(bytes));
  EXPECT_EQ(counted_malloc::slow, 0U);
  EXPECT_EQ(upstream->allocate(0 - std::size_t{8}), nullptr);
  // 79 blocks up to a KiB, from 19 chunks; each of the others is a chunk of its own.
  EXPECT_EQ(counted_malloc::calls, 19 + 383U);
  some.expect_apart();
  while (!some.all.empty()) some.free(some.all.size() * 7 / 11);
  upstream->trim();
  EXPECT_EQ(counted_malloc::alive, 0U);
}

TEST_F(malloc_upstreams, cut_a_chunk_into_many_blocks) {
  for (const std::size_t bytes : {64U, 128U, 256U, 512U, 1024U}) {
    const auto upstream = std::make_unique<malloc_upstream>(heap_bytes);
    counted_malloc::reset();
    blocks some(*upstream);
    while (counted_malloc::calls <= 1) ASSERT_TRUE(some.add(bytes));
    const std::size_t in_a_chunk = some.all.size() - 1;
    EXPECT_EQ(in_a_chunk, (4032 - 32) / (bytes + 16)) << bytes;
    some.expect_apart();
    // The first chunk returns with its last block, and not before.
    some.free(in_a_chunk);
    upstream->trim();
    const std::uint64_t one_chunk = counted_malloc::alive;
    EXPECT_GE(one_chunk, 2048U);
    EXPECT_LE(one_chunk, 4032U);
    while (some.all.size() > 1) {
      some.free(0);
      EXPECT_EQ(counted_malloc::alive, one_chunk);
    }
    some.free(0);
    EXPECT_EQ(counted_malloc::alive, 0U);
  }
}

TEST_F(malloc_upstreams, align_to_the_granules_of_a_large_heap) {
  for (const std::uint64_t large : {128 * gibibyte, 300 * gibibyte, gibibyte << 14U}) {
    const auto upstream = std::make_unique<malloc_upstream>(large);
    const std::uintptr_t granule = std::uintptr_t{1} << upstream->granule_bits();
    EXPECT_GE(granule, 64U);
    blocks some(*upstream);
    for (std::size_t bytes = 1; bytes <= 3000; bytes += 13) {
      ASSERT_TRUE(some.add(bytes));
      EXPECT_EQ((reinterpret_cast<std::uintptr_t>(some.all.back().at) - upstream->origin()) % granule, 0U);
    }
    some.expect_apart();
    while (!some.all.empty()) some.free(0);
    upstream->trim();
    EXPECT_EQ(counted_malloc::alive, 0U) << large;
  }
}

TEST_F(malloc_upstreams, use_all_rests_and_single_blocks_when_there_is_no_chunk) {
  const auto upstream = std::make_unique<malloc_upstream>(heap_bytes);
  counted_malloc::reset(2 * 3840 + 300);
  blocks some(*upstream);
  while (some.add(256)) {
  }
  // Two chunks of 14 blocks, and a single one.
  EXPECT_EQ(some.all.size(), 29U);
  some.expect_apart();
  while (!some.all.empty()) some.free(0);
  upstream->trim();
  EXPECT_EQ(counted_malloc::alive, 0U);
}

// ---------------------------------------------------------------------------------------------------------- kernels

template <class Heap>
MUSTER_KERNEL void take_block(Heap* upstream, std::size_t bytes, void** out) {
  if (mg::lane_id() == 0) out[number_in_grid() / 32] = upstream->allocate(bytes);
}

TEST_F(malloc_upstreams, lose_no_rest_for_which_there_is_no_place) {
  // Several warps find no rest, and there is a place for one.
  muster_simt::current().resident = 32;
  const auto upstream = std::make_unique<malloc_upstream>(heap_bytes, 16);
  counted_malloc::reset();
  device_array<void*> all(32);
  launch({32}, {32}, take_block<malloc_upstream>, upstream.get(), std::size_t{60}, all.get());
  EXPECT_GT(counted_malloc::calls, 3U);
  EXPECT_EQ(counted_malloc::alive, 4032 * counted_malloc::calls);  // each has a block in use
  for (void* const one : all) upstream->deallocate(one);
  upstream->trim();
  EXPECT_EQ(counted_malloc::alive, 0U);
}

/// The first block makes a chunk and waits, so that the second one, on another multiprocessor, needs its rest.
template <class Heap>
MUSTER_KERNEL void take_rest_of_other(Heap* upstream, mg::atomic<std::uint32_t>* turn, void** out) {
  if (mg::block_index().x == 0) {
    out[0] = upstream->allocate(200);
    turn->store(1, std::memory_order_release);
    while (turn->load(std::memory_order_acquire) != 2) {
    }
  } else {
    while (turn->load(std::memory_order_acquire) != 1) {
    }
    for (unsigned i = 1; i < 14; ++i) out[i] = upstream->allocate(200);
    turn->store(2, std::memory_order_release);
  }
}

TEST_F(malloc_upstreams, find_the_rests_of_other_multiprocessors) {
  muster_simt::current().multiprocessors = 2;
  muster_simt::current().resident = 1;
  const auto upstream = std::make_unique<malloc_upstream>(heap_bytes);
  counted_malloc::reset(4032);
  device_array<void*> all(14);
  device_array<mg::atomic<std::uint32_t>> turn(1);
  launch({2}, {1}, take_rest_of_other<malloc_upstream>, upstream.get(), turn.get(), all.get());
  ASSERT_EQ(std::count(all.begin(), all.end(), nullptr), 0);
  for (void* const one : all) upstream->deallocate(one);
  upstream->trim();
  EXPECT_EQ(counted_malloc::alive, 0U);
}

TEST_F(malloc_upstreams, survive_churn_with_little_memory) {
  using heap_type = mg::xmalloc<malloc_upstream>;
  std::uint64_t refused = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    muster_simt::current().seed = seed;
    muster_simt::current().multiprocessors = 1 + seed % 3;
    const auto upstream = std::make_unique<malloc_upstream>(heap_bytes, 16U << seed % 3);
    const auto heap = std::make_unique<heap_type>(*upstream, 16U << seed % 4);
    counted_malloc::reset(seed % 4 == 0 ? ~std::uint64_t{0} : 60'000 * (seed % 4));
    device_array<object> all(std::size_t{4} * 96);
    device_array<mg::atomic<std::uint32_t>> wrong(1);
    for (unsigned time = 0; time < 2; ++time) {
      // Blocks in chunks, and then alone as well.
      launch({4}, {96}, churn<heap_type>, heap.get(), all.get(), 12U, time == 0 ? 200U : 3000U, seed + time,
             wrong.get());
      ASSERT_EQ(wrong[0].load(relaxed), 0U) << "seed " << seed;
      ASSERT_EQ(overlap_in(alive_of(all)), "") << "seed " << seed;
      ASSERT_EQ(alive_of(all).size(), many_of(all)) << "seed " << seed;
      ASSERT_TRUE(all_filled(all)) << "seed " << seed;
      launch({4}, {96}, free_others<heap_type>, heap.get(), all.get(), seed, 384U);
    }
    EXPECT_EQ(heap->noticed().twice + heap->noticed().invalid, 0U);
    heap->trim();
    EXPECT_EQ(counted_malloc::alive, 0U) << "seed " << seed;
    refused += counted_malloc::refused;
  }
  EXPECT_GT(refused, 0U);
}

/// The paper's worker.
template <class Heap>
MUSTER_KERNEL void allocate_and_free(Heap* heap, unsigned active, mg::atomic<std::uint32_t>* failed) {
  if (mg::lane_id() >= active) return;
  auto* const mine = static_cast<unsigned*>(heap->allocate(4));
  if (mine == nullptr) {
    failed->fetch_add(1, relaxed);
    return;
  }
  *mine = number_in_grid();
  if (*mine != number_in_grid()) failed->fetch_add(1, relaxed);
  heap->free(mine);
}

struct only_coalescing : mg::xmalloc_options {
  static constexpr bool buffer = false;
};
struct asked {
  double calls;  // of malloc, for each call of a lane
  double slow;   // of these, for 129 to 2047 bytes
};
template <class Upstream, class Options>
asked ask(unsigned active, unsigned blocks = 256, std::uint64_t most_bytes = ~std::uint64_t{0}) {
  using heap_type = mg::xmalloc<Upstream, Options>;
  constexpr unsigned threads = 4096;
  muster_simt::current() = {.resident = 4, .split_one_in = 0};
  const auto upstream = std::make_unique<Upstream>(heap_bytes);
  const auto heap = std::make_unique<heap_type>(*upstream, blocks, most_bytes);
  device_array<mg::atomic<std::uint32_t>> failed(1);
  counted_malloc::reset();
  launch({threads / 256}, {256}, allocate_and_free<heap_type>, heap.get(), active, failed.get());
  EXPECT_EQ(failed[0].load(relaxed), 0U);
  const double requests = threads / 32.0 * active;
  const asked found{static_cast<double>(counted_malloc::calls) / requests,
                    static_cast<double>(counted_malloc::slow) / requests};
  heap->trim();
  EXPECT_EQ(counted_malloc::alive, 0U);
  return found;
}

// Figure 2, without buffers, where each group of lanes asks the upstream allocator, and with them.
TEST_F(malloc_upstreams, ask_seldom_and_never_where_malloc_is_slow) {
  for (const unsigned active : {1U, 8U, 32U}) {
    const asked before = ask<plain_base, only_coalescing>(active);
    const asked now = ask<malloc_upstream, only_coalescing>(active);
    const asked buffered_before = ask<plain_base, mg::xmalloc_options>(active);
    const asked buffered = ask<malloc_upstream, mg::xmalloc_options>(active);
    const std::string lanes = "_" + std::to_string(active) + "_lanes";
    RecordProperty("calls_without_chunks" + lanes, std::to_string(before.calls));
    RecordProperty("slow_without_chunks" + lanes, std::to_string(before.slow));
    RecordProperty("calls" + lanes, std::to_string(now.calls));
    RecordProperty("calls_with_buffers_without_chunks" + lanes, std::to_string(buffered_before.calls));
    RecordProperty("slow_with_buffers_without_chunks" + lanes, std::to_string(buffered_before.slow));
    RecordProperty("calls_with_buffers" + lanes, std::to_string(buffered.calls));
    EXPECT_DOUBLE_EQ(before.calls, 1.0 / active);
    EXPECT_DOUBLE_EQ(before.slow, active == 1 ? 0 : 1.0 / active);
    EXPECT_LT(now.calls, before.calls / 2);
    // Malloc is not slow for the blocks of single lanes. They have chunks nevertheless.
    EXPECT_LT(buffered.calls, active == 1 ? buffered_before.calls : buffered_before.calls / 2);
    EXPECT_EQ(now.slow + buffered.slow, 0);
    // A limit of the bytes that are kept costs no call.
    const asked limited = ask<malloc_upstream, mg::xmalloc_options>(active, 8448, heap_bytes / 3);
    RecordProperty("calls_with_limited_buffers" + lanes, std::to_string(limited.calls));
    EXPECT_DOUBLE_EQ(limited.calls, (ask<malloc_upstream, mg::xmalloc_options>(active, 8448).calls));
  }
}

// --------------------------------------------------------------------------------------------- blocks that are kept

template <class Heap>
MUSTER_KERNEL void allocate_alone(Heap* heap, object* all) {
  all[number_in_grid()].at = static_cast<unsigned char*>(heap->allocate(40));
}

TEST_F(malloc_upstreams, blocks_are_kept_for_as_many_warps_as_a_heap_is_made_for) {
  constexpr unsigned warps = 512;
  muster_simt::current().multiprocessors = 1;  // all blocks go to one of the FIFOs
  muster_simt::current().resident = 16;
  struct row {
    unsigned blocks, kept;
  };
  for (const row r : {row{1, 1}, row{16, 1}, row{64, 4}, row{65, 8}, row{256, 16}, row{8448, 512}, row{~0U, 512}}) {
    using heap_type = mg::xmalloc<counting_upstream>;
    device_array<std::max_align_t> region(1U << 16U);
    counting_upstream upstream(region.get(), std::uint64_t{1} << 20U);
    const auto heap = std::make_unique<heap_type>(upstream, r.blocks);
    device_array<object> all(warps);
    for (unsigned time = 1; time <= 2; ++time) {
      launch({warps}, {1}, allocate_alone<heap_type>, heap.get(), all.get());
      launch({warps}, {1}, free_others<heap_type>, heap.get(), all.get(), 0U, warps);
      // The next kernel takes the blocks that the FIFO has kept.
      EXPECT_EQ(upstream.allocated, warps + (time - 1) * (warps - r.kept)) << r.blocks;
      EXPECT_EQ(upstream.returned, time * (warps - r.kept)) << r.blocks;
    }
    unsigned kept = 0;
    heap->each_kept([&](void*, std::size_t) { ++kept; });
    EXPECT_EQ(kept, r.kept);
  }
}

TEST_F(malloc_upstreams, blocks_that_are_kept_have_so_many_bytes_at_most) {
  using heap_type = mg::xmalloc<counting_upstream>;
  struct row {
    std::uint64_t most_bytes;
    unsigned kept[heap_type::size_classes];  // in all FIFOs, for 64 bytes to 16 KiB
  };
  constexpr std::uint64_t third = (std::uint64_t{500} << 20U) / 3;
  for (const row& r :
       {row{~std::uint64_t{0}, {16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384}},
        row{535'000'000, {16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 8192}},
        row{third, {16384, 16384, 16384, 16384, 16384, 16384, 8192, 4096, 2048}},
        row{1U << 20U, {2048, 1024, 512, 256, 128, 64, 32, 16, 0}}, row{1000, {0, 0, 0, 0, 0, 0, 0, 0, 0}}}) {
    device_array<std::max_align_t> region(1U << 16U);
    counting_upstream upstream(region.get(), std::uint64_t{1} << 20U);
    const auto heap = std::make_unique<heap_type>(upstream, 8448, r.most_bytes);
    std::uint64_t bytes = 0;
    for (unsigned c = 0; c < heap_type::size_classes; ++c) {
      EXPECT_EQ(heap->most_kept(c), r.kept[c]) << r.most_bytes << ", " << (64U << c);
      bytes += std::uint64_t{r.kept[c]} * (64U << c);
    }
    EXPECT_LE(bytes, r.most_bytes);
    // A block of a size that is not kept returns to the upstream allocator.
    heap->free(heap->allocate(16000));
    EXPECT_EQ(upstream.returned, r.kept[8] == 0 ? 1U : 0U);
  }
}

}  // namespace
