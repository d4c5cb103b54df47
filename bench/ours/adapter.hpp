// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// adapter.hpp: the library's queues in the shape the driver wants (driver/stream.hpp). They share one face.
#pragma once

#include "driver/stream.hpp"

#include <muster/queue/ring.hpp>    // queue_options
#include <muster/queue/status.hpp>  // queue_status

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace muster::bench {

template <class Queue>
class ours {
 public:
  using value_type = typename Queue::value_type;
  static constexpr ending ends_by = ending::closed;

  ours(std::size_t capacity, unsigned producers, unsigned consumers)
      : queue_(capacity, queue_options{.threads = std::max<std::size_t>(64, producers + consumers)}) {}

  void close() { queue_.close(); }

  class producer {
   public:
    producer(ours& q, unsigned) : queue_(q.queue_) {}
    void push(value_type value) {
      if (queue_.push(std::move(value)) != queue_status::success)
        throw std::logic_error("push on an open queue failed");
    }
    void push_n(const value_type* first, std::size_t n) {
      if (queue_.push_n(first, n) != n) throw std::logic_error("push_n on an open queue came back early");
    }

   private:
    Queue& queue_;
  };

  class consumer {
   public:
    consumer(ours& q, unsigned) : queue_(q.queue_) {}
    bool pop(value_type& value) { return take(queue_.pop(), value); }
    bool try_pop(value_type& value) { return take(queue_.try_pop(), value); }
    std::size_t pop_n(value_type* out, std::size_t n) { return queue_.pop_n(out, n); }

   private:
    template <class Result>
    static bool take(Result&& result, value_type& value) {
      if (!result) return false;
      value = std::move(*result);
      return true;
    }
    Queue& queue_;
  };

 private:
  Queue queue_;
};

}  // namespace muster::bench
