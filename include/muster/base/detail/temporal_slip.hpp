// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// temporal_slip.hpp: a short pause that lets the other side of a queue run ahead, so that the two sides work on
// different cache lines.
#pragma once

#include <muster/base/detail/siblings.hpp>   // siblings
#include <muster/base/detail/utilities.hpp>  // std::min
#include <muster/base/sync.hpp>              // sync::atomic

#include <cstddef>  // std::size_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI {

/// After a wait, or shortly before one: lets the other side run ahead for a while, so that the two sides then work on
/// different cache lines (temporal slipping: Giacomoni, Moseley, Vachharajani, "FastForward", PPoPP 2008).
/// Adapts: after fruitless waits it skips the next ones, so threads that answer each other's requests lose almost
/// nothing. The threads of one side share one object.
class temporal_slip {
 public:
  /// `amount()` returns how much is available. Waits until that is `enough` or has not changed for about a microsecond,
  /// at most about twenty microseconds. If it stops changing before it is enough, the other side waits for this one,
  /// and the wait was fruitless. Returns at once if the thread has other fibers to run.
  template <class Amount>
  void after_wait(std::size_t enough, Amount amount) noexcept {
    if (detail::siblings::of_caller() != nullptr) [[unlikely]]
      return;
    // All relaxed: hints. If two threads store at once, one store is lost.
    if (const unsigned skips = skips_.load(std::memory_order_relaxed); skips != 0) {
      skips_.store(skips - 1, std::memory_order_relaxed);
      return;
    }
    std::size_t known = amount();
    bool vain = false;
    for (unsigned pauses = 32; pauses <= 256 && known < enough && !vain; pauses *= 2) {
      for (unsigned i = 0; i < pauses; ++i) sync::relax();
      const std::size_t before = std::exchange(known, amount());
      vain = known == before;
    }
    const unsigned skips = next_skips_.load(std::memory_order_relaxed);
    if (vain) skips_.store(skips, std::memory_order_relaxed);
    next_skips_.store(vain ? std::min(2 * skips, most_skips) : 1, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned most_skips = 1024;
  sync::atomic<unsigned> skips_{0};       // waits to skip from now on
  sync::atomic<unsigned> next_skips_{1};  // and after the next fruitless one
};

}  // namespace muster::inline MUSTER_ABI
