// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: oneTBB's bounded queue, whose waiting threads are ended by an exception.

#include <oneapi/tbb/concurrent_queue.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

int main() {
  std::atomic<long> letters = 0;
  std::atomic<int> ended = 0;
  // [theirs]
  tbb::concurrent_bounded_queue<std::string> queue;
  queue.set_capacity(64);
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c)
    consumers.emplace_back([&] {
      std::string item;
      try {
        for (;;) {
          queue.pop(item);
          if (item.empty()) break;  // abort() would leave items behind
          letters += static_cast<long>(item.size());
        }
      } catch (const tbb::user_abort&) {
      }
      ++ended;
    });
  for (int i = 0; i < 5'000; ++i) queue.push(std::to_string(i));
  for (int c = 0; c < 2; ++c) queue.push("");
  for (std::thread& each : consumers) each.join();

  const bool room = queue.try_push("one more");
  std::string last;
  const bool any = queue.try_pop(last);
  // [/theirs]
  std::printf("%ld letters, %d ended\n%d %d %s\n", letters.load(), ended.load(), room ? 1 : 0, any ? 1 : 0,
              last.c_str());
}
