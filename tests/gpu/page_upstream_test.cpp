// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// page_upstream by itself, on one thread: it finds every free block, and counts addresses that are no block instead of
// freeing them. xmalloc on it finds a block that another of its FIFOs keeps. Also bump_upstream, and the FIFO.
#include <gtest/gtest.h>
#include <muster/gpu/fifo.hpp>
#include <muster/gpu/page_upstream.hpp>
#include <muster/gpu/upstream.hpp>
#include <muster/gpu/xmalloc.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using muster::gpu::page_upstream;
constexpr std::size_t page = 4096;

struct memory {
  explicit memory(std::size_t pages)
      : at(std::aligned_alloc(page, pages * page)), upstream(page_upstream::make(at, pages * page)) {}
  ~memory() { std::free(at); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  void* const at;
  page_upstream* const upstream;
};

TEST(page_upstream, needs_two_pages_of_memory) {
  memory with(2);
  EXPECT_NE(with.upstream, nullptr);
  EXPECT_EQ(page_upstream::make(with.at, 2 * page - 1), nullptr);
  EXPECT_EQ(page_upstream::make(with.at, 0), nullptr);
  EXPECT_EQ(page_upstream::make(with.at, std::uint64_t{1} << 44U), nullptr);
  EXPECT_EQ(page_upstream::make(nullptr, 8 * page), nullptr);
}

TEST(page_upstream, frees_nothing_but_blocks) {
  for (const std::size_t bytes : {64U, 128U, 256U, 512U, 1024U, 2048U}) {
    memory with(8);
    page_upstream& upstream = *with.upstream;
    auto* const first = static_cast<char*>(upstream.allocate(bytes));
    ASSERT_NE(first, nullptr);
    static_cast<void>(upstream.allocate(bytes));
    std::uint64_t refused = 0;
    const auto in_page = reinterpret_cast<std::uintptr_t>(first) % page;
    for (std::size_t at = 0; at < page; at += 16) {
      if (at % bytes == 0 && at / bytes < (bytes == 64 ? 63U : page / bytes)) continue;  // a block, free or not
      upstream.deallocate(first - in_page + at);
      EXPECT_EQ(upstream.freed_invalid(), ++refused) << "at " << at << ", in blocks of " << bytes;
    }
    EXPECT_EQ(upstream.freed_twice(), 0U);
    // A block in use is not given out again.
    EXPECT_NE(upstream.allocate(bytes), first);
    upstream.deallocate(first);
    upstream.deallocate(first);
    EXPECT_EQ(upstream.freed_twice(), 1U);
    EXPECT_EQ(upstream.freed_invalid(), refused);
  }
}

// Of several pages: only the first byte is a block.
TEST(page_upstream, frees_no_part_of_a_run) {
  for (const unsigned pages : {1U, 3U}) {
    memory with(8);
    page_upstream& upstream = *with.upstream;
    auto* const run = static_cast<char*>(upstream.allocate(pages * page));
    ASSERT_NE(run, nullptr);
    const unsigned left = upstream.free_pages();
    std::uint64_t refused = 0;
    for (std::size_t at = 16; at < pages * page; at += 16) {
      upstream.deallocate(run + at);
      ASSERT_EQ(upstream.freed_invalid(), ++refused) << "at " << at << " of " << pages << " pages";
    }
    EXPECT_EQ(upstream.free_pages(), left);
    upstream.deallocate(run);
    EXPECT_EQ(upstream.free_pages(), left + pages);
    upstream.deallocate(run);
    EXPECT_EQ(upstream.freed_twice(), 1U);
    EXPECT_EQ(upstream.freed_invalid(), refused);
  }
}

// Its page is free by then, too.
TEST(page_upstream, knows_the_only_block_of_a_page_that_is_freed_twice) {
  memory with(8);
  page_upstream& upstream = *with.upstream;
  void* const only = upstream.allocate(256);
  upstream.deallocate(only);
  upstream.deallocate(only);
  EXPECT_EQ(upstream.freed_twice() + upstream.freed_invalid(), 1U);
  EXPECT_EQ(upstream.free_pages(), upstream.pages());
}

TEST(bump_upstream, gives_all_its_bytes_and_no_more) {
  constexpr std::size_t bytes = 4096;
  void* const at = std::aligned_alloc(page, bytes);
  auto* const first = static_cast<char*>(at);
  muster::gpu::bump_upstream upstream(at, bytes);
  EXPECT_TRUE(upstream.owns(first));
  EXPECT_TRUE(upstream.owns(first + bytes - 1));
  EXPECT_FALSE(upstream.owns(first + bytes));
  EXPECT_FALSE(upstream.owns(first - 1));
  EXPECT_EQ(upstream.allocate(bytes + 1), nullptr);
  char* next = first;
  while (auto* const block = static_cast<char*>(upstream.allocate(100))) {
    EXPECT_EQ(block, next);
    EXPECT_LE(block + 100, first + bytes);
    next = block + 112;
  }
  EXPECT_GT(next + 112, first + bytes);
  std::free(at);
}

TEST(page_upstream, owns_all_its_bytes_and_no_more) {
  memory with(8);
  page_upstream& upstream = *with.upstream;
  const auto begin = upstream.origin(), end = begin + std::uint64_t{upstream.pages()} * page;
  const auto at = [](std::uint64_t address) { return reinterpret_cast<void*>(address); };
  EXPECT_TRUE(upstream.owns(at(begin)));
  EXPECT_TRUE(upstream.owns(at(end - 1)));
  EXPECT_FALSE(upstream.owns(at(begin - 1)));
  EXPECT_FALSE(upstream.owns(at(end)));
  upstream.deallocate(at(end));
  EXPECT_EQ(upstream.freed_invalid(), 1U);
}

// Wherever the last search has ended, and whatever is free around it.
TEST(page_upstream, finds_every_run_that_is_free) {
  constexpr unsigned runs_of = 4;
  memory with(41);
  page_upstream& upstream = *with.upstream;
  const unsigned pages = upstream.pages();
  for (unsigned first = 0; first + runs_of <= pages; ++first) {
    for (unsigned hint = 0; hint < runs_of; ++hint) {
      std::vector<void*> all;
      while (void* const one = upstream.allocate(page)) all.push_back(one);
      ASSERT_EQ(all.size(), pages);
      std::sort(all.begin(), all.end());
      // The search ends within what will be free.
      upstream.deallocate(all[first + hint]);
      void* const last = upstream.allocate(page);
      ASSERT_EQ(last, all[first + hint]);
      for (unsigned i = 0; i < runs_of; ++i) upstream.deallocate(all[first + i]);
      void* const found = upstream.allocate(runs_of * page);
      EXPECT_EQ(found, all[first]) << "pages " << first << " to " << first + runs_of - 1 << ", hint " << hint;
      for (unsigned i = 0; i < pages; ++i)
        if (i < first || i >= first + runs_of) upstream.deallocate(all[i]);
      if (found != nullptr) upstream.deallocate(found);
      ASSERT_EQ(upstream.free_pages(), pages);
    }
  }
}

// Up to the capacity and no further, in order, also where the numbers wrap.
template <unsigned Most>
void expect_a_fifo(muster::gpu::fifo<Most>& fifo, unsigned capacity) {
  ASSERT_EQ(fifo.capacity(), capacity);
  std::uint32_t pushed = 100, popped = 100;
  for (unsigned round = 0; round < 3 * capacity; ++round) {
    for (unsigned i = 0; i < capacity; ++i) ASSERT_TRUE(fifo.try_push(pushed++)) << "item " << i << " of " << capacity;
    EXPECT_FALSE(fifo.try_push(7)) << "more than " << capacity;
    std::uint32_t seen = popped;
    fifo.each([&](std::uint32_t payload) { EXPECT_EQ(payload, seen++); });
    EXPECT_EQ(seen, pushed);
    for (unsigned i = 0; i < capacity; ++i) {
      std::uint32_t payload = 0;
      ASSERT_TRUE(fifo.try_pop(payload));
      EXPECT_EQ(payload, popped++);
    }
    std::uint32_t untouched = 9;
    EXPECT_FALSE(fifo.try_pop(untouched));
    EXPECT_EQ(untouched, 9U);
  }
}

TEST(fifo, holds_its_capacity) {
  for (const std::uint32_t first : {0U, 1U, ~0U - 2, ~0U}) {
    muster::gpu::fifo<1> one;
    muster::gpu::fifo<2> two;
    muster::gpu::fifo<4> four;
    one.start(1, first);
    two.start(2, first);
    four.start(4, first);
    expect_a_fifo(one, 1);
    expect_a_fifo(two, 2);
    expect_a_fifo(four, 4);
  }
}

TEST(fifo, holds_what_it_is_started_for) {
  muster::gpu::fifo<8> fifo;
  struct row {
    unsigned wanted, capacity;
  };
  for (const row r : {row{3, 4}, row{8, 8}, row{1, 1}, row{2, 2}, row{5, 8}, row{9, 8}, row{~0U, 8}})
    for (const std::uint32_t first : {0U, ~0U - 2}) {
      fifo.start(r.wanted, first);
      expect_a_fifo(fifo, r.capacity);
      EXPECT_TRUE(fifo.try_push(1));  // forgotten by the next start
    }
  fifo.start(0);
  expect_a_fifo(fifo, 0);
  std::uint32_t none = 0;
  EXPECT_FALSE(fifo.try_push(1));
  EXPECT_FALSE(fifo.try_pop(none));
}

}  // namespace
