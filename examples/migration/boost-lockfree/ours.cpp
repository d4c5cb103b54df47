// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same queues of muster, without polling.

#include <muster/queue.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  // [ours]
  muster::spsc_queue<int> ring(64);
  long sum = 0;
  std::thread consumer([&] {
    while (auto item = ring.pop()) sum += *item;
  });
  for (int i = 1; i <= 10'000; ++i) ring.push(i);
  ring.close();
  consumer.join();

  muster::mpmc_queue<int> many(64);  // any movable item
  std::atomic<int> pushed = 0;
  std::vector<std::thread> producers;
  for (int p = 0; p < 2; ++p)
    producers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) pushed += many.try_push(i) == muster::queue_status::success ? 1 : 0;
    });
  for (std::thread& each : producers) each.join();
  std::size_t used = 0;
  while (many.try_pop()) ++used;
  // [/ours]
  std::printf("%ld %d %zu\n", sum, pushed.load(), used);
}
