// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: five further documented uses of BS::thread_pool.

#include <BS_thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

int main() {
  // [theirs]
  std::atomic<int> begun = 0, strangers = 0;
  std::string why;
  long cubes = 0;
  bool in_time = false;
  std::atomic<bool> open = false;
  std::atomic<int> executed = 0;
  {
    BS::thread_pool pool(2, [&] { ++begun; });  // an initialization function

    BS::multi_future<long> sequence = pool.submit_sequence(0L, 10L, [&](long i) {
      if (!BS::this_thread::get_index().has_value()) ++strangers;
      return i * i * i;
    });
    for (const long cube : sequence.get()) cubes += cube;

    try {
      pool.submit_task([]() -> int { throw std::runtime_error("no number"); }).get();
    } catch (const std::runtime_error& error) {
      why = error.what();
    }

    // Two tasks wait, and the other eight are purged.
    std::atomic<int> waiting = 0;
    for (int i = 0; i < 10; ++i)
      pool.detach_task([&] {
        ++waiting;
        open.wait(false);
        ++executed;
      });
    in_time = pool.wait_for(std::chrono::milliseconds(1));
    while (waiting < 2) std::this_thread::yield();
    pool.purge();
    open = true;
    open.notify_all();
    pool.wait();
  }
  // [/theirs]
  std::printf("%d %d %ld %s %d %d\n", begun.load(), strangers.load(), cubes, why.c_str(), int{in_time},
              executed.load());
}
