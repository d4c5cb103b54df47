// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig5a-queues, osci/fig5a-prefilled: Figure 5a of "Lock Oscillation": queues, by the number of kernel threads;
// the same with items in the queue at the start, of which the paper has no picture but says that nothing changes.
#include "experiments/osci/fig5_pairs.hpp"

namespace muster::bench {

experiment osci_fig5a_queues() {
  return {"osci/fig5a-queues", "combine", "osci, Figure 5a", "Queues by kernel threads",
          [](const setting& s) { return fig5_pairs(s, shared_queue, 0); }};
}

experiment osci_fig5a_prefilled() {
  return {"osci/fig5a-prefilled", "combine", "osci, Figure 5a",
          "Queues by kernel threads, with 8192 items at the start",
          [](const setting& s) { return fig5_pairs(s, shared_queue, 8192); }};
}

}  // namespace muster::bench
