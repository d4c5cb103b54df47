// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: bounded queues of folly.

#include <folly/MPMCQueue.h>
#include <folly/ProducerConsumerQueue.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

int main() {
  // [theirs]
  folly::MPMCQueue<int> queue(64);
  std::atomic<long> sum = 0;
  std::thread consumer([&] {
    int item = 0;
    for (;;) {
      queue.blockingRead(item);
      if (item < 0) break;  // the end: it cannot be closed
      sum += item;
    }
  });
  for (int i = 1; i <= 10'000; ++i) queue.blockingWrite(i);
  queue.blockingWrite(-1);
  consumer.join();

  int item = 0;
  const bool any = queue.tryReadUntil(std::chrono::steady_clock::now() + std::chrono::milliseconds(1), item);

  folly::ProducerConsumerQueue<std::string> ring(5);  // room for 4
  int written = 0;
  while (ring.write("item")) ++written;
  std::string seen = *ring.frontPtr();
  ring.popFront();
  // [/theirs]
  std::printf("%ld %d %d %s\n", sum.load(), any ? 1 : 0, written, seen.c_str());
}
