// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig6-producers: the other half of Figure 6 of the FFQ paper: pairs of a producer and its consumer, as many as the
// machine has hardware threads, by where the two of a pair run.
#include "driver/topology.hpp"
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::bench {
namespace {

struct length {
  const char* name;
  unsigned bits;
};
constexpr std::array<length, 3> lengths{{{"2^6 entries", 6}, {"2^12 entries", 12}, {"2^18 entries", 18}}};

/// Where the threads of `pairs` pairs run, producers first; empty when there are not so many places.
std::vector<int> places_of(const affinity& a, unsigned pairs, const placement& place) {
  const placement spread = place.with(policy::spread);
  if (a.how == policy::none || !spread.pinned()) return place.with(policy::none).assign(pairs, pairs);
  std::vector<int> producers = spread.assign(pairs, 0), consumers = producers;
  if (a.how == policy::same_l3) {  // each with the next pair's producer
    const std::vector<int> next = spread.assign(pairs + 1, 0);
    consumers.assign(next.begin() + 1, next.end());
  } else if (a.how == policy::sibling) {
    std::map<int, std::vector<int>> cores;
    const std::vector<int> used = spread.assign(place.units(), 0);
    for (const unit& u : allowed_units())
      if (std::find(used.begin(), used.end(), u.number) != used.end()) cores[u.core].push_back(u.number);
    std::erase_if(cores, [](const auto& core) { return core.second.size() < 2; });
    if (cores.size() < pairs) return {};
    auto core = cores.begin();
    for (unsigned i = 0; i < pairs; ++i, ++core) producers[i] = core->second[0], consumers[i] = core->second[1];
  }
  producers.insert(producers.end(), consumers.begin(), consumers.end());
  return producers;
}

std::string line_of(const char* queue, const affinity& a, const length& l) {
  return fmt::format("{}, {}, {}", queue, a.name, l.name);
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "pairs of a producer and its consumer, with queues of their own; 8-byte requests through one, answers through "
      "another of the same size; an operation is a request and its answer; of all pairs together";
  r.x = {"producers", "", "log2", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const affinity& a : affinities) {
    try {
      static_cast<void>(s.place.with(a.how));
    } catch (const std::invalid_argument& e) {
      r.setting += fmt::format("; NOT HERE: {} ({})", a.name, e.what());
      continue;
    }
    for (const contender* c : s.contenders.about(topic::exchange)) {
      if (c->name != "spmc_queue" && c->role != "paper") continue;
      for (const length& l : lengths) {
        contender here = *c;
        here.name = line_of(c->name.c_str(), a, l);
        const std::size_t line = made.add_line(here);
        for (unsigned pairs = 1; pairs <= s.place.units(); pairs *= 2) {
          const std::vector<int> pus = places_of(a, pairs, s.place);
          if (pus.empty()) continue;
          add_exchange_point(made, *c, line, pairs,
                             {.capacity = std::size_t{1} << l.bits, .producers = pairs, .pus = pus},
                             a.how == policy::same_thread || 2 * pairs > s.place.units());
        }
      }
    }
  }
  made.value = mega_items;
  return made;
}

}  // namespace

experiment ffq_fig6_producers() {
  return {"ffq/fig6-producers", "queue", "ffq, Figure 6", "Throughput by affinity and number of producers", prepare};
}

}  // namespace muster::bench
