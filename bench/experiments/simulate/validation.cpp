// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simulate/validation: how far the simulation is from this machine: the same programs, of two threads on two cores, in
// both.
#include "simulate/known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::bench {
namespace {

constexpr std::size_t measured = 0;
constexpr std::size_t predicted = 1;

double nanoseconds(const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); }

model_spec on_two_cores(const setting& s) {
  model_spec spec;
  for (const int pu : s.place.with(policy::spread).assign(1, 1)) spec.threads.push_back(static_cast<unsigned>(pu));
  return spec;
}

/// 1 is a right prediction. The first chart shows to which side another one is wrong.
void add_ratio(std::vector<result>& results) {
  result r = results.front().also("-ratio", "How many times the prediction is too long or too short",
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

study prepare(const setting& s) {
  const simulated_machine machine = machine_like_this(s, "two-cores-epyc.json");
  study made;
  result& r = made.head;
  r.setting = fmt::format(
      "two threads on two cores; predicted with the machine file of \"{}\", which muster-bench calibrate writes; pairs "
      "with 50 to 150 ns of work between two operations, one object that many fibers use with up to 113 ns; where the "
      "two differ, read Figure 8's simulation accordingly",
      machine->name);
  r.x = {"program", "", "category", ""};
  r.y = {"time per item", "ns", "log2", "lower"};
  contender line;
  line.name = "measured";
  line.role = "baseline";
  made.add_line(line);
  line.name = "simulated";
  line.role = "ours";
  line.note = "SIMULATED, not measured";
  made.add_line(line);

  const auto spec_of = [&](const contender& c, model_spec spec) {
    if (c.name.ends_with(", pairs") || c.name.starts_with("two ")) {
      spec.least_work = 50;
      spec.most_work = 150;
    }
    if ((c.topics & model_alike) != 0) {
      spec.fibers = c.fibers;
      spec.most_work = 113;  // what osci/table4-simulated has
    }
    return spec;
  };
  const bool two_cores = s.place.units() > 1;
  if (!two_cores) r.setting += "; NOT HERE: measured, which needs two cores";
  for (const contender* c : s.contenders.about(model_measured)) {
    if (!two_cores) break;
    configuration one;
    one.line = measured;
    one.x = c->name;
    one.run = [c, spec = spec_of(*c, on_two_cores(s))](std::uint64_t items) {
      model_spec now = spec;
      now.items = items;
      return c->model(now);
    };
    made.configurations.push_back(std::move(one));
  }
  for (const contender* c : s.contenders.about(model_predicted)) {
    model_spec spec = spec_of(*c, {});
    spec.machine = machine;
    spec.threads = {0, 1};
    spec.items = simulated_items(s);
    add_simulated_point(made, *c, predicted, c->name, spec);
  }
  made.value = nanoseconds;
  made.finish = add_ratio;
  return made;
}

}  // namespace

experiment simulate_validation() {
  return {"simulate/validation", "simulated", "", "How far the simulation is from this machine", prepare};
}

}  // namespace muster::bench
