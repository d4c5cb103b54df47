// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Boost.Fiber: boost::this_fiber::yield under its round-robin scheduler.
#include "driver/switches.hpp"
#include "driver/thread_group.hpp"

#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>

namespace muster::bench {
namespace {

outcome run_yields(const team_spec& spec) {
  turn_taking turns(spec);
  outcome measured;
  outcome result = run_crew(spec.pus, [&](unsigned, start_line& line) {
    std::vector<boost::fibers::fiber> all;
    for (unsigned f = 0; f < spec.fibers; ++f) {
      all.emplace_back([&turns, f] {
        if (f == 0) turns.begin();
        for (std::uint64_t n = turns.laps(); n != 0; --n) {
          turns.take(f);
          boost::this_fiber::yield();
        }
      });
    }
    line.arrive_and_wait();
    for (boost::fibers::fiber& one : all) one.join();
    turns.end(measured);
  });
  measured.cpu_seconds = result.cpu_seconds;
  measured.peak_memory = peak_memory();
  return measured;
}

}  // namespace

void add_boost_fiber(catalogue& to) {
  to.all.push_back({.name = "boost::fibers::fiber",
                    .family = "Boost.Fiber",
                    .role = "peer",
                    .topics = fiber_switch,
                    .fibers = 1024,
                    .team = run_yields});
}

}  // namespace muster::bench
