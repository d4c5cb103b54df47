// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// siblings.hpp: the interface through which every wait of the library involves the other fibers of the thread. The
// carrier (fiber/detail/carrier.hpp) implements and registers it; otherwise base/ does not know fibers.
#pragma once

#include <muster/base/sync.hpp>  // sync::own_siblings

namespace muster::inline MUSTER_ABI::detail {

/// A waiting fiber, as seen by the other fibers of its thread.
class waiter {
 public:
  /// Returns true if the wait is over. Any fiber of the thread may call it; it must not wait.
  virtual bool ready() noexcept = 0;
  /// Called when the thread is about to sleep: announces the sleeper to the makers of its event, and adds the word to
  /// sleep on. The thread then executes the requested heavy fences and checks every waiter once more.
  virtual void announce(futex_words& words) noexcept = 0;

  // From the policy; applies to the thread. announce() may lower the number of pauses, and clear `adapts`.
  unsigned pauses;
  bool adapts;
  const unsigned yields;
  const bool parks;
  const deadline until;

 protected:
  template <class Policy>
  waiter(const Policy&, deadline end) noexcept
      : pauses(Policy::pauses), adapts(Policy::adapts), yields(Policy::yields), parks(Policy::parks), until(end) {}
  ~waiter() = default;
};

/// The address range of a stack: the lowest address, and the end.
struct stack_bounds {
  const char* lowest = nullptr;
  const char* end = nullptr;
};

class siblings {
 public:
  /// Returns true if the caller has sibling fibers that can run while it waits, now or after their own waits.
  virtual bool any() const noexcept = 0;
  /// Runs each of the others once.
  virtual void run() noexcept = 0;
  /// Waits while the others run. Returns true once the waiter is ready, false if its deadline passes first.
  virtual bool wait(waiter& one) noexcept = 0;
  /// Returns the calling fiber's stack; empty for the thread itself.
  virtual stack_bounds stack() const noexcept = 0;

  /// Returns the calling thread's siblings, or null if it has none.
  static siblings* of_caller() noexcept {
    siblings* const all = sync::own_siblings();
    return all != nullptr && all->any() ? all : nullptr;
  }

 protected:
  ~siblings() = default;
};

}  // namespace muster::inline MUSTER_ABI::detail
