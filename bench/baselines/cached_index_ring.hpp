// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cached_index_ring.hpp: a single-producer, single-consumer ring in the manner of rigtorp's SPSCQueue: each side keeps
// a copy of the other side's index on its own line and reads the real one only when the copy says full or empty.
// One slot more than the capacity stays free, so that equal indices mean empty.
#pragma once

#include "driver/stream.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <atomic>
#include <cstddef>
#include <vector>

namespace muster::bench {

class cached_index_ring {
 public:
  static constexpr ending ends_by = ending::drained;

  cached_index_ring(std::size_t capacity, unsigned, unsigned) : slots_(capacity + 1) {}

  MUSTER_HOT void push(item value) {
    const std::size_t at = write_.load(std::memory_order_relaxed);
    const std::size_t next = after(at);
    if (next == read_seen_) until([&] { return next != (read_seen_ = read_.load(std::memory_order_acquire)); });
    slots_[at] = value;
    write_.store(next, std::memory_order_release);
  }

  MUSTER_HOT bool try_pop(item& value) {
    const std::size_t at = read_.load(std::memory_order_relaxed);
    if (at == write_seen_) {
      write_seen_ = write_.load(std::memory_order_acquire);
      if (at == write_seen_) return false;
    }
    value = slots_[at];
    read_.store(after(at), std::memory_order_release);
    return true;
  }

 private:
  std::size_t after(std::size_t index) const { return index + 1 == slots_.size() ? 0 : index + 1; }

  std::vector<item> slots_;
  alignas(isolation_size) std::atomic<std::size_t> write_{0};
  alignas(isolation_size) std::size_t read_seen_ = 0;  // the producer's copy of read_
  alignas(isolation_size) std::atomic<std::size_t> read_{0};
  alignas(isolation_size) std::size_t write_seen_ = 0;  // the consumer's copy of write_
};

}  // namespace muster::bench
