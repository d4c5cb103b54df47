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

  class producer {
   public:
    producer(cached_index_ring& q, unsigned) : ring_(q) {}
    MUSTER_HOT void push(item value) {
      const std::size_t at = ring_.write_.load(std::memory_order_relaxed);
      const std::size_t next = ring_.after(at);
      if (next == ring_.read_seen_) {
        until([&] { return next != (ring_.read_seen_ = ring_.read_.load(std::memory_order_acquire)); });
      }
      ring_.slots_[at] = value;
      ring_.write_.store(next, std::memory_order_release);
    }

   private:
    cached_index_ring& ring_;
  };

  class consumer {
   public:
    consumer(cached_index_ring& q, unsigned) : ring_(q) {}
    MUSTER_HOT bool try_pop(item& value) {
      const std::size_t at = ring_.read_.load(std::memory_order_relaxed);
      if (at == ring_.write_seen_) {
        ring_.write_seen_ = ring_.write_.load(std::memory_order_acquire);
        if (at == ring_.write_seen_) return false;
      }
      value = ring_.slots_[at];
      ring_.read_.store(ring_.after(at), std::memory_order_release);
      return true;
    }

   private:
    cached_index_ring& ring_;
  };

 private:
  std::size_t after(std::size_t index) const { return index + 1 == slots_.size() ? 0 : index + 1; }

  std::vector<item> slots_;
  alignas(isolation_size) std::atomic<std::size_t> write_{0};
  alignas(isolation_size) std::size_t read_seen_ = 0;  // the producer's copy of read_
  alignas(isolation_size) std::atomic<std::size_t> read_{0};
  alignas(isolation_size) std::size_t write_seen_ = 0;  // the consumer's copy of write_
};

}  // namespace muster::bench
