// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: several producers with a lane each.

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

  // [lanes]
  muster::lanes<order> queue(256, {.producers = producers, .threads = producers + consumers});

  std::vector<std::jthread> takers;
  for (std::size_t i = 0; i < consumers; ++i)
    takers.emplace_back([&] {
      auto mine = queue.consumer();
      std::vector<int> last(producers, -1);
      while (auto item = mine.pop()) {
        if (item->number <= last[item->producer])
          in_order = false;  // never happens: each producer's items are in order
        last[item->producer] = item->number;
        ++received;
      }
    });

  std::vector<std::jthread> givers;
  for (std::size_t i = 0; i < producers; ++i)
    givers.emplace_back([&queue, i] {
      auto lane = queue.producer();  // ours until the end of the scope
      for (int number = 0; number < per_producer; ++number) lane.push({i, number});
    });

  givers.clear();  // joins: all producers are done,
  queue.close();   // so no push is refused
  takers.clear();  // and the consumers drain the queue
  // [/lanes]

  expect(in_order);
  expect(received == static_cast<int>(producers) * per_producer);
}
