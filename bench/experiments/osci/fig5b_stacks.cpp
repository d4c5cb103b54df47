// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci/fig5b-stacks: Figure 5b of "Lock Oscillation": stacks, by the number of kernel threads.
#include "experiments/osci/fig5_pairs.hpp"

namespace muster::bench {

experiment osci_fig5b_stacks() {
  return {"osci/fig5b-stacks", "combine", "osci, Figure 5b", "Stacks by kernel threads",
          [](const setting& s) { return fig5_pairs(s, shared_stack, 0); }};
}

}  // namespace muster::bench
