// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipeline.hpp: one producer, several consumers, any queue; with the handling of exceptions from each of them.
#pragma once

#include <muster/queue.hpp>  // queue_status

#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace word_count {

// [pipeline]
/// Closes a queue at the end of a scope, even if an exception leaves the scope.
template <class Queue>
struct close_at_end {
  Queue& queue;
  ~close_at_end() { queue.close(); }
};

/// Calls `produce(push)` on this thread, and `consume(i, item)` on thread i of `consumers` threads for every item that
/// was pushed. `push(item)` waits while the queue is full. It returns false if the queue was closed, which means that a
/// consumer gave up: then stop producing.
///
/// Returns when every item is consumed. If a callable throws, or a thread cannot be started, the queue is closed, all
/// threads end, and the exception is rethrown here; items may then be left in the queue.
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
          queue.close();  // Without this the producer could wait forever for room.
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
