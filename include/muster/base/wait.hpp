// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wait.hpp: the policies of a thread that waits. spin_then_park, the default, spins for a few microseconds, or up to
// fifty where that spares brief sleeps, then sleeps in the kernel. park sleeps at once. spin never sleeps, but yields
// the core. A waiter of the first two uses no processor time once it sleeps.
//
// Cost       a wait makes a system call for each yield (sched_yield), and two for each sleep: membarrier, which takes
//            some microseconds, and futex. The thread that wakes it makes one (futex). An event that finds no sleeper
//            costs a load; on systems without membarrier, a read-modify-write.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

namespace muster::inline MUSTER_ABI {

namespace wait {

/// Checks `pauses` times with a pause between checks, then yields the core between checks, forever.
struct spin {
  static constexpr bool parks = false;
  static constexpr unsigned pauses = 256;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = false;
};

/// Checks `pauses` times with a pause between checks, `yields` times with a yield between (in total about ten
/// microseconds on an idle machine), then sleeps. When sleeps are brief, it spins longer before the next ones: see
/// base/detail/spin_extension.hpp.
struct spin_then_park {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 128;
  static constexpr unsigned yields = 8;
  static constexpr bool adapts = true;
};

/// Sleeps at once.
struct park {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 0;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = false;
};

}  // namespace wait

}  // namespace muster::inline MUSTER_ABI
