// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_on.hpp: forks with the engine that the program is compiled with.
#pragma once

#include <muster/fork/engine/barrier/frame_fork.hpp>  // fork_in_frame
#include <muster/fork/engine/watermark_fork.hpp>      // push_fork

#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI::detail {

#if defined(MUSTER_BARRIER)

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_on(worker&, F&& f, G&& g) {
  return fork_in_frame<F, G>(borrowed<F>(f), borrowed<G>(g));
}
template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_of_thread(F&& f, G&& g) {
  return fork_in_frame<F, G>(borrowed<F>(f), borrowed<G>(g));
}

#else

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_on(worker& self, F&& f, G&& g) {
  return push_fork(self, std::forward<F>(f), std::forward<G>(g));
}
template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_of_thread(F&& f, G&& g) {
  worker* const self = worker::current();
  if (self == nullptr) [[unlikely]]
    return fork_outside<F, G>(borrowed<F>(f), borrowed<G>(g));
  return push_fork(*self, std::forward<F>(f), std::forward<G>(g));
}

#endif

}  // namespace muster::inline MUSTER_ABI::detail
