// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// brief_wait.hpp: a wait for something that another thread is about to do and does not tell anybody of.
//
// Looks with pauses between, then yields the processor between looks, and then sleeps between them: the other may be
// stopped, or may have a lower priority and get no processor as long as this thread only yields.
#pragma once

#include <muster/base/sync.hpp>  // sync::relax, sync::yield, sync::nap

namespace muster::inline MUSTER_ABI::detail {

class brief_wait {
 public:
  /// Between two looks.
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
  static constexpr unsigned pausing = 8;    // some 250 pauses together: a few microseconds
  static constexpr unsigned yielding = 64;  // as long as the processor has nothing else to do, some 20 microseconds
  unsigned turns_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
