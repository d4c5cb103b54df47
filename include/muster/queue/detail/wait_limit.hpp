// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/wait_limit.hpp: how long an operation may wait: until a point in time, until a stop is requested, or forever.
#pragma once

#include <muster/base/detail/eventcount.hpp>  // eventcount
#include <muster/base/detail/time.hpp>        // durations
#include <muster/base/detail/time_limit.hpp>  // IWYU pragma: export
#include <muster/base/detail/utilities.hpp>   // std::min

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
  bool await(eventcount& events, std::uint32_t key, Ready ready, BeforeSleep before_sleep) const {
    if (stop == nullptr) return events.await<Policy>(key, ready, until, before_sleep);
    const std::stop_callback wake(*stop, [&events] { events.wake_sleepers(); });
    bool found = false;
    auto found_or_stopped = [&] { return (found = ready()) || stop->stop_requested(); };
    events.await<Policy>(key, found_or_stopped, until, before_sleep);
    return found;
  }
  template <class Policy, class Ready>
  bool await(eventcount& events, std::uint32_t key, Ready ready) const {
    return await<Policy>(events, key, ready, [] {});
  }

  /// Waits for a ready() that signals no event, by checking once per interval. Returns true when ready() or after one
  /// interval, whichever is first; false if the limit expired.
  template <class Policy, class Ready>
  bool poll(eventcount& events, std::uint32_t key, Ready ready,
            std::chrono::milliseconds interval = std::chrono::milliseconds(1)) const {
    const deadline round = deadline_clock::now() + interval;
    return wait_limit{std::min(until, round), stop}.await<Policy>(events, key, ready) || (round < until && !stopped());
  }
};

}  // namespace muster::inline MUSTER_ABI
