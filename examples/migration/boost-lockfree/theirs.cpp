// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: a ring of one producer, and a queue of many, of Boost.Lockfree.

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  // [theirs]
  boost::lockfree::spsc_queue<int> ring(64);
  std::atomic<bool> done = false;
  long sum = 0;
  std::thread consumer([&] {
    int item = 0;
    for (;;) {
      const bool last = done;  // read before the queue
      if (ring.pop(item)) sum += item;
      else if (last) break;
      else std::this_thread::yield();
    }
  });
  for (int i = 1; i <= 10'000; ++i)
    while (!ring.push(i)) std::this_thread::yield();
  done = true;
  consumer.join();

  boost::lockfree::queue<int> many(64);  // nodes for 64; items need a trivial destructor and assignment
  std::atomic<int> pushed = 0;
  std::vector<std::thread> producers;
  for (int p = 0; p < 2; ++p)
    producers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) pushed += many.bounded_push(i) ? 1 : 0;
    });
  for (std::thread& each : producers) each.join();
  const std::size_t used = many.consume_all([](int) {});
  // [/theirs]
  std::printf("%ld %d %zu\n", sum, pushed.load(), used);
}
