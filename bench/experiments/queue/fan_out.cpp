// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/fan-out: one producer feeds several consumers.
#include "driver/experiment.hpp"

#include <utility>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "1 producer, capacity 4096, 8-byte items; peers marked baseline take several items per operation";
  r.x = {"consumers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(fan_out)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned consumers : {1u, 2u, 4u, 8u}) {
      configuration one;
      one.line = line;
      one.x = consumers;
      one.run = [c, consumers, pus = s.place.assign(1, consumers)](std::uint64_t items) {
        return c->stream({.consumers = consumers, .items = items, .demand_order = c->order, .pus = pus});
      };
      made.configurations.push_back(one);
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment queue_fan_out() { return {"queue/fan-out", "queue", "", "One producer, several consumers", prepare}; }

}  // namespace muster::bench
