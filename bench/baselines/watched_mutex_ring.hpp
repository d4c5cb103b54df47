// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// watched_mutex_ring.hpp: the obvious queue to an event loop: a ring, one mutex, and an eventfd that is written when an
// item comes into the empty ring.
#pragma once

#include "driver/event_loop.hpp"
#include "driver/stream.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::bench {

template <class T>
class watched_mutex_ring {
 public:
  static constexpr ending ends_by = ending::closed;

  watched_mutex_ring(std::size_t capacity, unsigned, unsigned) : slots_(capacity) {}
  ~watched_mutex_ring() { ::close(fd_); }
  watched_mutex_ring(const watched_mutex_ring&) = delete;
  watched_mutex_ring& operator=(const watched_mutex_ring&) = delete;

  MUSTER_HOT void push(T value) {
    bool first = false;
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [this] { return size_ < slots_.size(); });
      slots_[(head_ + size_) % slots_.size()] = std::move(value);
      first = size_++ == 0;
    }
    if (first) ::eventfd_write(fd_, 1);
  }

  class consumer {
   public:
    consumer(watched_mutex_ring& q, unsigned) : queue_(q), loop_(q.fd_) {}
    MUSTER_HOT bool pop(T& value) {
      while (!queue_.try_pop(value)) {
        loop_.wait();
        eventfd_t count = 0;
        ::eventfd_read(queue_.fd_, &count);
      }
      return true;
    }

   private:
    watched_mutex_ring& queue_;
    event_loop loop_;
  };

 private:
  bool try_pop(T& value) {
    {
      const std::lock_guard lock(mutex_);
      if (size_ == 0) return false;
      value = std::move(slots_[head_]);
      head_ = (head_ + 1) % slots_.size();
      --size_;
    }
    not_full_.notify_one();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable not_full_;
  std::vector<T> slots_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
  const int fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

}  // namespace muster::bench
