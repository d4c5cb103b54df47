// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap.cpp: see heap.hpp. Replaces operator new and delete of the whole program.
#include "checker/heap.hpp"

#include "checker/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace muster_model::heap {
namespace {

/// Stands before every block, tracked or not.
struct header {
  enum class state : std::uint32_t { plain = 0x9a11a9e5, live = 0x11fe11fe, freed = 0xdeadb10c };
  header* newer;  // tracked blocks of this execution, newest last
  header* older;
  std::size_t size;
  std::uint32_t offset;  // from the start of the allocation to the block
  state now;
};

bool tracking = false;
header* newest = nullptr;

header* of(void* block) { return static_cast<header*>(block) - 1; }

void* allocate(std::size_t size, std::size_t alignment) {
  alignment = alignment < alignof(header) ? alignof(header) : alignment;
  const std::size_t offset = (sizeof(header) + alignment - 1) / alignment * alignment;
  const std::size_t whole = (offset + size + alignment - 1) / alignment * alignment;
  char* const start = static_cast<char*>(std::aligned_alloc(alignment, whole));
  if (start == nullptr) throw std::bad_alloc();
  header* const h = of(start + offset);
  *h = {nullptr, nullptr, size, static_cast<std::uint32_t>(offset), header::state::plain};
  if (tracking) {
    h->now = header::state::live;
    h->older = newest;
    if (newest != nullptr) newest->newer = h;
    newest = h;
  }
  return start + offset;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  header* const h = of(block);
  switch (h->now) {
    case header::state::plain: std::free(static_cast<char*>(block) - h->offset); return;
    case header::state::live:
      h->now = header::state::freed;
      std::memset(block, 0xdd, h->size);
      return;
    case header::state::freed: break;
  }
  if (engine::is_running()) engine::running().fail("a block is freed twice");
  std::abort();
}

}  // namespace

void begin() { tracking = true; }

std::string end(bool complete) {
  tracking = false;
  std::size_t leaked = 0;
  std::size_t bytes = 0;
  for (header* h = newest; h != nullptr;) {
    header* const older = h->older;
    if (h->now == header::state::live) {
      ++leaked;
      bytes += h->size;
    }
    char* const block = reinterpret_cast<char*>(h + 1);
    std::free(block - h->offset);
    h = older;
  }
  newest = nullptr;
  if (!complete || leaked == 0) return {};
  return std::to_string(leaked) + " blocks of together " + std::to_string(bytes) + " bytes are never freed";
}

untracked::untracked() noexcept : before_(tracking) { tracking = false; }
untracked::~untracked() { tracking = before_; }

}  // namespace muster_model::heap

// The replacements. Every form that is not here calls one of these.
void* operator new(std::size_t size) { return muster_model::heap::allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return muster_model::heap::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { muster_model::heap::release(block); }
void operator delete(void* block, std::size_t) noexcept { muster_model::heap::release(block); }
void operator delete(void* block, std::align_val_t) noexcept { muster_model::heap::release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { muster_model::heap::release(block); }
