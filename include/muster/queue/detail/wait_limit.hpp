// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/wait_limit.hpp: how long an operation may wait: until a point in time, until a stop is requested, or forever.
#pragma once

#include <muster/base/time.hpp>  // durations
#include <muster/base/wait.hpp>  // event_mask

#include <algorithm>   // std::min
#include <stop_token>  // cancellation

namespace muster::inline MUSTER_ABI {

/// How long an operation may wait: until a point in time, until a stop is requested, or forever.
struct wait_limit {
  deadline until = no_deadline;
  const std::stop_token* stop = nullptr;

  bool none() const noexcept { return stop == nullptr && until == no_deadline; }
  bool stopped() const noexcept { return stop != nullptr && stop->stop_requested(); }
  bool over() const noexcept { return stopped() || (until != no_deadline && deadline_clock::now() >= until); }

  /// Waits for ready(), which may become true only by an event of `key` or a flag. Returns false if the limit expired
  /// first. Calls before_sleep() once spinning has failed, before the thread announces that it sleeps.
  template <class Policy, class Ready, class BeforeSleep>
  bool await(event_mask& events, std::uint32_t key, Ready ready, BeforeSleep before_sleep) const {
    if (stop == nullptr) return events.await<Policy>(key, ready, until, before_sleep);
    const std::stop_callback wake(*stop, [&events] { events.wake_all(); });
    bool found = false;
    auto found_or_stopped = [&] { return (found = ready()) || stop->stop_requested(); };
    events.await<Policy>(key, found_or_stopped, until, before_sleep);
    return found;
  }
  template <class Policy, class Ready>
  bool await(event_mask& events, std::uint32_t key, Ready ready) const {
    return await<Policy>(events, key, ready, [] {});
  }

  /// Waits for a ready() that signals no event, by checking once per interval. Returns true when ready() or after one
  /// interval, whichever is first; false if the limit expired.
  template <class Policy, class Ready>
  bool poll(event_mask& events, std::uint32_t key, Ready ready,
            std::chrono::milliseconds interval = std::chrono::milliseconds(1)) const {
    const deadline round = deadline_clock::now() + interval;
    return wait_limit{std::min(until, round), stop}.await<Policy>(events, key, ready) || (round < until && !stopped());
  }
};

namespace detail {

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

}  // namespace detail

}  // namespace muster::inline MUSTER_ABI
