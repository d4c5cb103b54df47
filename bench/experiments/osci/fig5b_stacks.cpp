// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig5b-stacks: Figure 5b of "Lock Oscillation": stacks, by the number of kernel threads.
#include "experiments/osci/fig5_pairs.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made = fig5_pairs(s, shared_stack);
  result& r = made.head;
  r.claim = "on 64 cores OsciStack has up to 7.1 times the throughput of CC-Stack. Items are 8 bytes";
  promise_at_least(r, "combining_stack<osci>", "combining_stack<cc_synch>", s.place.units(), 1.0,
                   "7.1 times on 64 cores");
  made.finish = [units = s.place.units()](std::vector<result>& results) {
    const std::vector<const char*> order{"combining_stack<osci>", "combining_stack<cc_synch>", "CLH stack",
                                         "Treiber stack"};
    judge_order(results.front(), medians_at(results.front(), units, order), "Mops/s with all hardware threads");
  };
  return made;
}

}  // namespace

experiment osci_fig5b_stacks() {
  return {"osci/fig5b-stacks", "combine", "osci, Figure 5b", "Stacks by kernel threads", prepare};
}

}  // namespace muster::bench
