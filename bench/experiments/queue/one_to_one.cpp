// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/one-to-one: one producer, one consumer, the ring wrapped many times.
#include "driver/experiment.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = "capacity 4096, 8-byte items";
  if (s.work.kind == profile::full) r.setting += "; 10^8 items per run, or as many as take 4 s";
  r.x = {"shape", "", "category", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  const abscissa x = "1→1";
  for (const contender* c : s.contenders.about(one_to_one)) {
    configuration one;
    one.line = made.add_line(*c);
    one.x = x;
    one.full_items = 100'000'000;
    one.run = [c, pus = s.place.assign(1, 1)](std::uint64_t items) {
      return c->stream({.items = items, .demand_order = c->order, .pus = pus});
    };
    made.configurations.push_back(one);
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment queue_one_to_one() { return {"queue/one-to-one", "queue", "", "One producer, one consumer", prepare}; }

}  // namespace muster::bench
