// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// known.hpp: points of simulations, and the machines whose files lie in bench/simulate/machines.
#pragma once

#include "driver/experiment.hpp"
#include "driver/machine.hpp"
#include "simulate/machine.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

namespace muster::bench {

using simulated_machine = std::shared_ptr<const muster_simulation::machine>;

/// The machine that the command line names, or else the one of that file.
inline simulated_machine machine_to_simulate(const setting& s, const std::string& file) {
  using namespace muster_simulation;
  return std::make_shared<machine>(
      read_machine(s.machine.empty() ? known_machines() / file : std::filesystem::path(s.machine)));
}

/// The machine that the command line names, or else the first with this processor, or else the one of that file.
inline simulated_machine machine_like_this(const setting& s, const std::string& otherwise) {
  using namespace muster_simulation;
  const std::string here = describe_machine().value("cpu", "");
  if (s.machine.empty())
    for (const auto& file : std::filesystem::directory_iterator(known_machines()))
      if (machine known = read_machine(file.path()); known.name == here)
        return std::make_shared<machine>(std::move(known));
  return machine_to_simulate(s, otherwise);
}

/// How many items suffice: a simulation has no noise, but it should be long against its beginning.
inline std::uint64_t simulated_items(const setting& s) {
  return s.work.kind == profile::smoke ? 2'000 : s.work.kind == profile::quick ? 10'000 : 100'000;
}

/// Adds a point of a simulation at `x` of a line.
inline void add_simulated_point(study& to, const contender& c, std::size_t line, abscissa x, model_spec spec) {
  configuration one;
  one.line = line;
  one.x = std::move(x);
  one.fixed_items = spec.items;
  one.once = true;
  one.run = [&c, spec](std::uint64_t) { return c.model(spec); };
  to.configurations.push_back(std::move(one));
}

/// How a chart of a simulation begins to say what it shows.
inline std::string told_as_simulated(const muster_simulation::machine& m) {
  return "SIMULATED, not measured: the algorithms' own code on a model of the caches of \"" + m.name + "\"";
}

}  // namespace muster::bench
