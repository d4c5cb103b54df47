// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: documented uses of BS::thread_pool.

#include <BS_thread_pool.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <future>
#include <vector>

int main() {
  // [theirs]
  BS::thread_pool pool(4);
  std::future<int> answer = pool.submit_task([] { return 6 * 7; });

  std::vector<long> squares(1000);
  pool.detach_loop(0L, 1000L, [&](long i) { squares[static_cast<std::size_t>(i)] = i * i; });
  pool.wait();  // for everything in the pool

  BS::multi_future<long> parts = pool.submit_blocks(0L, 1000L, [&](long from, long to) {
    long sum = 0;
    for (long i = from; i < to; ++i) sum += squares[static_cast<std::size_t>(i)];
    return sum;
  });
  long sum = 0;
  for (const long part : parts.get()) sum += part;

  std::atomic<int> done = 0;
  for (int i = 0; i < 10; ++i) pool.detach_task([&] { ++done; });
  pool.wait();
  // [/theirs]
  std::printf("%d %ld %d\n", answer.get(), sum, done.load());
}
