// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/many-to-many: n producers, n consumers. The peers are the queues with one order over all producers;
// lanes, which have an order for each producer only, are compared with the queue that promises the same.
#include "driver/experiment.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      fmt::format("n producers and n consumers on {} hardware threads, capacity 4096, 8-byte items", s.place.units());
  r.x = {"producers = consumers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(many_to_many)) {
    const bool relaxed = c->role == "peer" && !c->strict;
    const std::size_t line = relaxed ? made.add_line(*c, "baseline", c->note + "; not strict FIFO") : made.add_line(*c);
    for (const unsigned n : {1u, 2u, 4u, 8u}) {
      configuration one;
      one.line = line;
      one.x = n;
      one.run = [c, n, pus = s.place.assign(n, n)](std::uint64_t items) {
        return c->stream({.producers = n, .consumers = n, .items = items, .demand_order = c->order, .pus = pus});
      };
      made.configurations.push_back(one);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment queue_many_to_many() {
  return {"queue/many-to-many", "queue", "", "Several producers, several consumers", prepare};
}

}  // namespace muster::bench
