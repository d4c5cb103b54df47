// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// guarded_ring.hpp: requests of one thread to threads that do not trust it. The cells lie in memory that the producer
// can write at any time, with anything; what the consumers decide by is their own.
//
// Order      FIFO. A producer that keeps to the rules below has each request served once, whole.
// Progress   try_pop is lock-free: it looks again only when another consumer has claimed a request. push is wait-free.
// Hostile    A consumer reads a cell's words once, as atomics, and decides by its copy. A producer can repeat requests,
//            mix them or hide them: its own. It cannot make a consumer wait, look outside the ring or claim a rank
//            twice.
// Preempted  A consumer stopped between its copy and its claim holds up nobody; one stopped after its claim keeps one
//            request. A stopped producer has not pushed.
// Killed     as stopped.
// Memory     a cache line for a request; a power of two of them, one for each caller at least.
// Rules      for a producer that wants its requests served: a caller has one request in the ring or unanswered at most,
//            and there are as many cells as callers. So a cell is written again only when its request has been copied:
//            claims are made in order, after the copy, and the answer comes after the claim. This is the flow control
//            that section I of the paper describes; there are no gaps, and nobody frees a cell.
// Source     FFQ^s of Arnautov, Felber, Fetzer and Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent
//            FIFO Queue", IPDPS 2017. There a consumer claims a rank first and reads its cell then, which needs a
//            producer who is trusted. Here it copies first and then claims, in a head that is private to the consumers.
#pragma once

#include <muster/base/arch.hpp>    // line_size, isolation_size
#include <muster/base/config.hpp>  // MUSTER_HOT
#include <muster/base/sync.hpp>    // sync::atomic

#include <array>     // the words of a request
#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <optional>  // what try_pop returns

namespace muster::inline MUSTER_ABI::detail {

template <std::size_t Words>
struct alignas(line_size) guarded_cell {
  sync::atomic<std::uint64_t> rank;  // of its request, and one more
  std::array<sync::atomic<std::uint64_t>, Words> words;
};

/// For the inside: one thread.
template <std::size_t Words>
class guarded_producer {
 public:
  using request = std::array<std::uint64_t, Words>;
  using cell = guarded_cell<Words>;

  /// Prepares the cells, before a consumer looks. `many` is a power of two.
  guarded_producer(cell* cells, std::size_t many, std::uint64_t first_rank = 0) noexcept
      : cells_(cells), mask_(many - 1), tail_(first_rank) {
    // The rank before: of the round before this one.
    for (std::size_t i = 0; i < many; ++i) {
      const std::uint64_t rank = first_rank + ((i - first_rank) & mask_);
      cells[i].rank.store(rank + 1 - many, std::memory_order_relaxed);
    }
  }
  /// By the rules above, there is room. Returns the number that the answer will have.
  MUSTER_HOT std::uint64_t push(const request& r) noexcept {
    cell& to = cells_[tail_ & mask_];
    for (std::size_t i = 0; i < Words; ++i) to.words[i].store(r[i], std::memory_order_relaxed);
    // (1) release: pairs with (2). With the rank the words are found.
    to.rank.store(++tail_, std::memory_order_release);
    return tail_;
  }

 private:
  cell* const cells_;
  const std::uint64_t mask_;
  std::uint64_t tail_;
};

/// For the outside: any number of threads. It lies in memory that the inside does not have.
template <std::size_t Words>
class guarded_consumers {
 public:
  using request = std::array<std::uint64_t, Words>;
  using cell = guarded_cell<Words>;
  struct numbered {
    request words;
    std::uint64_t number;  // for the answer: that of push(), if the producer keeps to the rules
  };

  guarded_consumers(const cell* cells, std::size_t many, std::uint64_t first_rank = 0) noexcept
      : cells_(cells), mask_(many - 1), head_(first_rank) {}

  /// A copy of the next request, which is the caller's alone; nothing when there is none.
  MUSTER_HOT std::optional<numbered> try_pop() noexcept {
    // Relaxed: what a head tells is which rank is next, and nothing about its cell.
    std::uint64_t rank = head_.load(std::memory_order_relaxed);
    for (;;) {
      const cell& from = cells_[rank & mask_];
      // (2) acquire: pairs with (1).
      if (from.rank.load(std::memory_order_acquire) != rank + 1) {
        const std::uint64_t now = head_.load(std::memory_order_relaxed);
        if (now == rank) return std::nullopt;
        rank = now;
        continue;
      }
      numbered copy;
      for (std::size_t i = 0; i < Words; ++i) copy.words[i] = from.words[i].load(std::memory_order_relaxed);
      // Relaxed: the copy was made before the caller has its answer, and its cell is written again after that. A copy
      // that was made too late is of a rank that has been claimed, as the claim finds out.
      copy.number = rank + 1;
      if (head_.compare_exchange_strong(rank, rank + 1, std::memory_order_relaxed, std::memory_order_relaxed))
        return copy;
    }
  }
  /// Whether the next request is there: a hint for those who wait.
  bool may_have_one() const noexcept {
    const std::uint64_t rank = head_.load(std::memory_order_relaxed);
    return cells_[rank & mask_].rank.load(std::memory_order_relaxed) == rank + 1;
  }
  /// How many have been claimed, when the first rank was 0.
  std::uint64_t claimed() const noexcept { return head_.load(std::memory_order_relaxed); }

 private:
  const cell* const cells_;
  const std::uint64_t mask_;
  alignas(isolation_size) sync::atomic<std::uint64_t> head_;
};

}  // namespace muster::inline MUSTER_ABI::detail
