// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap_check.hpp: checks a heap from the host while no kernel runs: live, kept and free blocks make up the whole heap,
// and none overlaps another.
#pragma once

#include <muster/gpu/page_upstream.hpp>
#include <muster/gpu/xmalloc.hpp>

#include "muster_simt/launch.hpp"
#include "objects.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace muster_test {

namespace mg = muster::gpu;

/// Describes the first error in `alive` by itself; empty if there is none.
inline std::string overlap_in(const objects& alive) {
  std::uintptr_t end = 0;
  for (const auto& [at, bytes] : alive) {
    if (at % 16 != 0) return "an object is not aligned to 16";
    if (at < end) return "two objects overlap";
    end = at + bytes;
  }
  return {};
}

/// Describes the first error in a heap on a page_upstream; empty if there is none.
template <class Heap>
std::string wrong_in(Heap& heap, const objects& alive) {
  if (const std::string overlap = overlap_in(alive); !overlap.empty()) return overlap;
  std::map<std::uintptr_t, std::size_t> blocks;
  std::uint64_t pages_used = 0;
  std::uintptr_t last_page = 0;
  heap.upstream().each_block([&](void* block, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    blocks[at] = bytes;
    const std::uintptr_t page = (at - heap.upstream().origin()) / mg::page_upstream::page_size + 1;
    if (page != last_page) pages_used += (bytes + mg::page_upstream::page_size - 1) / mg::page_upstream::page_size;
    last_page = page;
  });
  if (pages_used + heap.upstream().free_pages() != heap.upstream().pages()) return "pages are neither used nor free";

  std::set<std::uintptr_t> kept;
  std::string wrong;
  heap.each_kept([&](void* block, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    if (!kept.insert(at).second) wrong = "a block is kept twice";
    if (!blocks.contains(at)) {
      wrong = "a block is kept that the upstream has not given";
    } else if (blocks[at] != bytes) {
      wrong = "a block is kept for another size";
    }
  });
  if (!wrong.empty()) return wrong;

  std::set<std::uintptr_t> used;
  for (const auto& [at, bytes] : alive) {
    auto block = blocks.upper_bound(at);
    if (block == blocks.begin()) return "an object lies outside of all blocks";
    --block;
    if (at + bytes > block->first + block->second) return "an object lies over the end of its block";
    if (kept.contains(block->first)) return "an object lies in a block that is kept for others";
    used.insert(block->first);
  }
  if (used.size() + kept.size() != blocks.size()) {
    std::ostringstream text;
    text << blocks.size() - used.size() - kept.size() << " blocks are lost";
    return text.str();
  }
  return {};
}

/// A heap in a region of its own.
template <class Options = mg::xmalloc_options>
class paged_heap {
 public:
  using type = mg::xmalloc<mg::page_upstream, Options>;

  explicit paged_heap(std::size_t bytes)
      : region_(bytes / 4096 + 1), state_(1), heap_(::new(static_cast<void*>(state_.get())) type(base_of(bytes))) {}

  type* get() const { return heap_; }
  type* operator->() const { return heap_; }
  std::string wrong(const objects& alive) const { return wrong_in(*heap_, alive); }

 private:
  struct alignas(4096) page {
    unsigned char bytes[4096];
  };
  struct alignas(type) place {
    unsigned char bytes[sizeof(type)];
  };
  mg::page_upstream& base_of(std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(region_.get());
    return *mg::page_upstream::make(reinterpret_cast<void*>((at + 4095) / 4096 * 4096), bytes / 4096 * 4096);
  }

  muster_simt::device_array<page> region_;
  muster_simt::device_array<place> state_;
  type* heap_;
};

}  // namespace muster_test
