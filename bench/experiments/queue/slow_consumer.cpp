// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue/slow-consumer: what a consumer that sleeps between its claim and its release does to the producer.
#include "driver/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr const char* awake = "no sleeper";
constexpr const char* asleep = "sleeper";
constexpr std::uint64_t items_between_sleeps = 2500;

/// The producer has a hardware thread to itself, so that its latency is the queue's and not the scheduler's.
std::vector<int> producer_apart(const placement& place) {
  std::vector<int> pus = place.assign(1, 2);
  if (place.chosen() == policy::spread && place.pinned() && place.units() == 2) pus[2] = pus[1];
  return pus;
}

/// From the same runs: the sleeper takes a tenth of the time, so what it delays shows in the 99th percentile, too, and
/// what the machine adds does not yet. A queue whose producer waits for its turn waits for the sleeper there.
void add_p99(std::vector<result>& results) {
  result r = results.front().also("-p99", "A consumer falls asleep while it takes an item: 99th percentile",
                                  {"push latency, 99th percentile", "ns", "", "lower"}, "p99");
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  stall_spec spec;
  spec.pus = producer_apart(s.place);
  r.setting = fmt::format(
      "1 producer pushing every {} us, 2 consumers, capacity {}; latency from the scheduled time; the sleeper stops "
      "for {} ms, every {} items, in the middle of taking one",
      spec.period_ns / 1000, spec.capacity, spec.sleep_ns / 1000000, items_between_sleeps);
  r.x = {"consumers", "", "category", ""};
  r.y = {"push latency, 99.9th percentile", "ns", "", "lower"};
  for (const contender* c : s.contenders.about(slow_consumer)) {
    if (!c->no_stall.empty()) {
      made.add_line(*c, {}, c->no_stall);  // named without points: nobody is dropped silently
      continue;
    }
    const std::size_t line = made.add_line(*c);
    for (const char* x : {awake, asleep}) {
      configuration one;
      one.line = line;
      one.x = x;
      const double run_seconds = s.work.seconds > 0 ? s.work.seconds : 0.04;
      one.fixed_items = static_cast<std::uint64_t>(run_seconds * 1e9) / spec.period_ns;
      spec.sleep_every = x == asleep ? items_between_sleeps : 0;
      one.run = [c, spec](std::uint64_t items) {
        stall_spec now = spec;
        now.items = items;
        now.demand_order = c->order;
        return c->stall(now);
      };
      made.configurations.push_back(one);
    }
  }
  made.finish = add_p99;
  made.value = [](const outcome& o) { return o.detail.at("p99.9"); };
  return made;
}

}  // namespace

experiment queue_slow_consumer() {
  return {"queue/slow-consumer", "queue", "", "A consumer falls asleep while it takes an item", prepare};
}

}  // namespace muster::bench
