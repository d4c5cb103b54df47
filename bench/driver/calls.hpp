// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// calls.hpp: getppid() through queues, on real threads.
#pragma once

#include "driver/call_program.hpp"
#include "driver/thread_group.hpp"

#include <sys/syscall.h>
#include <unistd.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// For finished runs: the time that one caller waits for each of its calls.
inline void add_latency(outcome& to, const call_spec& spec) {
  to.items = spec.items;
  to.peak_memory = peak_memory();
  to.detail["latency"] =
      to.seconds * 1e9 * static_cast<double>(spec.carriers * spec.fibers) / static_cast<double>(spec.items);
}

template <class Channel>
outcome run_calls(const call_spec& spec) {
  reset_peak_memory();
  outcome result = exchange_calls<Channel>(spec, ::syscall(SYS_getppid), [&](const auto& body) {
    return run_crew(spec.pus, [&](unsigned index, start_line& line) {
      body(index, [&] { line.arrive_and_wait(); }, [](const call_request& r) { return ::syscall(r.call); });
    });
  });
  result.peak_memory = peak_memory();
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
