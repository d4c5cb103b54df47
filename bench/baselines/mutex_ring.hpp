// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutex_ring.hpp: the obvious queue: a ring, one mutex, two condition variables. Strict FIFO.
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

  MUSTER_HOT void push(T value) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [this] { return size_ < slots_.size(); });
      slots_[tail_] = std::move(value);
      step(tail_);
      ++size_;
    }
    not_empty_.notify_one();
  }

  MUSTER_HOT bool pop(T& value) {
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [this] { return size_ != 0 || closed_; });
      if (size_ == 0) return false;
      value = std::move(slots_[head_]);
      step(head_);
      --size_;
    }
    not_full_.notify_one();
    return true;
  }

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
