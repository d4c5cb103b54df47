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
  return made;
}

}  // namespace

experiment osci_fig5a_queues() {
  return {"osci/fig5a-queues", "combine", "osci, Figure 5a", "Queues by kernel threads", prepare};
}

}  // namespace muster::bench
