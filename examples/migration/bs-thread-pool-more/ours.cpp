// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same further uses with a pool of muster.

#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

int main() {
  // [ours]
  std::atomic<int> begun = 0, strangers = 0;
  std::string why;
  long cubes = 0;
  bool in_time = false;
  std::atomic<bool> open = false;
  std::atomic<int> executed = 0;
  {
    muster::pool pool({.workers = 2, .on_start = [&](unsigned) { ++begun; }});

    std::vector<muster::future<long>> sequence;
    for (long i = 0; i < 10; ++i)
      sequence.push_back(pool.submit([&, i] {
        if (!pool.worker_index().has_value()) ++strangers;
        return i * i * i;
      }));
    for (const long cube : muster::when_all(std::move(sequence)).get()) cubes += cube;

    try {
      pool.submit([]() -> int { throw std::runtime_error("no number"); }).get();
    } catch (const std::runtime_error& error) {
      why = error.what();
    }

    // Two tasks wait, and the other eight are not begun.
    std::stop_source purge;
    std::atomic<int> waiting = 0;
    muster::task_group tasks(pool, purge.get_token());
    for (int i = 0; i < 10; ++i)
      tasks.run([&] {
        ++waiting;
        open.wait(false);
        ++executed;
      });
    in_time = pool.submit([&] { return executed.load(); }).wait_for(std::chrono::milliseconds(1));
    while (waiting < 2) std::this_thread::yield();
    purge.request_stop();
    open = true;
    open.notify_all();
    tasks.wait();
  }
  // [/ours]
  std::printf("%d %d %ld %s %d %d\n", begun.load(), strangers.load(), cubes, why.c_str(), int{in_time},
              executed.load());
}
