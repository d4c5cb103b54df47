// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync.hpp: the only seam between the library and the machine's atomics.
//
// Every structure names sync::atomic, sync::cell, sync::relax, sync::yield, sync::light_fence, sync::heavy_fence,
// sync::full_fence, sync::futex_wait, sync::futex_wait_any and sync::futex_wake, and nothing else that threads share;
// sync::thread_index, sync::innermost, sync::own, sync::own_siblings and sync::cached_part for thread-local data,
// sync::fork_generation, and sync::switch_fiber. A macro chooses the implementation for a source file: the standard
// library, the model checker (MUSTER_MODEL), the standard library with delays and crashes (MUSTER_CHAOS) or with counts
// (MUSTER_COUNTING), or a simulated machine (MUSTER_SIMULATION). So the code that is checked is the code that is
// shipped.
#pragma once

#if defined(MUSTER_MODEL)
#include <muster_model/sync.hpp>  // IWYU pragma: export
namespace muster::inline MUSTER_ABI {
namespace sync = model;
}
#elif defined(MUSTER_CHAOS)
#include <muster_chaos/sync.hpp>  // IWYU pragma: export
namespace muster::inline MUSTER_ABI {
namespace sync = chaos;
}
#elif defined(MUSTER_COUNTING)
#include <muster_counting/sync.hpp>  // IWYU pragma: export
namespace muster::inline MUSTER_ABI {
namespace sync = counting;
}
#elif defined(MUSTER_SIMULATION)
#include <muster_simulation/sync.hpp>  // IWYU pragma: export
namespace muster::inline MUSTER_ABI {
namespace sync = simulation;
}
#else
#include <muster/base/detail/native.hpp>  // IWYU pragma: export
namespace muster::inline MUSTER_ABI {
namespace sync = native;
}
#endif
