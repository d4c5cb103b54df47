// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// running_clock.hpp: the time for which this process has run, as one of its threads counts it. A signal or a machine
// that stops the whole process stops this clock as well, so a wait that is too long by this clock is too long. On a
// busy machine it is slow. It stands still in a child of fork(2).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace muster_test {

struct running_clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<running_clock>;
  static constexpr bool is_steady = true;

  static time_point now() {
    static constinit std::atomic<rep> counted{0};
    static const bool counts = [] {
      std::thread(count, std::ref(counted)).detach();
      return true;
    }();
    static_cast<void>(counts);
    return time_point(duration(counted.load(std::memory_order_relaxed)));
  }

 private:
  [[noreturn]] static void count(std::atomic<rep>& into) {
    constexpr auto beat = std::chrono::milliseconds(1);
    constexpr duration most = 20 * beat;  // of one beat; a longer one has met a pause
    for (auto last = std::chrono::steady_clock::now();;) {
      std::this_thread::sleep_for(beat);
      const auto now = std::chrono::steady_clock::now();
      into.fetch_add(std::min<duration>(now - last, most).count(), std::memory_order_relaxed);
      last = now;
    }
  }
};

}  // namespace muster_test
