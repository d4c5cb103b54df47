// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// System calls through the library's queues, within a process.
#include "driver/calls.hpp"
#include "ours/call_queues.hpp"

#include <muster/syscall/broker.hpp>
#include <muster/syscall/inside.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

/// The sandbox's mechanism without the sandbox: one carrier.
outcome run_guarded(const call_spec& spec) {
  reset_peak_memory();
  const muster::policy rules{};
  const detail::arena_plan plan{spec.fibers, 1, 4096, 4096};
  const mapped_region arena = detail::make_arena(plan);
  const detail::arena_map at(plan, arena.start());
  detail::broker broker(rules, at, detail::broker::options{.on_refusal = {}, .kill = {}});
  inside in(at);
  share_units({spec.pus.back()});
  broker.start();
  const std::int64_t right = ::getppid();
  std::vector<std::uint64_t> wrong(spec.fibers);
  outcome result = run_crew({spec.pus.front()}, [&](unsigned, start_line& line) {
    const auto work = [&](unsigned fiber) {
      for (std::uint64_t n = calls_of(spec, fiber); n != 0; --n)
        if (in.getppid() != right) ++wrong[fiber];
    };
    run_callers(spec.fibers, [&] { line.arrive_and_wait(); }, work);
  });
  broker.stop();
  add_latency(result, spec);
  const std::uint64_t made = broker.usage().calls;
  if (made != spec.items) result.error = std::to_string(made) + " calls were made of " + std::to_string(spec.items);
  if (std::any_of(wrong.begin(), wrong.end(), [](std::uint64_t n) { return n != 0; }))
    result.error = "a call returned what getppid() does not";
  return result;
}

}  // namespace

void add_calls(catalogue& to) {
  to.add("muster", "ours",
         {{.name = "spmc_queue + spsc_queue",
           .note = "submissions and responses; each carrier has its own",
           .call = run_calls<call_queues>},
          {.name = "spmc_queue both ways",
           .note = "submissions and responses; each carrier has its own; each cell has a line",
           .call = run_calls<call_queues_by_cell>},
          {.name = "guarded ring + slots",
           .note = "what a sandbox has: the broker's side believes nothing, and sleeps when idle",
           .call = run_guarded}});
}

}  // namespace muster::bench
