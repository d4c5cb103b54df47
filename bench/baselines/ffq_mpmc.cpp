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
  contender c{.name = "FFQ^m as printed", .family = "ffq paper", .role = "paper"};
  c.note = "Algorithm 2 with erratum, cmpxchg16b, aligned cells; flow control outside";
  c.topics = fan_out | many_to_many | slow_consumer | queue_pairs;
  c.stream = run_stream<ffq_mpmc_paper<item>>;
  c.team = run_pairs<both_ends<ffq_mpmc_paper<item>>>;
  c.stall = run_stall<ffq_mpmc_paper<sluggish>>;
  to.all.push_back(c);

  const auto with = [&](const char* name, outcome (*run)(const exchange_spec&)) {
    contender laid_out = c;
    laid_out.name = name;
    laid_out.note = "a cell has 32 bytes where the paper's has 24: its two words are changed at once";
    laid_out.topics = queue_layouts;
    laid_out.exchange = run;
    to.all.push_back(laid_out);
  };
  with("FFQ^m, not aligned", run_laid_out<layout::packed>);
  with("FFQ^m, aligned", run_laid_out<layout::aligned>);
  with("FFQ^m, randomized", run_laid_out<layout::rotated>);
  with("FFQ^m, both", run_laid_out<layout::aligned_rotated>);
}

}  // namespace muster::bench
