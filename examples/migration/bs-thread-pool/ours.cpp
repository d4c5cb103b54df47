// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same uses of a pool of muster.

#include <muster/fork.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

int main() {
  // [ours]
  muster::pool pool(4);
  muster::future<int> answer = pool.submit([] { return 6 * 7; });

  std::vector<long> squares(1000);
  pool.run([&] { muster::parallel_for(0L, 1000L, [&](long i) { squares[static_cast<std::size_t>(i)] = i * i; }); });

  const long sum = pool.run([&] { return muster::parallel_reduce(squares.begin(), squares.end(), 0L, std::plus<>()); });

  std::atomic<int> done = 0;
  muster::task_group tasks(pool);
  for (int i = 0; i < 10; ++i) tasks.run([&] { ++done; });
  tasks.wait();  // for these tasks
  // [/ours]
  std::printf("%d %ld %d\n", answer.get(), sum, done.load());
}
