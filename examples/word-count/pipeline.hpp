// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipeline.hpp: one producer, several consumers, any queue; and what happens when one of them throws.
#pragma once

#include <muster/queue.hpp>  // queue_status

#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace word_count {

// [pipeline]
/// Closes a queue at the end of a scope, also when the scope is left by an exception.
template <class Queue>
struct close_at_end {
  Queue& queue;
  ~close_at_end() { queue.close(); }
};

/// Calls `produce(push)` on this thread and `consume(i, item)` on `consumers` threads (i tells which) for every item
/// that was pushed. `push(item)` waits while the queue is full. It returns false when the queue was closed, which
/// means that a consumer gave up: then stop producing.
///
/// Returns when every item is consumed. When a callable throws, or a thread cannot be started, the queue is closed,
/// all threads end, and the exception is thrown here; items may then be left in the queue.
template <class Queue, class Produce, class Consume>
void run_pipeline(Queue& queue, std::size_t consumers, Produce&& produce, Consume&& consume) {
  std::vector<std::exception_ptr> failures(consumers);
  {
    std::vector<std::jthread> threads;
    threads.reserve(consumers);
    // The order of the two matters: the queue is closed first, then the threads are joined.
    const close_at_end<Queue> closing{queue};

    for (std::size_t i = 0; i != consumers; ++i)
      threads.emplace_back([&queue, &consume, &failure = failures[i], i] {
        try {
          while (auto item = queue.pop()) consume(i, *item);
        } catch (...) {
          failure = std::current_exception();
          queue.close();  // Without this the producer could wait for room that nobody makes.
        }
      });

    produce([&queue](auto&& item) {
      return queue.push(std::forward<decltype(item)>(item)) == muster::queue_status::success;
    });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}
// [/pipeline]

}  // namespace word_count
