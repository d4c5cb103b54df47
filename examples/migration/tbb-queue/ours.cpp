// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same queue of muster, which is closed.

#include <muster/queue.hpp>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::atomic<long> letters = 0;
  std::atomic<int> ended = 0;
  // [ours]
  muster::mpmc_queue<std::string> queue(64);
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c)
    consumers.emplace_back([&] {
      while (auto item = queue.pop()) letters += static_cast<long>(item->size());
      ++ended;
    });
  for (int i = 0; i < 5'000; ++i) queue.push(std::to_string(i));
  queue.close();  // the consumers drain it first
  for (std::thread& each : consumers) each.join();

  muster::mpmc_queue<std::string> next(64);  // a closed queue stays closed
  const bool room = next.try_push("one more") == muster::queue_status::success;
  const auto last = next.try_pop();  // the item, or the reason why there is none
  // [/ours]
  std::printf("%ld letters, %d ended\n%d %d %s\n", letters.load(), ended.load(), room ? 1 : 0, last ? 1 : 0,
              last->c_str());
}
