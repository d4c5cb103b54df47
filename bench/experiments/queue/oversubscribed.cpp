// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/oversubscribed: four threads per hardware thread; and queue/oversubscribed-cpu, what that costs in CPU time.
#include "driver/experiment.hpp"
#include "driver/item.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::bench {
namespace {

constexpr const char* fan = "1→n";
constexpr const char* crowd = "n→n";

void add_cpu_chart(std::vector<result>& results) {
  result r = results.front();
  r.experiment += "-cpu";
  r.title = "CPU time with four threads per hardware thread";
  r.y = {"CPU time per item", "ns", "", "lower"};
  for (series& s : r.lines) {
    for (point& p : s.points) {
      p.samples.clear();
      for (const double seconds : p.cpu_seconds) p.samples.push_back(seconds * 1e9 / static_cast<double>(p.items));
    }
  }
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  const unsigned threads = std::min(4 * s.place.units(), 2 * most_producers);
  const unsigned half = threads / 2;
  r.setting = fmt::format("{} threads on {} hardware threads, capacity 4096, 8-byte items; {} is 1→{}, {} is {}→{}",
                          threads, s.place.units(), fan, threads - 1, crowd, half, half);
  r.x = {"shape", "", "category", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(oversubscribed)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const char* x, unsigned producers, unsigned consumers) {
      configuration one;
      one.line = line;
      one.x = x;
      one.run = [=, pus = s.place.assign(producers, consumers)](std::uint64_t items) {
        return c->stream(
            {.producers = producers, .consumers = consumers, .items = items, .demand_order = c->order, .pus = pus});
      };
      made.configurations.push_back(one);
    };
    add(fan, 1, threads - 1);
    if (c->name != "spmc_queue") add(crowd, half, half);
  }
  made.value = mega_items;
  made.finish = add_cpu_chart;
  return made;
}

}  // namespace

experiment queue_oversubscribed() {
  return {"queue/oversubscribed", "queue", "", "Four threads per hardware thread", prepare};
}

}  // namespace muster::bench
