// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/shared: parcels of 64 bytes from process to process.
#include "driver/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

constexpr unsigned most_processes = 64;  // on each side

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const unsigned half = std::clamp(2 * s.place.units(), 4U, most_processes);
  r.setting = fmt::format(
      "capacity 4096, 64-byte items; each producer and each consumer is a process; the last on {} hardware threads",
      s.place.units());
  r.x = {"producers→consumers", "", "category", ""};
  r.y = {"time per item", "ns", "", "lower"};
  struct place {
    unsigned producers, consumers;
    topic who;
  };
  for (const contender* c : s.contenders.about(between_processes)) {
    const std::size_t line = made.add_line(*c);
    for (const place p : {place{1, 1, between_processes}, place{1, 2, from_one_process}, place{2, 2, between_many},
                          place{half, half, between_many}}) {
      if ((c->topics & p.who) == 0) continue;
      configuration one;
      one.line = line;
      one.x = fmt::format("{}→{}", p.producers, p.consumers);
      one.run = [c, p, pus = s.place.assign(p.producers, p.consumers)](std::uint64_t items) {
        return c->between({.producers = p.producers, .consumers = p.consumers, .items = items, .pus = pus});
      };
      made.configurations.push_back(one);
    }
  }
  made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  return made;
}

}  // namespace

experiment queue_shared() { return {"queue/shared", "queue", "", "From process to process", prepare}; }

}  // namespace muster::bench
