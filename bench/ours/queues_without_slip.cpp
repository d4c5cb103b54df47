// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's queues again, without temporal slipping: in a namespace of their own, because a program may not have
// two definitions of a queue, and with a class in the place of temporal_slip that never stays away.
#include <muster/base/config.hpp>
#undef MUSTER_ABI
#define MUSTER_ABI v0_without_slip

#include <muster/base/detail/temporal_slip.hpp>

#include <cstddef>

namespace muster::inline MUSTER_ABI {

struct no_slip {
  template <class Amount>
  void after_wait(std::size_t, Amount) noexcept {}
};

}  // namespace muster::inline MUSTER_ABI

#define temporal_slip no_slip

#include "driver/round_trips.hpp"
#include "ours/adapter.hpp"

#include <muster/queue/mpmc.hpp>
#include <muster/queue/spsc.hpp>

namespace muster::bench {

void add_ours_without_slip(catalogue& to) {
  to.add("muster", "baseline",
         {{.name = "spsc_queue without slipping", .round_trips = run_round_trips<ours<spsc_queue<item>>>},
          {.name = "mpmc_queue without slipping",
           .round_trips = run_round_trips<ours<mpmc_queue<item>>>,
           .to_servers = true}});
}

}  // namespace muster::bench
