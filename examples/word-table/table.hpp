// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// table.hpp: a hash table of words that the lanes of a kernel build together, with nodes from xmcMalloc.
#pragma once

#include <muster/gpu/lane.cuh>
#include <muster/gpu/xmc.cuh>

#include <atomic>
#include <cstdint>

namespace word_table {

namespace mg = muster::gpu;

struct word {
  std::uint32_t begin, size;  // in the text
};
struct counted_word {
  std::uint32_t number, count;  // the number is that of one of its occurrences
};

/// A node of a chain. Once it is visible, only its count changes.
struct node {
  std::uint64_t next;
  std::uint32_t number;
  mg::atomic<std::uint32_t> count;
};

/// The arguments of a kernel, in the memory of the device.
struct table {
  const char* text;
  const word* words;
  std::uint32_t many_words;
  std::uint32_t buckets;
  mg::atomic<std::uint64_t>* heads;  // the newest node of each chain, as a number
};

MUSTER_GPU std::uint32_t hash_of(const table& t, const word& w) {
  std::uint32_t h = 2166136261U;
  for (std::uint32_t i = 0; i < w.size; ++i) h = (h ^ static_cast<unsigned char>(t.text[w.begin + i])) * 16777619U;
  return h;
}
MUSTER_GPU bool same(const table& t, const word& a, const word& b) {
  if (a.size != b.size) return false;
  for (std::uint32_t i = 0; i < a.size; ++i)
    if (t.text[a.begin + i] != t.text[b.begin + i]) return false;
  return true;
}
/// The first node with the word in [from, end), or null.
MUSTER_GPU node* find(const table& t, std::uint64_t from, std::uint64_t end, const word& w) {
  for (std::uint64_t at = from; at != end;) {
    auto* const n = reinterpret_cast<node*>(at);
    if (same(t, t.words[n->number], w)) return n;
    at = n->next;
  }
  return nullptr;
}

// [insert]
/// Each lane takes one word.
MUSTER_KERNEL void insert_words(table t, mg::atomic<std::uint32_t>* no_memory) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= t.many_words) return;
  const word mine = t.words[me];
  mg::atomic<std::uint64_t>& head = t.heads[hash_of(t, mine) % t.buckets];

  node* made = nullptr;
  std::uint64_t seen = 0;  // nodes from this one on have been compared
  for (;;) {
    // acquire: a visible node is complete.
    std::uint64_t newest = head.load(std::memory_order_acquire);
    if (node* const found = find(t, newest, seen, mine)) {
      found->count.fetch_add(1, std::memory_order_relaxed);
      mg::xmcFree(made);  // another lane was faster
      return;
    }
    if (made == nullptr) {
      made = static_cast<node*>(mg::xmcMalloc(sizeof(node)));
      if (made == nullptr) {
        no_memory->fetch_add(1, std::memory_order_relaxed);
        return;
      }
      made->number = me;
      ::new (&made->count) mg::atomic<std::uint32_t>(1);
    }
    seen = newest;
    made->next = newest;
    if (head.compare_exchange_strong(newest, reinterpret_cast<std::uint64_t>(made), std::memory_order_release,
                                     std::memory_order_relaxed))
      return;
  }
}
// [/insert]

/// Each lane takes one chain, writes its words to `out`, and frees its nodes.
MUSTER_KERNEL void take_apart(table t, counted_word* out, mg::atomic<std::uint32_t>* many) {
  const std::uint32_t me = mg::block_index().x * mg::block_size().x + mg::thread_index().x;
  if (me >= t.buckets) return;
  for (std::uint64_t at = t.heads[me].load(std::memory_order_relaxed); at != 0;) {
    auto* const n = reinterpret_cast<node*>(at);
    at = n->next;
    out[many->fetch_add(1, std::memory_order_relaxed)] = {n->number, n->count.load(std::memory_order_relaxed)};
    mg::xmcFree(n);
  }
}

}  // namespace word_table
