// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The programs on simulated threads. Compiled with MUSTER_SIMULATION.
#include "sim/cache/engine.hpp"
#include "simulated/calls.hpp"
#include "simulated/counts.hpp"
#include "simulated/objects.hpp"

#include <cstddef>
#include <functional>
#include <future>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

class simulated {
  using engine = muster_simulation::engine;

 public:
  explicit simulated(const sim_spec& spec) : spec_(spec), engine_(*spec.machine, spec.seed) {}

  class hand {
   public:
    hand(engine& on, const sim_spec& spec) : engine_(on), spec_(spec) {}
    void start() const {}
    void delay() const {
      if (spec_.most_work == 0) return;
      const std::uint64_t least = std::uint64_t{1000} * spec_.least_work;
      engine_.work(least + engine_.random() % (std::uint64_t{1000} * spec_.most_work - least + 1));
    }

   private:
    engine& engine_;
    const sim_spec& spec_;
  };

  template <class Body>
  outcome run(Body body) {
    const muster_simulation::report seen = engine_.run(spec_.threads, [&](unsigned index) {
      hand own(engine_, spec_);
      body(index, own);
    });
    outcome result;
    result.seconds = static_cast<double>(seen.end) * 1e-12;
    const auto items = static_cast<double>(spec_.items);
    for (std::size_t where = 0; where < muster_simulation::places; ++where)
      result.detail[std::string(muster_simulation::place_names[where])] =
          static_cast<double>(seen.lines.found[where]) / items;
    result.detail["line transfers"] = static_cast<double>(seen.lines.transfers()) / items;
    result.detail["invalidations"] = static_cast<double>(seen.lines.invalidations) / items;
    result.detail["memory writes"] = static_cast<double>(seen.lines.memory_writes) / items;
    result.detail["sleeps"] = static_cast<double>(seen.sleeps) / items;
    return result;
  }

 private:
  const sim_spec& spec_;
  engine engine_;
};

}  // namespace

void add_simulated(catalogue& to) {
  const std::size_t first = to.all.size();
  add_validated<simulated>(to, sim_predicted);
  add_pairs<simulated>(to, sim_predicted | model_figure8);
  add_exchanges<simulated>(to, model_figure4);
  add_calls_by_queues<simulated>(to, model_figure7);
  add_objects<simulated>(to, sim_objects);
  add_counts<simulated>(to, sim_counting);
  add_alike<simulated>(to, sim_predicted);
  // On a new thread, which gets a new heap from the C library: what shares a line with what must not depend on what has
  // been allocated before.
  for (std::size_t i = first; i < to.all.size(); ++i) {
    to.all[i].model = [run = std::move(to.all[i].model)](const sim_spec& spec) {
      return std::async(std::launch::async, run, std::cref(spec)).get();
    };
  }
}

}  // namespace muster::bench
