// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// table.hpp: a hash table of words that the lanes of a kernel build together, in a gpu::heap. Each node has a copy of
// its word, so the text is not needed later.
#pragma once

#include <muster/gpu/heap.cuh>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace word_table {

namespace mg = muster::gpu;

struct word {
  std::uint32_t begin, size;  // in the text
};
/// A word without its text, which is in an array of characters.
struct counted_word {
  std::uint32_t begin, size, count;
};

/// A node of a chain, followed by its word. Once it is visible, only its count changes.
struct node {
  std::uint64_t next;
  std::uint32_t size;
  mg::atomic<std::uint32_t> count;

  MUSTER_GPU char* text() { return reinterpret_cast<char*>(this + 1); }
};

/// The chains, by the hashes of their words, in the memory of the device.
struct table {
  mg::atomic<std::uint64_t>* heads;  // the newest node of each chain, as a number
  std::uint32_t buckets;
};

MUSTER_GPU std::uint32_t hash_of(const char* text, std::uint32_t size) {
  std::uint32_t h = 2166136261U;
  for (std::uint32_t i = 0; i < size; ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 16777619U;
  return h;
}
MUSTER_GPU bool same(const char* a, const char* b, std::uint32_t size) {
  for (std::uint32_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return false;
  return true;
}
/// The first node with the word in [from, end), or null.
MUSTER_GPU node* find(std::uint64_t from, std::uint64_t end, const char* text, std::uint32_t size) {
  for (std::uint64_t at = from; at != end;) {
    auto* const n = reinterpret_cast<node*>(at);
    if (n->size == size && same(n->text(), text, size)) return n;
    at = n->next;
  }
  return nullptr;
}

// [insert]
/// Each lane takes one word of a part of the text.
MUSTER_KERNEL void insert_words(mg::heap_ref heap, table to, const char* text, const word* words, std::uint32_t many,
                                mg::atomic<std::uint32_t>* no_memory) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= many) return;
  const word mine = words[me];
  const char* const its_text = text + mine.begin;
  mg::atomic<std::uint64_t>& head = to.heads[hash_of(its_text, mine.size) % to.buckets];

  node* made = nullptr;
  std::uint64_t seen = 0;  // nodes from this one on have been compared
  for (;;) {
    // acquire: a visible node is complete.
    std::uint64_t newest = head.load(std::memory_order_acquire);
    if (node* const found = find(newest, seen, its_text, mine.size)) {
      found->count.fetch_add(1, std::memory_order_relaxed);
      heap.free(made);  // another lane was faster
      return;
    }
    if (made == nullptr) {
      made = static_cast<node*>(heap.malloc(sizeof(node) + mine.size));
      if (made == nullptr) {
        no_memory->fetch_add(1, std::memory_order_relaxed);
        return;
      }
      made->size = mine.size;
      ::new (&made->count) mg::atomic<std::uint32_t>(1);
      for (std::uint32_t i = 0; i < mine.size; ++i) made->text()[i] = its_text[i];
    }
    seen = newest;
    made->next = newest;
    if (head.compare_exchange_strong(newest, reinterpret_cast<std::uint64_t>(made), std::memory_order_release,
                                     std::memory_order_relaxed))
      return;
  }
}
// [/insert]

/// Each lane counts the words of one chain, and the characters in them.
MUSTER_KERNEL void measure(table of, mg::atomic<std::uint32_t>* words, mg::atomic<std::uint32_t>* characters) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= of.buckets) return;
  std::uint32_t many = 0, size = 0;
  for (std::uint64_t at = of.heads[me].load(std::memory_order_relaxed); at != 0;) {
    auto* const n = reinterpret_cast<node*>(at);
    at = n->next;
    ++many;
    size += n->size;
  }
  if (many == 0) return;
  words->fetch_add(many, std::memory_order_relaxed);
  characters->fetch_add(size, std::memory_order_relaxed);
}
/// Each lane takes one chain, writes its words to `out` and their characters to `text`, and frees its nodes.
MUSTER_KERNEL void take_apart(mg::heap_ref heap, table from, counted_word* out, char* text,
                              mg::atomic<std::uint32_t>* words, mg::atomic<std::uint32_t>* characters) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= from.buckets) return;
  for (std::uint64_t at = from.heads[me].load(std::memory_order_relaxed); at != 0;) {
    auto* const n = reinterpret_cast<node*>(at);
    at = n->next;
    const std::uint32_t begin = characters->fetch_add(n->size, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < n->size; ++i) text[begin + i] = n->text()[i];
    out[words->fetch_add(1, std::memory_order_relaxed)] = {begin, n->size, n->count.load(std::memory_order_relaxed)};
    heap.free(n);
  }
  from.heads[me].store(0, std::memory_order_relaxed);
}

}  // namespace word_table
