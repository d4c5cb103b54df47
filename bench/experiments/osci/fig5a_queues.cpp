// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig5a-queues: Figure 5a of "Lock Oscillation": queues, by the number of kernel threads.
#include "experiments/osci/fig5_pairs.hpp"

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made = fig5_pairs(s, shared_queue);
  result& r = made.head;
  const unsigned units = s.place.units();
  r.claim =
      "on 64 cores OsciQueue has over 4 times the throughput of LCRQ and over 5 times that of CC-Queue, and is within "
      "25 % of the ideal; LCRQ is the fastest of the others. Items are 8 bytes";
  promise_at_least(r, "combining_queue<osci>", "combining_queue<cc_synch>", units, 1.0, "over 5 times on 64 cores");
  promise_at_least(r, "combining_queue<osci>", "LCRQ, rings of 2^10", units, 1.0, "over 4 times on 64 cores");
  made.finish = [units](std::vector<result>& results) {
    const std::vector<const char*> order{"combining_queue<osci>", "LCRQ, rings of 2^10", "combining_queue<cc_synch>",
                                         "Michael-Scott queue"};
    judge_order(results.front(), medians_at(results.front(), units, order), "Mops/s with all hardware threads");
  };
  return made;
}

}  // namespace

experiment osci_fig5a_queues() {
  return {"osci/fig5a-queues", "combine", "osci, Figure 5a", "Queues by kernel threads", prepare};
}

}  // namespace muster::bench
