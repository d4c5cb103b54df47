// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq_spmc_paper.hpp: FFQ^s as published: Algorithm 1 of Arnautov, Felber, Fetzer, Trach, "FFQ: A Fast
// Single-Producer/Multiple-Consumer Concurrent FIFO Queue", IPDPS 2017.
//
// Faithful to  the algorithm, step by step, with the authors' erratum: ranks start at N, 0 marks a free cell and "no
//              gap", and a consumer skips when gap >= rank and the cell does not hold its rank; its variant for one
//              consumer, whose head needs no atomic increment.
// Differs      the paper assumes a flow control outside that keeps the array from filling up. Without it the producer
//              makes a gap for every occupied cell it meets, the ranks run away from the consumers, and throughput
//              collapses. Ours waits, before enqueuing, while N/2 ranks are unclaimed. Loads and stores are acquire and
//              release where the paper has sequential consistency: on x86-64 that spares the producer a fence per item.
#pragma once

#include "driver/stream.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

template <class T>
struct ffq_packed_cell {
  sync::cell<T> data;
  sync::atomic<std::int64_t> rank{0};
  sync::atomic<std::int64_t> gap{0};
};

/// The paper's "dedicated cache lines".
template <class T>
struct alignas(line_size) ffq_aligned_cell : ffq_packed_cell<T> {};

/// `SharedHead` is false in the paper's single-consumer variant, whose head needs no atomic increment.
template <class T, template <class> class Cell = ffq_aligned_cell, bool SharedHead = true>
class ffq_spmc_paper {
 public:
  static constexpr ending ends_by = ending::poisoned;

  ffq_spmc_paper(std::size_t capacity, unsigned, unsigned)
      : size_(static_cast<std::int64_t>(std::bit_ceil(capacity))),
        cells_(std::make_unique<Cell<T>[]>(static_cast<std::size_t>(size_))),
        head_(size_),
        tail_(size_),
        head_seen_(size_) {}

  class producer {
   public:
    producer(ffq_spmc_paper& q, unsigned) : queue_(q) {}
    MUSTER_HOT void push(T value) {
      if (queue_.tail_ - queue_.head_seen_ >= queue_.size_ / 2) {
        until([this] {
          queue_.head_seen_ = queue_.head_.load(std::memory_order_relaxed);
          return queue_.tail_ - queue_.head_seen_ < queue_.size_ / 2;
        });
      }
      queue_.enqueue(std::move(value));
    }

   private:
    ffq_spmc_paper& queue_;
  };

  class consumer {
   public:
    consumer(ffq_spmc_paper& q, unsigned) : queue_(q) {}
    MUSTER_HOT T pop() { return queue_.dequeue(); }
    /// Checks first, then claims. Only for a single consumer: no other thread can claim between the two steps.
    MUSTER_HOT bool try_pop(T& value) {
      static_assert(!SharedHead, "the paper has no try_pop for several consumers");
      const std::int64_t rank = queue_.head_.load(std::memory_order_relaxed);
      Cell<T>& c = queue_.at(rank);
      if (c.rank.load(std::memory_order_acquire) != rank && c.gap.load(std::memory_order_acquire) < rank) return false;
      value = queue_.dequeue();
      return true;
    }

   private:
    ffq_spmc_paper& queue_;
  };

 private:
  Cell<T>& at(std::int64_t rank) { return cells_[static_cast<std::size_t>(rank & (size_ - 1))]; }

  std::int64_t claim() {
    if constexpr (SharedHead) return head_.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t rank = head_.load(std::memory_order_relaxed);
    head_.store(rank + 1, std::memory_order_relaxed);
    return rank;
  }

  void enqueue(T&& value) {
    for (bool success = false; !success; ++tail_) {
      Cell<T>& c = at(tail_);
      if (c.rank.load(std::memory_order_acquire) != 0) {
        c.gap.store(tail_, std::memory_order_release);
      } else {
        c.data.write_ref() = std::move(value);
        c.rank.store(tail_, std::memory_order_release);
        success = true;
      }
    }
  }

  T dequeue() {
    std::int64_t rank = claim();
    patience p;
    for (;;) {
      Cell<T>& c = at(rank);
      if (c.rank.load(std::memory_order_acquire) == rank) {
        T value = std::move(c.data.write_ref());
        c.rank.store(0, std::memory_order_release);
        return value;
      }
      if (c.gap.load(std::memory_order_acquire) >= rank && c.rank.load(std::memory_order_acquire) != rank) {
        rank = claim();
        p.reset();
      } else {
        p.wait();
      }
    }
  }

  const std::int64_t size_;
  const std::unique_ptr<Cell<T>[]> cells_;
  alignas(isolation_size) sync::atomic<std::int64_t> head_;
  alignas(isolation_size) std::int64_t tail_;  // the producer's
  std::int64_t head_seen_;                     // the flow control's copy of head_
};

}  // namespace muster::bench::inline MUSTER_ABI
