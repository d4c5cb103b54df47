// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// options.hpp: construction options of the combining objects.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

namespace muster::inline MUSTER_ABI {

/// Options of a combining object.
struct combine_options {
  /// Kernel threads that may use the object at the same time. A thread that has used it counts until it ends. psim
  /// reserves room for the results of that many threads.
  unsigned threads = 1024;
  /// osci: the most requests of one thread's fibers that travel together.
  unsigned batch = 64;
  /// Requests that a combiner serves before it hands its role on; it finishes its current batch.
  unsigned help = 1024;
  /// osci_shared: groups of threads; 0 means as many as threads can run at once.
  unsigned groups = 0;
  /// osci: enables submit() and post(). The combiner then pays a read-modify-write when no request is left to serve.
  bool detached = false;
};

}  // namespace muster::inline MUSTER_ABI
