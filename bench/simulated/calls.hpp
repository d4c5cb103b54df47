// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// calls.hpp: system calls through queues (driver/call_program.hpp) on a simulated machine. The first half of the
// threads has the callers, the second half makes the calls. Each call takes from least_work to most_work nanoseconds.
#pragma once

#include "baselines/call_rings.hpp"
#include "ours/call_queues.hpp"
#include "simulated/contenders.hpp"

namespace muster::bench::inline MUSTER_ABI {

template <class ThreadGroup, class Channel>
outcome sim_calls(const sim_spec& spec) {
  static constexpr std::int64_t right = 4711;
  ThreadGroup group(spec);
  const call_spec calls{.carriers = static_cast<unsigned>(spec.threads.size() / 2),
                        .fibers = spec.fibers,
                        .items = spec.items,
                        .pus = {}};
  return exchange_calls<Channel>(calls, right, [&](const auto& body) {
    return group.run([&](unsigned index, auto& hand) {
      const auto execute = [&hand](const call_request&) {
        hand.delay();
        return right;
      };
      body(index, [&hand] { hand.start(); }, execute);
    });
  });
}

/// Those of Figure 7 of the FFQ paper.
template <class ThreadGroup>
void add_calls_by_queues(catalogue& to, unsigned topics) {
  to.all.push_back(modelled_contender("spmc_queue + spsc_queue", "ours", topics,
                                      "submissions and responses; each carrier has its own",
                                      sim_calls<ThreadGroup, call_queues>));
  to.all.push_back(modelled_contender("spmc_queue both ways", "ours", topics,
                                      "submissions and responses; each carrier has its own; each cell has a line",
                                      sim_calls<ThreadGroup, call_queues_by_cell>));
  to.all.push_back(modelled_contender("Vyukov's ring both ways", "baseline", topics,
                                      "bounded, of many producers and consumers; all carriers share both",
                                      sim_calls<ThreadGroup, two_rings>));
}

}  // namespace muster::bench::inline MUSTER_ABI
