// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// time_limit.hpp: deadlines out of durations and time points of any clock and representation, without overflow.
#pragma once

#include <muster/base/detail/futex_words.hpp>  // deadline
#include <muster/base/detail/time.hpp>         // durations

namespace muster::inline MUSTER_ABI::detail {

/// Returns now + `duration`: no_deadline if the clock cannot express it, now if it is negative or NaN.
template <class Rep, class Period>
deadline deadline_after(std::chrono::duration<Rep, Period> duration) {
  const deadline now = deadline_clock::now();
  if (!(duration > duration.zero())) return now;
  const std::chrono::duration<double> room = no_deadline - now;
  if (std::chrono::duration<double>(duration) >= room * 0.5) return no_deadline;
  return now + std::chrono::ceil<deadline_clock::duration>(duration);
}

/// Returns whether a point in time has passed; NaN counts as passed.
template <class Clock, class Duration>
bool has_passed(std::chrono::time_point<Clock, Duration> when) {
  using seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  // Distant points are compared in floating point: their common unit with the clock may overflow.
  const double left = (seconds(when.time_since_epoch()) - seconds(now.time_since_epoch())).count();
  return !(left >= 1) && (!(left > -1) || now >= when);
}

/// Repeats attempt(deadline) until its answer is other than `given_up`, or `when` has passed on its own clock, which
/// may be set forwards or backwards meanwhile.
template <class Clock, class Duration, class Attempt, class GivenUp>
auto attempt_until(std::chrono::time_point<Clock, Duration> when, Attempt attempt, GivenUp given_up) {
  // In floating point, so that no time overflows. A rounding error at the end is made up by the next iteration.
  using seconds = std::chrono::duration<double>;
  for (;;) {
    const seconds now = Clock::now().time_since_epoch();
    auto answer = attempt(deadline_after(seconds(when.time_since_epoch()) - now));
    if (!given_up(answer) || has_passed(when)) return answer;
  }
}

}  // namespace muster::inline MUSTER_ABI::detail
