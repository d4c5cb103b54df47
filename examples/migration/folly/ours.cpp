// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same queues of muster.

#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

int main() {
  // [ours]
  muster::mpmc_queue<int> queue(64);
  std::atomic<long> sum = 0;
  std::thread consumer([&] {
    while (auto item = queue.pop()) sum += *item;
  });
  for (int i = 1; i <= 10'000; ++i) queue.push(i);
  queue.close();
  consumer.join();

  const bool any = queue.pop_for(std::chrono::milliseconds(1)).has_value();

  muster::spsc_queue<std::string> ring(4);
  int written = 0;
  while (ring.try_push("item") == muster::queue_status::success) ++written;
  std::string seen = *ring.front();
  ring.try_pop();
  // [/ours]
  std::printf("%ld %d %d %s\n", sum.load(), any ? 1 : 0, written, seen.c_str());
}
