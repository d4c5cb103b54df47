// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutex_ring.hpp: the queue everybody would write first: a ring, one mutex, two condition variables. Strict FIFO.
#pragma once

#include "driver/stream.hpp"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::bench {

template <class T>
class mutex_ring {
 public:
  static constexpr ending ends_by = ending::closed;

  mutex_ring(std::size_t capacity, unsigned, unsigned) : slots_(capacity) {}

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
  }

  class producer {
   public:
    producer(mutex_ring& q, unsigned) : ring_(q) {}
    MUSTER_HOT void push(T value) {
      {
        std::unique_lock lock(ring_.mutex_);
        ring_.not_full_.wait(lock, [this] { return ring_.size_ < ring_.slots_.size(); });
        ring_.slots_[ring_.tail_] = std::move(value);
        ring_.step(ring_.tail_);
        ++ring_.size_;
      }
      ring_.not_empty_.notify_one();
    }

   private:
    mutex_ring& ring_;
  };

  class consumer {
   public:
    consumer(mutex_ring& q, unsigned) : ring_(q) {}
    MUSTER_HOT bool pop(T& value) {
      {
        std::unique_lock lock(ring_.mutex_);
        ring_.not_empty_.wait(lock, [this] { return ring_.size_ != 0 || ring_.closed_; });
        if (ring_.size_ == 0) return false;
        value = std::move(ring_.slots_[ring_.head_]);
        ring_.step(ring_.head_);
        --ring_.size_;
      }
      ring_.not_full_.notify_one();
      return true;
    }

   private:
    mutex_ring& ring_;
  };

 private:
  void step(std::size_t& index) const {
    if (++index == slots_.size()) index = 0;
  }

  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::vector<T> slots_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace muster::bench
