// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parlaylib, on its own scheduler.
#include "peers/parlay_loads.hpp"

namespace muster::bench {

void add_parlaylib(catalogue& to) {
  add_parlay<parlay::internal::scheduler_type>(to, "parlaylib", "peer", "on its own scheduler");
}

}  // namespace muster::bench
