// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: several producers.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t producers = 3;
constexpr std::size_t consumers = 3;
constexpr int per_producer = 20'000;

struct order {
  std::size_t producer;
  int number;
};

}  // namespace

int main() {
  std::atomic<int> received = 0;
  std::atomic<bool> in_order = true;

  // [mpmc]
  muster::mpmc_queue<order> queue(256, {.threads = producers + consumers});

  std::vector<std::jthread> takers;
  for (std::size_t i = 0; i < consumers; ++i)
    takers.emplace_back([&] {
      std::vector<int> last(producers, -1);
      while (auto item = queue.pop()) {
        if (item->number <= last[item->producer]) in_order = false;  // never happens: it is first in, first out
        last[item->producer] = item->number;
        ++received;
      }
    });

  std::vector<std::jthread> givers;
  for (std::size_t i = 0; i < producers; ++i)
    givers.emplace_back([&queue, i] {
      for (int number = 0; number < per_producer; ++number) queue.push({i, number});
    });

  givers.clear();  // joins: all producers are done,
  queue.close();   // so no push is refused
  takers.clear();  // and the consumers drain the queue
  // [/mpmc]

  expect(in_order);
  expect(received == static_cast<int>(producers) * per_producer);
}
