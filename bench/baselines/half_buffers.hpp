// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// half_buffers.hpp: a limit, not a queue: two buffers of half the capacity, handed over as a whole. An item costs its
// share of the cache lines that must move between the cores, and next to nothing else; it also waits for all others
// of its half, which no queue may ask of it.
#pragma once

#include "driver/stream.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

namespace muster::bench {

class half_buffers {
 public:
  static constexpr ending ends_by = ending::closed;

  half_buffers(std::size_t capacity, unsigned, unsigned) {
    for (half& h : halves_) h.items.resize(capacity / 2);
  }

  /// Hands over what the producer has filled, then an empty half. Called by the producer only.
  void close() {
    for (int i = 0; i < 2; ++i) {
      half& h = halves_[writing_];
      until([&h] { return !h.full.load(std::memory_order_acquire); });
      h.size = filled_;
      h.full.store(true, std::memory_order_release);
      writing_ ^= 1u;
      filled_ = 0;
    }
  }

  class producer {
   public:
    producer(half_buffers& q, unsigned) : all_(q) {}
    MUSTER_HOT void push(item value) {
      half& h = all_.halves_[all_.writing_];
      if (all_.filled_ == 0) until([&h] { return !h.full.load(std::memory_order_acquire); });
      h.items[all_.filled_++] = value;
      if (all_.filled_ == h.items.size()) {
        h.size = all_.filled_;
        h.full.store(true, std::memory_order_release);
        all_.writing_ ^= 1u;
        all_.filled_ = 0;
      }
    }

   private:
    half_buffers& all_;
  };

  class consumer {
   public:
    consumer(half_buffers& q, unsigned) : all_(q) {}
    MUSTER_HOT bool pop(item& value) {
      half& h = all_.halves_[reading_];
      if (taken_ == 0) until([&h] { return h.full.load(std::memory_order_acquire); });
      if (h.size == 0) return false;
      value = h.items[taken_++];
      if (taken_ == h.size) {
        h.full.store(false, std::memory_order_release);
        reading_ ^= 1u;
        taken_ = 0;
      }
      return true;
    }

   private:
    half_buffers& all_;
    unsigned reading_ = 0;
    std::size_t taken_ = 0;
  };

 private:
  struct alignas(isolation_size) half {
    std::atomic<bool> full{false};  // set by the producer, cleared by the consumer: who may touch the rest
    std::size_t size = 0;           // 0 in a full half means the end
    std::vector<item> items;
  };

  std::array<half, 2> halves_;
  alignas(isolation_size) unsigned writing_ = 0;  // these two are the producer's
  std::size_t filled_ = 0;
};

}  // namespace muster::bench
