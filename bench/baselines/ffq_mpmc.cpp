// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// FFQ^m as printed, as a contender. Compiled on x86-64 only.
#include "baselines/ffq_mpmc_paper.hpp"
#include "driver/stall.hpp"

namespace muster::bench {

void add_ffq_mpmc(catalogue& to) {
  contender c;
  c.name = "FFQ^m as printed";
  c.family = "ffq paper";
  c.role = "paper";
  c.note = "Algorithm 2 with erratum, cmpxchg16b, aligned cells; flow control outside";
  c.topics = fan_out | many_to_many | slow_consumer;
  c.stream = run_stream<ffq_mpmc_paper<item>>;
  c.stall = run_stall<ffq_mpmc_paper<sluggish>>;
  to.all.push_back(c);
}

}  // namespace muster::bench
