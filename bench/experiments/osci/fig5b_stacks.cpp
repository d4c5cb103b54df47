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
  return made;
}

}  // namespace

experiment osci_fig5b_stacks() {
  return {"osci/fig5b-stacks", "combine", "osci, Figure 5b", "Stacks by kernel threads", prepare};
}

}  // namespace muster::bench
