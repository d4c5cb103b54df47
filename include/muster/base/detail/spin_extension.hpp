// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spin_extension.hpp: how much longer than its policy says a thread spins before it sleeps.
//
// Why        a wake takes longer than a reply: five to fifty microseconds, the longer times on virtual machines. While
//            one side of a conversation is being woken, the other one would fall asleep, so that both sleep at every
//            turn, and never stop doing so.
// Learns     from sleeps: after a brief one, the next wait spins longer. If the longest spin fails and the sleep
//            after it is brief, spinning does not help, and is not tried again for a while. Long sleeps shorten it, so
//            an idle thread, or one of too many for the processors, spins as its policy says.
// Source     the idea to spin for as long as a sleep costs is from Karlin, Li, Manasse, Owicki, "Empirical Studies of
//            Competitive Spinning for a Shared-Memory Multiprocessor", SOSP 1991.
#pragma once

#include <muster/base/detail/native.hpp>     // native::atomic
#include <muster/base/detail/time.hpp>       // deadline_clock, microseconds
#include <muster/base/detail/utilities.hpp>  // std::min
#include <muster/base/sync.hpp>              // sync::relax, sync::yield

namespace muster::inline MUSTER_ABI::detail {

/// The threads that sleep for the same events share one object.
class spin_extension {
 public:
  /// Zero, or up to 48 microseconds.
  std::chrono::microseconds length() const noexcept {
    const int level = level_.load(std::memory_order_relaxed);
    return level <= 0 ? std::chrono::microseconds(0) : shortest * (1 << std::min(level - 1, most - 1));
  }
  /// Spins for length(), or until `until`. Returns true once ready(). Checks `looks` times between looks at the clock.
  template <class Ready>
  bool spin(Ready ready, deadline until, unsigned looks) const noexcept {
    const auto longest = length();
    if (longest.count() == 0) return false;
    const deadline end = std::min(until, deadline_clock::now() + longest);
    do {
      unsigned look = 0;
      do {
        if (ready()) return true;
        sync::relax();
      } while (++look < looks);
      sync::yield();
    } while (deadline_clock::now() < end);
    return false;
  }
  /// Call after a sleep that followed spin(). One that ended without the event counts as long.
  void note_sleep(deadline_clock::duration lasted) noexcept {
    const int now = level_.load(std::memory_order_relaxed);
    int next = now + 1;
    if (now >= 0 && lasted > brief) next = std::max(now - 1, 0);
    else if (now >= most) next = -rest;
    if (next != now) level_.store(next, std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::microseconds shortest{6};
  static constexpr std::chrono::microseconds brief{100};  // includes the wake
  static constexpr int most = 4;
  static constexpr int rest = 32;  // sleeps without an extension

  // Relaxed: a hint, which the model checker need not see. If two threads store at once, one store is lost. Below zero:
  // sleeps left to rest.
  native::atomic<int> level_{0};
};

}  // namespace muster::inline MUSTER_ABI::detail
