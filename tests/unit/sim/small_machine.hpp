// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// small_machine.hpp: a machine for tests, with round numbers: two clusters of two cores with two hardware threads each,
// an L1 of two lines, an L2 of four, an L3 of eight.
#pragma once

#include "sim/cache/machine.hpp"

namespace muster_simulation {

inline machine small_machine() {
  machine m;
  m.name = "small";
  m.sources = {"made up"};
  m.clusters = 2;
  m.cores_per_cluster = 2;
  m.threads_per_core = 2;
  m.l1 = 2 * m.line;
  m.l2 = 4 * m.line;
  m.l3 = 8 * m.line;
  m.in_l1 = 1'000;
  m.in_l2 = 5'000;
  m.in_l3 = 20'000;
  m.in_cluster = 50'000;
  m.elsewhere = 100'000;
  m.in_memory = 200'000;
  m.read_modify_write = 6'000;
  m.fence = 3'000;
  m.heavy_fence = 1'000'000;
  m.pause = 10'000;
  m.yield = 300'000;
  m.fiber_switch = 4'000;
  m.sleep = 2'000'000;
  m.call = 500'000;
  m.wake = 5'000'000;
  m.store_buffer = 2;
  return m;
}

}  // namespace muster_simulation
