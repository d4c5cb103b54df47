// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// one_run.hpp: lets one thread at a time run an object; a second one gets an error.
#pragma once

#include <muster/base/detail/process.hpp>  // process_generation
#include <muster/base/sync.hpp>            // sync::atomic

#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI::detail {

class one_run {
 public:
  /// While it lives, the object is running.
  class scope {
   public:
    /// Throws std::logic_error with this message if it is running already.
    scope(one_run& of, const char* message) : of_(of) {
      unsigned idle = 0;
      // (1) acquire: pairs with (2). This run sees the effects of the one before.
      if (!of.in_.compare_exchange_strong(idle, process_generation() + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed))
        throw std::logic_error(message);
    }
    ~scope() {
      // (2) release: pairs with (1).
      of_.in_.store(0, std::memory_order_release);
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    one_run& of_;
  };

  /// False in a child process that was forked during a run.
  bool is_running() const noexcept { return in_.load(std::memory_order_relaxed) == process_generation() + 1; }

 private:
  sync::atomic<unsigned> in_{0};  // 0, or 1 + the number of the process in which it runs
};

}  // namespace muster::inline MUSTER_ABI::detail
