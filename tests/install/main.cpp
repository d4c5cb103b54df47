// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// main.cpp: the program of a user of muster. Built against an installed muster in each way the guide names.
#include <muster/muster.hpp>

#include <cstdio>
#include <thread>

static_assert(muster::header_version.major == MUSTER_VERSION_MAJOR);

int main() {
  constexpr int items = 1000;
  muster::spsc_queue<int> queue(16);
  long sum = 0;
  std::thread consumer([&] {
    while (auto item = queue.pop()) sum += *item;
  });
  for (int i = 1; i <= items; ++i)
    if (queue.push(i) != muster::queue_status::success) return 1;
  queue.close();
  consumer.join();
#if defined(MUSTER_FORK_BARRIER)
  constexpr const char* engine = "barrier";
#else
  constexpr const char* engine = "watermark";
#endif
  std::printf("muster %d.%d.%d: %ld, forks by %s\n", MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH,
              sum, engine);
  return sum == items * (items + 1) / 2 ? 0 : 1;
}
