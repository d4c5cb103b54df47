// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// System calls through one ring of many producers and consumers each way, and as they are, within a process.
#include "driver/calls.hpp"
#include "baselines/call_rings.hpp"

#include <atomic>
#include <string>
#include <utility>

namespace muster::bench {
namespace {

outcome run_native(const call_spec& spec) {
  reset_peak_memory();
  const long right = ::syscall(SYS_getppid);
  std::atomic<std::uint64_t> wrong{0}, made{0};
  const std::vector<int> pus(spec.pus.begin(), spec.pus.begin() + spec.carriers);
  outcome result = run_crew(pus, [&](unsigned carrier, start_line& line) {
    run_callers(
        spec.fibers, [&] { line.arrive_and_wait(); },
        [&](unsigned fiber) {
          std::uint64_t mine = 0, done = 0;
          for (const std::uint64_t n = calls_of(spec, carrier * spec.fibers + fiber); done < n; ++done)
            if (::syscall(SYS_getppid) != right) ++mine;
          wrong += mine;
          made += done;
        });
  });
  add_latency(result, spec);
  if (wrong != 0 || made != spec.items) result.error = "getppid() returned something else";
  // One after another: a caller waits for none of the others.
  result.detail["latency"] /= spec.fibers;
  return result;
}

}  // namespace

void add_call_baselines(catalogue& to) {
  to.add("baseline", "baseline",
         {{.name = "Vyukov's ring both ways",
           .note = "bounded, of many producers and consumers; all carriers share both; our own code",
           .call = run_calls<two_rings>},
          {.name = "native getppid()",
           .role = "limit",
           .note = "no queue: each caller makes its call",
           .call = run_native}});
}

}  // namespace muster::bench
