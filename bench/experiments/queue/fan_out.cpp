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
  r.claim = "one producer needs no read-modify-write, and one claim can take several items";
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
  const auto promise = [&r](const char* ours, unsigned x, double at_least, const char* note) {
    bar b;
    b.ours = ours;
    b.x = x;
    b.at_least = at_least;
    b.note = note;
    r.bars.push_back(b);
  };
  for (const auto& [x, wanted] : {std::pair{2u, 1.2}, {4u, 1.4}, {8u, 1.7}})
    promise("spmc_queue", x, wanted, "single items");
  for (const unsigned x : {2u, 4u, 8u}) promise("spmc_queue pop_n(8)", x, 5.0, "eight items against single ones");
  bar b;
  b.ours = "spmc_queue try_pop";
  b.against = "spmc_queue";
  b.x = 8u;
  b.at_most = 1.5;
  b.note = "a pop that never waits costs little more than one that does";
  r.bars.push_back(b);
  made.value = mega_items;
  return made;
}

}  // namespace

experiment queue_fan_out() { return {"queue/fan-out", "queue", "", "One producer, several consumers", prepare}; }

}  // namespace muster::bench
