// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same by lanes, whose producers have queues of their own.

#include <muster/queue.hpp>

#include <atomic>
#include <cstdio>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::atomic<long> letters = 0, others = 0;
  // [ours]
  muster::lanes<std::string> queue(256, {.producers = 2});  // a push waits while its lane has 256 items
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < 2; ++p)
    producers.emplace_back([&] {
      auto mine = queue.producer();
      for (int i = 0; i < 5'000; ++i) mine.push(std::to_string(i));
    });
  for (int c = 0; c < 2; ++c)
    consumers.emplace_back([&] {
      auto mine = queue.consumer();
      while (auto item = mine.pop()) letters += static_cast<long>(item->size());  // until it is closed
    });
  for (std::thread& each : producers) each.join();
  queue.close();
  for (std::thread& each : consumers) each.join();

  muster::mpmc_queue<std::string> one_order(256);  // where items of different producers need an order
  one_order.push_range(std::vector<std::string>{"a", "b", "c"});
  std::vector<std::string> out;
  others = static_cast<long>(one_order.try_pop_n(std::back_inserter(out), 10));
  // [/ours]
  std::printf("%ld letters, %ld more items\n", letters.load(), others.load());
}
