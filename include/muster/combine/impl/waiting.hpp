// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// waiting.hpp: how a request's owner waits, on a thread with fibers and on one without.
//
// With other fibers that can run, a look that finds nothing yields to them. When all of them wait as well, or there are
// none, the thread looks for a while and then sleeps, as its policy says (base/wait.hpp).
#pragma once

#include <muster/base/wait.hpp>    // event_mask
#include <muster/fiber/fiber.hpp>  // this_fiber, carrier

#include <chrono>   // std::chrono::milliseconds
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

template <class Wait>
class waiting {
 public:
  /// After the store that makes ready() true for those who wait with this key.
  MUSTER_HOT void happened(std::uint32_t key) noexcept {
    if constexpr (Wait::parks)
      if (events_.after_event(event_mask::bit(key)) != 0) [[unlikely]]
        events_.wake(key);
  }

  /// Returns when ready() is true.
  template <class Ready>
  MUSTER_HOT void await(std::uint32_t key, Ready ready) {
    if (ready()) return;
    if (this_fiber::has_siblings()) {
      await_among_fibers(key, ready);
    } else {
      events_.await<Wait>(key, ready, no_deadline);
    }
  }

 private:
  // A thread that sleeps for one of its fibers may be late for another by this much.
  static constexpr std::chrono::milliseconds nap{1};

  template <class Ready>
  MUSTER_HOT void await_among_fibers(std::uint32_t key, Ready& ready) {
    for (unsigned looks = 0; looks < 8; ++looks) {
      this_fiber::yield();
      if (ready()) return;
    }
    const carrier::idle_turns turns;
    do {
      if (turns.all_in_vain()) [[unlikely]]
        rest(key, ready);
      this_fiber::yield();
    } while (!ready());
  }

  /// All fibers of this thread have looked many times.
  template <class Ready>
  MUSTER_COLD void rest(std::uint32_t key, Ready& ready) {
    if constexpr (Wait::parks) {
      for (unsigned looks = 0; looks < Wait::yields; ++looks) {
        sync::yield();
        if (ready()) return;
      }
      events_.sleep(key, ready, deadline_clock::now() + nap);
    } else {
      sync::yield();
    }
  }

  event_mask events_;
};

}  // namespace muster::inline MUSTER_ABI::detail
