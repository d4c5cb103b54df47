// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig3-queue-size: Figure 3 of the FFQ paper: requests and answers between one producer and one consumer, by the
// size of the queues.
#include "driver/claims.hpp"
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

constexpr unsigned least_bits = 2, most_bits = 20;
constexpr std::size_t size_of(unsigned bits) { return std::size_t{1} << bits; }

/// Of the paper's own queue: where the best size is, and what lies on either side of it.
void judge(result& r) {
  constexpr const char* printed = "FFQ^s as printed";
  constexpr unsigned papers_best = 16;
  unsigned best = least_bits;
  for (unsigned bits = least_bits; bits <= most_bits; bits += 2) {
    if (!r.at(printed, size_of(bits))) return;
    if (*r.at(printed, size_of(bits)) > *r.at(printed, size_of(best))) best = bits;
  }
  const double most = *r.at(printed, size_of(best)), there = *r.at(printed, size_of(papers_best)),
               smallest = *r.at(printed, size_of(least_bits)), largest = *r.at(printed, size_of(most_bits));
  claims found;
  found.add(noise * smallest < there, fmt::format("throughput rises from 2^{} entries ({:.3g} Mops/s) to 64 k ({:.3g})",
                                                  least_bits, smallest, there));
  found.add(noise * there >= most,
            fmt::format("64 k entries are the best size ({:.3g}; the best here, {:.3g}, is 2^{})", there, most, best));
  found.add(noise * largest < most,
            fmt::format("larger queues lose again (2^{}: {:.3g} of {:.3g})", most_bits, largest, most));
  found.write(r);
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.claim = "throughput rises with the queue size up to 64 k entries, and falls when the queue leaves the cache";
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
  made.finish = [](std::vector<result>& results) { judge(results.front()); };
  return made;
}

}  // namespace

experiment ffq_fig3_queue_size() {
  return {"ffq/fig3-queue-size", "queue", "ffq, Figure 3", "Throughput by queue size", prepare};
}

}  // namespace muster::bench
