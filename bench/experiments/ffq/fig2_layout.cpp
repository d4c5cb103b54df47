// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq/fig2-layout: Figure 2 of the FFQ paper: what it brings to give cells lines of their own, and to scatter them.
#include "experiments/ffq/exchange_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

constexpr const char* not_aligned = "not aligned";

struct shape {
  const char* name;
  unsigned producers, consumers;
};
constexpr std::array<shape, 3> shapes{
    {{"1 producer, 1 consumer", 1, 1}, {"1 producer, 8 consumers", 1, 8}, {"8 producers, 8 consumers each", 8, 8}}};

/// From the same runs: as the paper draws it.
void add_normalized(std::vector<result>& results) {
  result r = results.front().also("-normalized", "Layouts of cells, over cells that are not aligned",
                                  {"throughput over that of cells that are not aligned", "", "", "higher"});
  for (series& line : r.lines) {
    const std::string queue = line.name.substr(0, line.name.find(','));
    const series* const base = results.front().named(queue + ", " + not_aligned);
    for (point& p : line.points) {
      const point* const same = base == nullptr ? nullptr : base->at(p.x);
      if (same == nullptr || same->samples.empty() || !same->checked) {
        p.samples.clear();
        continue;
      }
      const double of_base = median(same->samples);
      for (double& sample : p.samples) sample /= of_base;
    }
  }
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "queues of 4096 entries; 8-byte requests to the producer's own consumers, answers through a spsc_queue per "
      "consumer; an operation is a request and its answer";
  r.x = {"threads", "", "category", ""};
  r.y = {"throughput", "Mops/s", "", "higher"};
  for (const contender* c : s.contenders.about(queue_layouts)) {
    const std::size_t line = made.add_line(*c);
    for (const shape& of : shapes) {
      const unsigned threads = of.producers * (1 + of.consumers);
      if (s.work.kind != profile::full && threads > 16 * s.place.units()) continue;
      const exchange_spec spec{.producers = of.producers,
                               .consumers = of.consumers,
                               .pus = s.place.assign(of.producers, of.producers * of.consumers)};
      add_exchange_point(made, *c, line, of.name, spec, threads > s.place.units());
    }
  }
  made.value = mega_items;
  made.finish = add_normalized;
  return made;
}

}  // namespace

experiment ffq_fig2_layout() { return {"ffq/fig2-layout", "queue", "ffq, Figure 2", "Layouts of cells", prepare}; }

}  // namespace muster::bench
