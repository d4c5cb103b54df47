// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// children.hpp: processes that start and end one after another, for syscall/start.
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"

#include <sys/wait.h>
#include <chrono>
#include <stdexcept>
#include <string>

namespace muster::bench::inline MUSTER_ABI {

/// `begin` starts a process and returns its id; it must exit with status `status`.
template <class Begin>
outcome run_children(const start_spec& spec, const Begin& begin, int status = 0) {
  using clock = std::chrono::steady_clock;
  share_units(spec.pus);
  outcome result;
  std::uint64_t wrong = 0;
  const clock::time_point first = clock::now();
  for (std::uint64_t n = 0; n < spec.items; ++n) {
    const int child = begin();
    if (child < 0) throw std::runtime_error("no process was made");
    int found = 0;
    if (::waitpid(child, &found, 0) != child || !WIFEXITED(found) || WEXITSTATUS(found) != status) ++wrong;
  }
  result.seconds = std::chrono::duration<double>(clock::now() - first).count();
  result.items = spec.items;
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  result.detail["whole"] = result.seconds * 1e9 / static_cast<double>(spec.items);
  if (wrong != 0) result.error = std::to_string(wrong) + " processes did not exit as they should";
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
