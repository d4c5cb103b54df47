// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// FFQ^m as printed, as a contender. Compiled on x86-64 only.
#include "baselines/ffq_mpmc_paper.hpp"
#include "driver/request.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stall.hpp"
#include "ours/adapter.hpp"

#include <muster/queue/spsc.hpp>

namespace muster::bench {
namespace {

/// Answers go through a queue that can be asked without waiting, which the paper's cannot.
template <class Layout>
outcome run_laid_out(const exchange_spec& spec) {
  return run_exchange<ffq_mpmc_paper<item, Layout>, ours<spsc_queue<item>>>(spec);
}

}  // namespace

void add_ffq_mpmc(catalogue& to) {
  to.add("ffq paper", "paper",
         {{.name = "FFQ^m as printed",
           .note = "Algorithm 2 with erratum, cmpxchg16b, aligned cells; flow control outside",
           .topics = fan_out | many_to_many | slow_consumer | queue_pairs,
           .stream = run_stream<ffq_mpmc_paper<item>>,
           .stall = run_stall<ffq_mpmc_paper<sluggish>>,
           .team = run_pairs<both_ends<ffq_mpmc_paper<item>>>}});
  using over_funnels = ffq_mpmc_paper<item, layout::aligned, funnels<6, patience>>;
  to.add("baseline", "baseline",
         {{.name = "FFQ^m over funnels",
           .note = "FFQ^m as printed; ranks by Aggregating Funnels, Roh and others, 2025",
           .topics = many_to_many | queue_pairs,
           .stream = run_stream<over_funnels>,
           .team = run_pairs<both_ends<over_funnels>>}});
  const auto add = [&](const char* name, runner<exchange_spec> run) {
    const char* const note = "a cell has 32 bytes where the paper's has 24: its two words are changed at once";
    to.add("ffq paper", "paper", {{.name = name, .note = note, .topics = queue_layouts, .exchange = run}});
  };
  add("FFQ^m, not aligned", run_laid_out<layout::packed>);
  add("FFQ^m, aligned", run_laid_out<layout::aligned>);
  add("FFQ^m, randomized", run_laid_out<layout::rotated>);
  add("FFQ^m, both", run_laid_out<layout::aligned_rotated>);
}

}  // namespace muster::bench
