// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// restraint.hpp: how an idle worker keeps away from functions that other threads give and take faster with each other
// than with its help.
//
// A brief function of another processor costs more to move than to execute: its lines, those of the list that it
// waits in, and those of its result move to the worker and back, at some hundred nanoseconds each time. Meanwhile
// the threads that give such functions and take them again wait for the same lines. So after such a function a
// worker stays away for a moment, in which it counts what the others do. If they are fast, it takes one function,
// and then stays away for longer; if they are not, it may help: they have stopped, or need their time for the
// functions themselves.
//
// Bound      a worker stays away for at most 50 microseconds, and then takes the next function, whatever the others do.
#pragma once

#include <muster/base/detail/time.hpp>  // std::chrono
#include <muster/base/sync.hpp>         // sync::relax

#include <algorithm>  // std::clamp
#include <cstddef>    // std::size_t

namespace muster::inline MUSTER_ABI::detail {

class restraint {
 public:
  using duration = std::chrono::steady_clock::duration;

  /// True if the worker should execute only one function at a time.
  bool is_on() const noexcept { return pause_ != none; }
  /// The worker has executed functions, which have needed so much time in total and on average. Stays away if that is
  /// better. done(): a count of what the others have done.
  template <class Done>
  void executed(duration time, duration each, Done done) noexcept {
    if (each >= brief) {
      pause_ = none;
      unwatched_ = none;
    } else if (is_on() || unwatched_ <= time) {
      stay_away(done);
    } else {
      unwatched_ -= time;
    }
  }
  /// The worker has found nothing. Returns true if it has stayed away.
  template <class Done>
  bool stays_away(Done done) noexcept {
    if (!is_on()) return false;
    stay_away(done);
    return true;
  }

 private:
  using us = std::chrono::microseconds;
  using ns = std::chrono::nanoseconds;
  static constexpr duration none = duration::zero();
  static constexpr duration brief = us(4);  // a function, and the moves of its lines
  static constexpr duration look = ns(500), shortest = us(1), longest = us(50);
  static constexpr duration slow = ns(150);         // between two operations of the others
  static constexpr duration between_looks = us(8);  // while it executes

  template <class Done>
  void stay_away(Done done) noexcept {
    using clock = std::chrono::steady_clock;
    const duration length = is_on() ? pause_ : look;
    const std::size_t before = done();
    for (const auto since = clock::now(); clock::now() - since < length;)
      for (unsigned i = 0; i < 8; ++i) sync::relax();
    if (slow * (done() - before) >= length) {
      pause_ = std::clamp(2 * pause_, shortest, longest);
    } else {
      pause_ = pause_ > 4 * shortest ? pause_ / 4 : none;
      if (!is_on()) unwatched_ = between_looks;
    }
  }

  duration pause_ = none;      // 0: it need not stay away
  duration unwatched_ = none;  // how long it executes before it looks at the others again
};

}  // namespace muster::inline MUSTER_ABI::detail
