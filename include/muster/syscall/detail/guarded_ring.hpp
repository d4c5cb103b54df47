// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// guarded_ring.hpp: requests of one thread to threads that do not trust it. The producer can write anything into the
// cells at any time; the state behind the consumers' decisions is private to them.
//
// Order      FIFO. If the producer follows the rules below, each request is served once, whole.
// Progress   try_pop is lock-free: it retries only after another consumer has claimed a request. push is wait-free.
// Hostile    A consumer reads a cell's words once, as atomics, and decides by its copy. A producer can repeat, mix or
//            hide only its own requests. It cannot make a consumer wait, read outside the ring, or claim a rank twice.
// Preempted  A consumer stopped between its copy and its claim delays no other; one stopped after its claim delays one
//            request. A stopped producer has not pushed.
// Killed     as stopped.
// Memory     a cache line per request; a power of two of them, at least one per caller.
// Rules      for a producer that wants its requests served: each caller has at most one request in the ring or
//            unanswered, and there are at least as many cells as callers. So a cell is rewritten only after its request
//            has been copied: claims are made in order, after the copy, and the answer comes after the claim. This is
//            the flow control that section I of the paper describes; there are no gaps, and no cell needs to be freed.
// Source     FFQ^s of Arnautov, Felber, Fetzer and Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent
//            FIFO Queue", IPDPS 2017. There a consumer claims a rank before it reads the cell, which requires a trusted
//            producer. Here it copies first and then claims, in a head that is private to the consumers.
#pragma once

#include <muster/base/arch.hpp>    // line_size, isolation_size
#include <muster/base/config.hpp>  // MUSTER_HOT
#include <muster/base/sync.hpp>    // sync::atomic

#include <array>     // the words of a request
#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <optional>  // the result of try_pop

namespace muster::inline MUSTER_ABI::detail {

template <std::size_t Words>
struct alignas(line_size) guarded_cell {
  sync::atomic<std::uint64_t> rank;  // of its request, plus one
  std::array<sync::atomic<std::uint64_t>, Words> words;
};

/// For the inside: one thread.
template <std::size_t Words>
class guarded_producer {
 public:
  using request = std::array<std::uint64_t, Words>;
  using cell = guarded_cell<Words>;

  /// Initializes the cells, before a consumer reads them. `many` is a power of two.
  guarded_producer(cell* cells, std::size_t many, std::uint64_t first_rank = 0) noexcept
      : cells_(cells), mask_(many - 1), tail_(first_rank) {
    // As if the cell held a request of the previous round.
    for (std::size_t i = 0; i < many; ++i) {
      const std::uint64_t rank = first_rank + ((i - first_rank) & mask_);
      cells[i].rank.store(rank + 1 - many, std::memory_order_relaxed);
    }
  }
  /// The rules above guarantee room. Returns the number of the answer.
  MUSTER_HOT std::uint64_t push(const request& r) noexcept {
    cell& to = cells_[tail_ & mask_];
    for (std::size_t i = 0; i < Words; ++i) to.words[i].store(r[i], std::memory_order_relaxed);
    // (1) release: pairs with (2). The words are visible with the rank.
    to.rank.store(++tail_, std::memory_order_release);
    return tail_;
  }

 private:
  cell* const cells_;
  const std::uint64_t mask_;
  std::uint64_t tail_;
};

/// For the outside: any number of threads. It must be in memory that the inside does not have.
template <std::size_t Words>
class guarded_consumers {
 public:
  using request = std::array<std::uint64_t, Words>;
  using cell = guarded_cell<Words>;
  struct numbered {
    request words;
    std::uint64_t number;  // of the answer: that of push(), if the producer follows the rules
  };

  guarded_consumers(const cell* cells, std::size_t many, std::uint64_t first_rank = 0) noexcept
      : cells_(cells), mask_(many - 1), head_(first_rank) {}

  /// Returns a copy of the next request, claimed by the caller; nothing if there is none.
  MUSTER_HOT std::optional<numbered> try_pop() noexcept {
    // Relaxed: the head only says which rank is next, nothing about its cell.
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
      // Relaxed: the copy precedes the caller's answer, and its cell is rewritten only after that. A copy made too late
      // is of an already claimed rank, so the claim fails.
      copy.number = rank + 1;
      if (head_.compare_exchange_strong(rank, rank + 1, std::memory_order_relaxed, std::memory_order_relaxed))
        return copy;
    }
  }
  /// Returns true if the next request is there: a hint for waiting threads.
  bool may_have_one() const noexcept {
    const std::uint64_t rank = head_.load(std::memory_order_relaxed);
    return cells_[rank & mask_].rank.load(std::memory_order_relaxed) == rank + 1;
  }
  /// The number of claims, if the first rank was 0.
  std::uint64_t claimed() const noexcept { return head_.load(std::memory_order_relaxed); }

 private:
  const cell* const cells_;
  const std::uint64_t mask_;
  alignas(isolation_size) sync::atomic<std::uint64_t> head_;
};

}  // namespace muster::inline MUSTER_ABI::detail
