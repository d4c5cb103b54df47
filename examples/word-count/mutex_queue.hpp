// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutex_queue.hpp: the queue of a program without muster: a ring, a mutex, two condition variables.
//
// It has the part of muster::spmc_queue's interface that the pipeline needs, so both run the same program.
#pragma once

#include <muster/queue.hpp>  // queue_status

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace word_count {

template <class T>
class mutex_queue {
 public:
  explicit mutex_queue(std::size_t capacity) : ring_(capacity) {}

  /// Waits while the queue is full. Returns closed, and leaves `value` untouched, when the queue was closed.
  muster::queue_status push(T&& value) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [this] { return size_ < ring_.size() || closed_; });
      if (closed_) return muster::queue_status::closed;
      ring_[(first_ + size_) % ring_.size()].emplace(std::move(value));
      ++size_;
    }
    not_empty_.notify_one();  // After the unlock, so that the woken thread finds the mutex free.
    return muster::queue_status::success;
  }

  /// Waits while the queue is empty. Returns no value when the queue was closed and every item has been taken.
  std::optional<T> pop() {
    std::optional<T> item;
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [this] { return size_ != 0 || closed_; });
      if (size_ == 0) return item;
      item = std::exchange(ring_[first_], std::nullopt);
      first_ = (first_ + 1) % ring_.size();
      --size_;
    }
    not_full_.notify_one();
    return item;
  }

  /// Refuses further items; the items inside can still be popped. Wakes all waiting threads.
  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards everything below
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::vector<std::optional<T>> ring_;
  std::size_t first_ = 0;  // the place of the oldest item
  std::size_t size_ = 0;
  bool closed_ = false;
};

}  // namespace word_count
