// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// siblings.hpp: the fibers of a thread, as those see them who wait: what the library waits for goes by here. The
// carrier (fiber/carrier.hpp) registers itself as them; nothing in base/ knows fibers otherwise.
#pragma once

#include <muster/base/sync.hpp>  // sync::own_siblings

namespace muster::inline MUSTER_ABI::detail {

/// A fiber that waits: what the others of its thread have to know of it.
class waiter {
 public:
  /// Whether the wait is over. For any fiber of the thread; it must not wait itself.
  virtual bool ready() noexcept = 0;
  /// The thread is about to sleep: tells those who make the event, and adds the word to sleep on. Before the thread
  /// sleeps, it makes the heavy fences that are asked for, and looks whether anybody is ready.
  virtual void announce(futex_words& words) noexcept = 0;

  // As the policy says, of the thread.
  const unsigned pauses;
  const unsigned yields;
  const bool parks;
  const deadline until;

 protected:
  template <class Policy>
  waiter(const Policy&, deadline end) noexcept
      : pauses(Policy::pauses), yields(Policy::yields), parks(Policy::parks), until(end) {}
  ~waiter() = default;
};

/// Where a stack lies: from the lowest address to the end of the highest.
struct stack_bounds {
  const char* lowest = nullptr;
  const char* end = nullptr;
};

class siblings {
 public:
  /// Whether the caller has others that run when it does not, now or when what they wait for has happened.
  virtual bool any() const noexcept = 0;
  /// Gives each of the others a turn.
  virtual void run() noexcept = 0;
  /// Returns true when the waiter is ready, false when its time is over without that; the others run meanwhile.
  virtual bool wait(waiter& one) noexcept = 0;
  /// Of the calling fiber; empty for the thread itself.
  virtual stack_bounds stack() const noexcept = 0;

  /// The calling thread's, or null when it has none.
  static siblings* of_caller() noexcept {
    siblings* const all = sync::own_siblings();
    return all != nullptr && all->any() ? all : nullptr;
  }

 protected:
  ~siblings() = default;
};

}  // namespace muster::inline MUSTER_ABI::detail
