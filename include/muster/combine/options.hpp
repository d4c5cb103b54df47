// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// options.hpp: what all combining objects can be told when they are made.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

namespace muster::inline MUSTER_ABI {

struct combine_options {
  /// Kernel threads that may use the object at the same time. One that has used it counts until it ends. (psim keeps
  /// room for the results of so many.)
  unsigned threads = 1024;
  /// osci: requests of one thread's fibers that travel together, at most.
  unsigned batch = 64;
  /// Requests that a combiner serves before it hands its role on; it finishes the batch it is in.
  unsigned help = 1024;
  /// osci_shared: groups of threads; 0: as many as threads can run at once.
  unsigned groups = 0;
  /// osci: whether submit() and post() may be used. They cost the combiner a read-modify-write when it finds nobody
  /// left to serve.
  bool detached = false;
};

}  // namespace muster::inline MUSTER_ABI
