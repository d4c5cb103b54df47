// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// adapter.hpp: adapts the library's queues to the driver (driver/stream.hpp). One adapter serves all of them.
#pragma once

#include "driver/stream.hpp"

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

  ours(std::size_t capacity, unsigned producers, unsigned consumers) : queue_(make(capacity, producers, consumers)) {}

  void close() { queue_.close(); }

  // The queue itself, or a handle if it has them.
  static decltype(auto) giver(Queue& queue) {
    if constexpr (requires { queue.producer(); }) return queue.producer();
    else return (queue);
  }
  static decltype(auto) taker(Queue& queue) {
    if constexpr (requires { queue.consumer(); }) return queue.consumer();
    else return (queue);
  }

  class producer {
   public:
    producer(ours& q, unsigned) : to_(giver(q.queue_)) {}
    MUSTER_HOT void push(value_type value) {
      if (to_.push(std::move(value)) != queue_status::success) throw std::logic_error("push on an open queue failed");
    }
    MUSTER_HOT bool try_push(value_type value) { return to_.try_push(std::move(value)) == queue_status::success; }
    MUSTER_HOT void push_n(const value_type* first, std::size_t n) {
      if (to_.push_n(first, n) != n) throw std::logic_error("push_n on an open queue came back early");
    }

   private:
    decltype(giver(std::declval<Queue&>())) to_;
  };

  class consumer {
   public:
    consumer(ours& q, unsigned) : from_(taker(q.queue_)) {}
    MUSTER_HOT bool pop(value_type& value) { return take(from_.pop(), value); }
    MUSTER_HOT bool try_pop(value_type& value) { return take(from_.try_pop(), value); }
    MUSTER_HOT std::size_t pop_n(value_type* out, std::size_t n) { return from_.pop_n(out, n); }
    template <class F>
    MUSTER_HOT bool consume(F& f) {
      return from_.consume(f) == queue_status::success;
    }

   private:
    template <class Result>
    MUSTER_HOT static bool take(Result&& result, value_type& value) {
      if (!result) return false;
      value = std::move(*result);
      return true;
    }
    decltype(taker(std::declval<Queue&>())) from_;
  };

 private:
  static Queue make(std::size_t capacity, unsigned producers, unsigned consumers) {
    const std::size_t threads = std::max<std::size_t>(64, producers + consumers);
    if constexpr (requires { Queue(capacity, {.producers = producers}); })
      return Queue(capacity, {.producers = producers, .threads = threads});
    else return Queue(capacity, {.threads = threads});
  }

  Queue queue_;
};

}  // namespace muster::bench
