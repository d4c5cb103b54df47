// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same queue of muster.

#include <muster/queue.hpp>

#include <cstdio>
#include <thread>

int main() {
  // [ours]
  muster::mpmc_queue<int> queue(64);
  long sum = 0;
  std::jthread consumer([&] {
    while (const auto item = queue.pop()) sum += *item;
  });
  for (int i = 1; i <= 10'000; ++i) queue.push(i);
  queue.close();
  consumer.join();
  // [/ours]
  std::printf("the sum is %ld\n", sum);
}
