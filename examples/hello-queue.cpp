// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// hello-queue: one producer, four consumers. The program that the README shows.

// [readme]
#include <muster/queue.hpp>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  muster::spmc_queue<int> queue(1024);  // one producer, many consumers; room for 1024 items
  std::atomic<long> sum = 0;

  std::vector<std::jthread> consumers;
  for (int i = 0; i < 4; ++i)
    consumers.emplace_back([&] {
      while (auto item = queue.pop()) sum += *item;  // waits for items; ends when closed and drained
    });

  for (int i = 1; i <= 1'000'000; ++i) queue.push(i);  // waits while the queue is full
  queue.close();
  consumers.clear();  // joins the threads

  std::printf("the sum of 1 to 1000000 is %ld\n", sum.load());
  return sum == 500'000'500'000 ? 0 : 1;
}
// [/readme]
