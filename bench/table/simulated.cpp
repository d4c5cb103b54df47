// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simulated.cpp: how far the simulation is from this machine: the same programs, of two threads on two cores, in both.
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr std::size_t measured = 0, predicted = 1;  // lines

/// Adds the factor by which each prediction is wrong; the first chart shows the direction.
void add_ratio(std::vector<result>& results) {
  result r = results.front().derived_chart("-ratio", "How many times the prediction is too long or too short",
                                           {"the longer time / the shorter", "", "log2", "lower"});
  const series truth = std::move(r.lines[measured]);
  r.lines.erase(r.lines.begin() + measured);
  for (point& p : r.lines.front().points) {
    const std::vector<double> simulated = std::exchange(p.samples, {});
    const point* const real = truth.at(p.x);
    if (simulated.empty() || real == nullptr) continue;
    for (const double sample : real->samples)
      p.samples.push_back(std::max(simulated.front() / sample, sample / simulated.front()));
  }
  results.push_back(std::move(r));
}

sim_spec spec_of(const contender& c, std::vector<unsigned> threads) {
  sim_spec spec;
  spec.threads = std::move(threads);
  if (c.name.ends_with(", pairs") || c.name.starts_with("two ")) {
    spec.least_work = 50;
    spec.most_work = 150;
  }
  if ((c.topics & sim_alike) != 0) {
    spec.fibers = c.fibers;
    spec.most_work = 113;  // what osci/table4-simulated has
  }
  return spec;
}

study validation(const setting& s) {
  const simulated_machine machine = machine_like_this(s, "two-cores-epyc.json");
  study made =
      chart(fmt::format(
                "two threads on two cores; predicted with the machine file of \"{}\", which muster-bench calibrate "
                "writes; pairs with 50 to 150 ns of work between two operations, one object that many fibers use with "
                "up to 113 ns; where the two differ, read Figure 8's simulation accordingly",
                machine->name),
            {"program", "", "category", ""}, {"time per item", "ns", "log2", "lower"}, nanoseconds_per_item, add_ratio);
  contender line;
  line.name = "measured";
  line.role = "baseline";
  made.add_line(line);
  line.name = "simulated";
  line.role = "ours";
  line.note = "SIMULATED, not measured";
  made.add_line(line);

  if (s.place.units() > 1) {
    const std::vector<int> pus = s.place.with(policy::spread).assign(1, 1);
    for (const contender* c : s.contenders.about(sim_measured))
      add_point(made, *c, measured, c->name,
                spec_of(*c, {static_cast<unsigned>(pus[0]), static_cast<unsigned>(pus[1])}));
  } else {
    made.head.setting += "; NOT HERE: measured, which needs two cores";
  }
  for (const contender* c : s.contenders.about(sim_predicted)) {
    sim_spec spec = spec_of(*c, {0, 1});
    spec.machine = machine;
    spec.items = simulated_items(s);
    add_simulated_point(made, *c, predicted, c->name, spec);
  }
  return made;
}

}  // namespace

std::vector<experiment> simulated_rows() {
  return {{"simulate/validation", "simulated", "", "How far the simulation is from this machine", validation}};
}

}  // namespace muster::bench
