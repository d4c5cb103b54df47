// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig3-queue-size: Figure 3 of the FFQ paper: requests and answers between one producer and one consumer, by the
// size of the queues.
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

constexpr unsigned least_bits = 2, most_bits = 20;
constexpr std::size_t size_of(unsigned bits) { return std::size_t{1} << bits; }

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "1 producer, 1 consumer; 8-byte requests through one queue, answers through another of the same size; at most as "
      "many requests in flight as the queue has entries; an operation is a request and its answer";
  r.x = {"queue size", "entries", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(topic::exchange)) {
    const std::size_t line = made.add_line(*c);
    for (unsigned bits = least_bits; bits <= most_bits; bits += 2) {
      const std::size_t capacity = size_of(bits);
      add_exchange_point(made, *c, line, capacity, {.capacity = capacity, .pus = s.place.assign(1, 1)}, false);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment ffq_fig3_queue_size() {
  return {"ffq/fig3-queue-size", "queue", "ffq, Figure 3", "Throughput by queue size", prepare};
}

}  // namespace muster::bench
