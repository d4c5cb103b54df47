// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/exclusive_use.hpp: detects two threads where only one is allowed.
#pragma once

#include <muster/base/sync.hpp>  // sync::atomic

namespace muster::inline MUSTER_ABI::detail {

/// In debug builds, aborts with a clear message if a second thread enters while one is inside. In release builds it is
/// one unused byte.
class exclusive_use_check {
 public:
  class visit {
   public:
    visit(exclusive_use_check& door, const char* complaint) noexcept : door_(door) {
      if constexpr (debug_checks)
        if (door_.taken_.exchange(true, std::memory_order_relaxed)) fail_check(complaint, __FILE__, __LINE__);
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;
    ~visit() {
      if constexpr (debug_checks) door_.taken_.store(false, std::memory_order_relaxed);
    }

   private:
    exclusive_use_check& door_;
  };

  visit enter(const char* complaint) noexcept { return visit(*this, complaint); }

 private:
  sync::atomic<bool> taken_{false};
};

}  // namespace muster::inline MUSTER_ABI::detail
