// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's combining objects as contenders. The numbers of fibers are those of the paper's Table 2, rounded to
// powers of two.
#include "baselines/combining/ffwd.hpp"
#include "driver/shares.hpp"
#include "ours/combined.hpp"

namespace muster::bench {
namespace {

template <template <class...> class Algorithm>
contender made(const char* name, const char* role, unsigned fibers, const char* note) {
  return {.name = name,
          .family = "muster",
          .role = role,
          .note = note,
          .topics = concurrent_object,
          .fibers = fibers,
          .team = run_object<combined<Algorithm>>};
}
template <template <class...> class Algorithm>
void add(catalogue& to, const char* name, const char* role, unsigned fibers, const char* note) {
  to.add(made<Algorithm>(name, role, fibers, note));
}
/// The same, also by threads for a fixed time.
template <template <class...> class Algorithm>
void add_by_turns(catalogue& to, const char* name, const char* role, unsigned fibers, const char* note) {
  contender one = made<Algorithm>(name, role, fibers, note);
  one.topics |= by_turns;
  one.shares = run_shares<combined<Algorithm>>;
  to.add(std::move(one));
}

}  // namespace

void add_combine(catalogue& to) {
  add_by_turns<osci>(to, "osci", "ours", 64, "");
  add_by_turns<osci_shared>(to, "osci_shared", "ours", 1, "batches of several threads");
  add_by_turns<psim>(to, "psim", "ours", 64, "PSim-x with a bit for each carrier; wait-free");
  add_by_turns<cc_synch>(to, "cc_synch", "baseline", 8, "CC-Synch");
  add<dsm_synch>(to, "dsm_synch", "baseline", 8, "DSM-Synch");
  add<h_synch>(to, "h_synch", "baseline", 32, "H-Synch, each carrier a cluster");
  add_by_turns<flat_combining>(to, "flat_combining", "baseline", 32, "");
  add<oyama>(to, "oyama", "baseline", 16, "");
  add<clh>(to, "clh", "baseline", 4, "a queue lock");
  add<mcs>(to, "mcs", "baseline", 4, "a queue lock");
  add<ffwd>(to, "ffwd", "baseline", 1, "delegation: the object belongs to a server thread, beside the carriers");
  add<retry>(to, "retry", "baseline", 1, "compare-and-swap with backoff");
}

}  // namespace muster::bench
