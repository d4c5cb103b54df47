// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's combining objects as contenders. The numbers of fibers are those of the paper's Table 2, rounded to
// powers of two.
#include "baselines/combining/ffwd.hpp"
#include "ours/combined.hpp"

namespace muster::bench {
namespace {

template <template <class...> class Algorithm>
void add(catalogue& to, const char* name, const char* role, unsigned fibers, const char* note) {
  to.add("muster", role,
         {{.name = name,
           .note = note,
           .topics = concurrent_object,
           .fibers = fibers,
           .team = run_object<combined<Algorithm>>}});
}

}  // namespace

void add_combine(catalogue& to) {
  add<osci>(to, "osci", "ours", 64, "");
  add<osci_shared>(to, "osci_shared", "ours", 1, "batches of several threads");
  add<psim>(to, "psim", "ours", 64, "PSim-x with a bit for each carrier; wait-free");
  add<cc_synch>(to, "cc_synch", "baseline", 8, "CC-Synch");
  add<dsm_synch>(to, "dsm_synch", "baseline", 8, "DSM-Synch");
  add<h_synch>(to, "h_synch", "baseline", 32, "H-Synch, each carrier a cluster");
  add<flat_combining>(to, "flat_combining", "baseline", 32, "");
  add<oyama>(to, "oyama", "baseline", 16, "");
  add<clh>(to, "clh", "baseline", 4, "a queue lock");
  add<mcs>(to, "mcs", "baseline", 4, "a queue lock");
  add<ffwd>(to, "ffwd", "baseline", 1, "delegation: the object belongs to a server thread, beside the carriers");
  add<retry>(to, "retry", "baseline", 1, "compare-and-swap with backoff");
}

}  // namespace muster::bench
