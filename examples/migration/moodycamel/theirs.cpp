// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: two producers and two consumers, by moodycamel's queue.

#include <concurrentqueue/blockingconcurrentqueue.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::atomic<long> letters = 0, others = 0;
  // [theirs]
  moodycamel::BlockingConcurrentQueue<std::string> queue;  // unbounded
  std::vector<std::thread> producers, consumers;
  std::atomic<bool> done = false;
  for (int p = 0; p < 2; ++p)
    producers.emplace_back([&] {
      moodycamel::ProducerToken mine(queue);
      for (int i = 0; i < 5'000; ++i) queue.enqueue(mine, std::to_string(i));
    });
  for (int c = 0; c < 2; ++c)
    consumers.emplace_back([&] {
      moodycamel::ConsumerToken mine(queue);
      std::string item;
      for (;;) {
        const bool last = done;  // read before the queue
        if (queue.wait_dequeue_timed(mine, item, 1'000)) letters += static_cast<long>(item.size());
        else if (last) break;
      }
    });
  for (std::thread& each : producers) each.join();
  done = true;  // it cannot be closed, and an item that says so could overtake those of the producers
  for (std::thread& each : consumers) each.join();

  const std::vector<std::string> batch{"a", "b", "c"};
  queue.enqueue_bulk(batch.begin(), batch.size());
  std::vector<std::string> out(10);
  others = static_cast<long>(queue.try_dequeue_bulk(out.begin(), out.size()));
  // [/theirs]
  std::printf("%ld letters, %ld more items\n", letters.load(), others.load());
}
