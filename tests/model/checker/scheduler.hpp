// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scheduler.hpp: the interface through which search.hpp, replay and the random strategies decide for the engine.
#pragma once

#include <cstdint>

namespace muster_model {

/// The next operation of a thread, as far as other threads can observe it.
struct pending {
  enum class kind : std::uint8_t {
    local,   // nothing that others see
    read,    // of `location`
    write,   // of `location`, or a read-modify-write, or a futex operation
    fence,   // sequentially consistent
    remote,  // one step of a heavy fence, on behalf of thread `location`
    join,    // of thread `location`
    end,     // of the thread itself
  };
  static constexpr int anywhere = -2;
  kind what = kind::local;
  int location = -1;
  bool sequential = false;
};

/// Returns true if the order of the two operations, by threads `a` and `b`, can be observed.
bool depend(const pending& first, unsigned a, const pending& second, unsigned b);

/// Bit t: thread t.
using thread_set = std::uint32_t;

class scheduler {
 public:
  static constexpr unsigned none = ~0U;

  virtual ~scheduler() = default;
  /// The thread that runs next, of those in `runnable`; `next[t]` is the next operation of thread t. `current` has run
  /// last and may be among them or not. Returns `none` to abandon this execution.
  virtual unsigned pick(thread_set runnable, unsigned current, const pending* next) = 0;
  /// A number below `alternatives`; 0 is the ordinary case.
  virtual unsigned choose(unsigned alternatives, const char* what) = 0;
  /// How many loads may still read something other than the newest store.
  virtual unsigned stale_left() const = 0;
  virtual void took_stale() = 0;
  /// Returns true if executions that differ only in the order of independent operations are left out.
  virtual bool reduces() const { return false; }
};

}  // namespace muster_model
