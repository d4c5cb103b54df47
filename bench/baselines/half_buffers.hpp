// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// half_buffers.hpp: a limit, not a queue: two buffers of half the capacity, handed over as a whole. An item costs its
// share of the cache lines that must move between the cores, and next to nothing else; it also waits for all others
// of its half, which no queue may ask of it. Where `Leaves`, the consumer writes into each line that it has emptied, as
// spsc_queue does: the producer has the line back sooner. Without, it only reads.
#pragma once

#include "driver/between.hpp"
#include "driver/stream.hpp"

#include <muster/base/arch.hpp>  // isolation_size, leave_modified

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace muster::bench {

/// One producer, one consumer. Uses memory for `capacity` items that outlives it.
template <class T, bool Leaves>
class half_buffers {
 public:
  half_buffers(T* items, std::size_t capacity) : size_(capacity / 2), halves_{{items}, {items + capacity / 2}} {}

  /// Hands over what the producer has filled, then an empty half. Called by the producer only.
  void close() {
    for (int i = 0; i < 2; ++i) {
      half& h = halves_[writing_];
      until([&h] { return !h.full.load(std::memory_order_acquire); });
      hand_over(h);
    }
  }

  MUSTER_HOT void push(const T& value) {
    half& h = halves_[writing_];
    if (filled_ == 0) until([&h] { return !h.full.load(std::memory_order_acquire); });
    h.items[filled_++] = value;
    if (filled_ == size_) hand_over(h);
  }

  MUSTER_HOT bool pop(T& value) {
    half& h = halves_[reading_];
    if (taken_ == 0) until([&h] { return h.full.load(std::memory_order_acquire); });
    if (h.size == 0) return false;
    value = h.items[taken_++];
    if (Leaves && taken_ % per_line == 0) leave_modified(&h.items[taken_ - 1], sizeof(T));
    if (taken_ == h.size) {
      h.full.store(false, std::memory_order_release);
      reading_ ^= 1u;
      taken_ = 0;
    }
    return true;
  }

 private:
  struct alignas(isolation_size) half {
    T* items;
    std::atomic<bool> full{false};  // set by the producer, cleared by the consumer: who may touch the rest
    std::size_t size = 0;           // 0 in a full half means the end
  };

  void hand_over(half& h) {
    h.size = filled_;
    h.full.store(true, std::memory_order_release);
    writing_ ^= 1u;
    filled_ = 0;
  }

  static constexpr std::size_t per_line = std::max<std::size_t>(1, line_size / sizeof(T));

  const std::size_t size_;
  half halves_[2];
  alignas(isolation_size) unsigned writing_ = 0;  // these two are the producer's
  std::size_t filled_ = 0;
  alignas(isolation_size) unsigned reading_ = 0;  // and these the consumer's
  std::size_t taken_ = 0;
};

/// Between threads.
template <bool Leaves>
class half_buffers_of_items {
 public:
  static constexpr ending ends_by = ending::closed;

  half_buffers_of_items(std::size_t capacity, unsigned, unsigned) : memory_(capacity), all_(memory_.data(), capacity) {}

  void close() { all_.close(); }
  MUSTER_HOT void push(item value) { all_.push(value); }
  MUSTER_HOT bool pop(item& value) { return all_.pop(value); }

 private:
  std::vector<item> memory_;
  half_buffers<item, Leaves> all_;
};

/// Between processes, which have the memory at the same address.
template <bool Leaves>
class half_buffers_of_parcels {
  using buffers = half_buffers<parcel, Leaves>;

 public:
  half_buffers_of_parcels(std::size_t capacity, unsigned, unsigned)
      : memory_(mapped_region::make_anonymous(sizeof(buffers) + capacity * sizeof(parcel), [](unsigned char*) {})),
        all_(*std::construct_at(reinterpret_cast<buffers*>(memory_.start()),
                                reinterpret_cast<parcel*>(memory_.start() + sizeof(buffers)), capacity)) {}
  void forget() {}

  class producer {
   public:
    explicit producer(half_buffers_of_parcels& c) : all_(c.all_) {}
    void push(const parcel& p) { all_.push(p); }
    void leave(bool) { all_.close(); }

   private:
    buffers& all_;
  };
  class consumer {
   public:
    explicit consumer(half_buffers_of_parcels& c) : all_(c.all_) {}
    bool pop(parcel& p) { return all_.pop(p); }

   private:
    buffers& all_;
  };

 private:
  mapped_region memory_;
  buffers& all_;
};

}  // namespace muster::bench
