// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// vyukov_ring.hpp: D. Vyukov's bounded queue of many producers and many consumers, with which Figure 7 of the FFQ paper
// compares. A cell has a sequence number: that of the push that may fill it, and one more when it is full. Both sides
// claim with compare-and-swap.
#pragma once

#include "sim/workloads/wait.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace muster::bench::inline MUSTER_ABI {

template <class T>
class vyukov_ring {
 public:
  explicit vyukov_ring(std::size_t capacity) : size_(std::bit_ceil(capacity)), cells_(std::make_unique<cell[]>(size_)) {
    for (std::size_t i = 0; i < size_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }

  /// Waits while the queue is full.
  MUSTER_HOT void push(const T& value) {
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    patience p;
    for (;;) {
      cell& c = cells_[at & (size_ - 1)];
      const std::uint64_t found = c.sequence.load(std::memory_order_acquire);
      if (found == at) {
        if (!tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed, std::memory_order_relaxed)) continue;
        c.value.write_ref() = value;
        c.sequence.store(at + 1, std::memory_order_release);
        return;
      }
      if (found < at) p.wait();
      at = tail_.load(std::memory_order_relaxed);
    }
  }

  MUSTER_HOT bool try_pop(T& value) {
    std::uint64_t at = head_.load(std::memory_order_relaxed);
    for (;;) {
      cell& c = cells_[at & (size_ - 1)];
      const std::uint64_t found = c.sequence.load(std::memory_order_acquire);
      if (found == at + 1) {
        if (!head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed, std::memory_order_relaxed)) continue;
        value = c.value.write_ref();
        c.sequence.store(at + size_, std::memory_order_release);
        return true;
      }
      if (found < at + 1) return false;
      at = head_.load(std::memory_order_relaxed);
    }
  }

 private:
  struct alignas(line_size) cell {
    sync::atomic<std::uint64_t> sequence{0};
    sync::cell<T> value;
  };

  const std::size_t size_;
  const std::unique_ptr<cell[]> cells_;
  alignas(isolation_size) sync::atomic<std::uint64_t> head_{0};
  alignas(isolation_size) sync::atomic<std::uint64_t> tail_{0};
};

}  // namespace muster::bench::inline MUSTER_ABI
