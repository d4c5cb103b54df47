// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine.hpp: the machine of a simulation, as a file describes it (sim/cache/machines).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster_simulation {

/// Time is counted in whole picoseconds, so that it does not depend on how a compiler rounds.
using picoseconds = std::uint64_t;

/// Cores in clusters. Those of a cluster share a last-level cache; between clusters lines travel further.
struct machine {
  static constexpr unsigned most_cores = 128;

  std::string name{};
  std::vector<std::string> sources{};  // where the numbers are from
  unsigned clusters = 1;
  unsigned cores_per_cluster = 1;
  unsigned threads_per_core = 1;

  std::size_t line = 64;       // bytes
  std::size_t l1 = 32 << 10U;  // bytes; l1 and l2 are each core's own, and l2 has what l1 has
  std::size_t l2 = 1 << 20U;
  std::size_t l3 = 32 << 20U;  // of each cluster

  // The time that a thread waits for a line, by the place where it is found.
  picoseconds in_l1 = 0;
  picoseconds in_l2 = 0;
  picoseconds in_l3 = 0;
  picoseconds in_cluster = 0;  // in the private cache of another core of the same cluster
  picoseconds elsewhere = 0;   // in any cache of another cluster
  picoseconds in_memory = 0;

  // The costs of operations, without their lines.
  picoseconds read_modify_write = 0;
  picoseconds fence = 0;
  picoseconds heavy_fence = 0;  // membarrier(2)
  picoseconds pause = 0;
  picoseconds yield = 0;         // sched_yield(2) without another thread to run
  picoseconds fiber_switch = 0;  // to another fiber of the same thread
  picoseconds sleep = 0;         // from the call until the thread is asleep
  picoseconds call = 0;          // the call that wakes
  picoseconds wake = 0;          // from that call until the sleeper continues
  unsigned store_buffer = 1;     // stores that may wait for their lines while the thread continues

  unsigned cores() const noexcept { return clusters * cores_per_cluster; }
  unsigned threads() const noexcept { return cores() * threads_per_core; }
  /// Hardware threads are numbered so that `n` of them are the first n in the order in which they are to be used: one
  /// for each core of the first cluster, then of the next, and then the cores' second threads.
  unsigned core_of(unsigned thread) const noexcept { return thread % cores(); }
  unsigned cluster_of(unsigned core) const noexcept { return core / cores_per_cluster; }
};

/// Throws std::invalid_argument, which names the file, the mistake and the expected value.
machine read_machine(const std::filesystem::path& file);

/// The directory of this project's machine files.
std::filesystem::path known_machines();

/// The text of a machine file. read_machine() reads it back unchanged.
std::string machine_text(const machine& m);

}  // namespace muster_simulation
