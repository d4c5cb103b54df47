// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parlaylib, on a pool of muster. Its namespace has another name here, because parlaylib.cpp compiles the same
// functions with another scheduler.
#define parlay parlay_on_muster

#include "examples/parlaylib/muster_scheduler.hpp"
#include "peers/parlay_loads.hpp"

namespace muster::bench {

void add_parlaylib_on_muster(catalogue& to) {
  add_parlay<muster_parlay::scheduler>(to, "parlaylib on muster", "ours", "examples/parlaylib/muster_scheduler.hpp");
}

}  // namespace muster::bench
