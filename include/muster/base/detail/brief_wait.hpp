// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// brief_wait.hpp: a wait for an imminent action of another thread that signals no event.
//
// Between checks it first pauses, then yields the processor, then sleeps: the other thread may be stopped, or may have
// a lower priority and get no processor while this thread only yields.
#pragma once

#include <muster/base/sync.hpp>  // sync::relax, sync::yield, sync::nap

namespace muster::inline MUSTER_ABI::detail {

class brief_wait {
 public:
  /// Call between two checks.
  void pause() noexcept {
    if (turns_ < pausing) {
      for (unsigned i = 0; i < 1U << turns_; ++i) sync::relax();
      ++turns_;
    } else if (turns_ < pausing + yielding) {
      sync::yield();
      ++turns_;
    } else {
      sync::nap();
    }
  }

 private:
  static constexpr unsigned pausing = 8;    // about 250 pauses in total: a few microseconds
  static constexpr unsigned yielding = 64;  // about 20 microseconds on an idle processor
  unsigned turns_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
