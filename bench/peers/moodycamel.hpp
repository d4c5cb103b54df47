// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// moodycamel::ConcurrentQueue with tokens: one sub-queue per producer. FIFO within a producer, not across them.
//
// By enqueue, which allocates, and not by try_enqueue, which does not: a producer keeps the blocks it has used, so that
// a fast one can leave a slow one without any, forever. enqueue is the faster of the two here as well.
#pragma once

#include "driver/stream.hpp"

#include <concurrentqueue/concurrentqueue.h>

#include <utility>

namespace muster::bench {

template <class T>
class moodycamel_tokens {
 public:
  using queue_type = moodycamel::ConcurrentQueue<T>;
  static constexpr ending ends_by = ending::drained;

  moodycamel_tokens(std::size_t capacity, unsigned producers, unsigned) : queue_(capacity, producers, 0) {}

  class producer {
   public:
    producer(moodycamel_tokens& q, unsigned) : queue_(q.queue_), token_(q.queue_) {}
    MUSTER_HOT void push(T value) { queue_.enqueue(token_, std::move(value)); }
    MUSTER_HOT bool try_push(T value) { return queue_.try_enqueue(token_, std::move(value)); }

   private:
    queue_type& queue_;
    moodycamel::ProducerToken token_;
  };

  class consumer {
   public:
    consumer(moodycamel_tokens& q, unsigned) : queue_(q.queue_), token_(q.queue_) {}
    MUSTER_HOT bool try_pop(T& value) { return queue_.try_dequeue(token_, value); }
    MUSTER_HOT std::size_t try_pop_n(T* out, std::size_t n) { return queue_.try_dequeue_bulk(token_, out, n); }

   private:
    queue_type& queue_;
    moodycamel::ConsumerToken token_;
  };

 private:
  queue_type queue_;
};

}  // namespace muster::bench
