// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/operations.hpp: the common interface of the queues: all forms of push and pop.
//
// Each queue implements emplace_within, try_emplace, pop, pop_within, try_pop, close, is_closed, capacity, size_approx
// and check. The other operations call these with a limit, or repeatedly; a queue may provide its own faster push_n and
// the like. push_face and pop_face serve types that only push or only pop.
// Names and statuses are those of the ISO C++ proposal P0260. docs/contracts/queue.md has a row for every operation.
#pragma once

#include <muster/base/time.hpp>                // durations
#include <muster/queue/detail/wait_limit.hpp>  // wait_limit
#include <muster/queue/status.hpp>             // queue_status

#include <cstddef>     // std::size_t
#include <stop_token>  // cancellation
#include <utility>     // std::move

namespace muster::inline MUSTER_ABI {

namespace detail {

/// Returns true if an operation with a limit ended because of the limit.
constexpr bool gave_up(queue_status status) noexcept {
  return status == queue_status::full || status == queue_status::empty || status == queue_status::busy;
}

}  // namespace detail

template <class Queue, class T>
class push_face {
 public:
  using value_type = T;

  /// Appends an item; waits while the queue is full. Returns success or closed. An item not taken is untouched.
  MUSTER_HOT queue_status push(const T& item) { return self().emplace_within(wait_limit{}, item); }
  MUSTER_HOT queue_status push(T&& item) { return self().emplace_within(wait_limit{}, std::move(item)); }
  /// As push, with the item constructed in place.
  template <class... Args>
  MUSTER_HOT queue_status emplace(Args&&... args) {
    return self().emplace_within(wait_limit{}, std::forward<Args>(args)...);
  }

  /// Appends an item if there is room now. Returns success, full, closed or busy.
  MUSTER_HOT queue_status try_push(const T& item) { return self().try_emplace(item); }
  MUSTER_HOT queue_status try_push(T&& item) { return self().try_emplace(std::move(item)); }

  /// As push, with a time limit. Returns success, closed, or why it gave up: full or busy.
  template <class Rep, class Period>
  queue_status push_for(const T& item, std::chrono::duration<Rep, Period> time) {
    return self().emplace_within(wait_limit{detail::deadline_after(time)}, item);
  }
  template <class Rep, class Period>
  queue_status push_for(T&& item, std::chrono::duration<Rep, Period> time) {
    return self().emplace_within(wait_limit{detail::deadline_after(time)}, std::move(item));
  }
  template <class Clock, class Duration>
  queue_status push_until(const T& item, std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return self().emplace_within(wait_limit{until}, item); }, detail::gave_up);
  }
  template <class Clock, class Duration>
  queue_status push_until(T&& item, std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return self().emplace_within(wait_limit{until}, std::move(item)); },
        detail::gave_up);
  }
  /// As push, until a stop is requested. Returns success, closed, or why it gave up: full or busy.
  queue_status push(const T& item, std::stop_token stop) {
    return self().emplace_within(wait_limit{no_deadline, &stop}, item);
  }
  queue_status push(T&& item, std::stop_token stop) {
    return self().emplace_within(wait_limit{no_deadline, &stop}, std::move(item));
  }

  /// Pushes `count` items starting at `first`, waiting for room. Returns the number pushed, which is smaller only if
  /// the queue is closed. Increments `first` only after the previous item has been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count) {
    return push_each(std::move(first), count,
                     [this](auto&& item) { return self().emplace(std::forward<decltype(item)>(item)); });
  }
  /// Pushes up to `count` items starting at `first`, while there is room. Returns how many.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count) {
    return push_each(std::move(first), count,
                     [this](auto&& item) { return self().try_emplace(std::forward<decltype(item)>(item)); });
  }

 protected:
  push_face() = default;
  ~push_face() = default;

 private:
  template <class InputIt, class Push>
  static std::size_t push_each(InputIt first, std::size_t count, Push push) {
    std::size_t done = 0;
    while (done < count && push(*first) == queue_status::success)
      if (++done != count) ++first;
    return done;
  }
  Queue& self() noexcept { return static_cast<Queue&>(*this); }
};

template <class Queue, class T>
class pop_face {
 public:
  using value_type = T;

  /// As pop, with a time limit. Returns the item, closed, or why it gave up: empty or busy.
  template <class Rep, class Period>
  queue_result<T> pop_for(std::chrono::duration<Rep, Period> time) {
    return self().pop_within(wait_limit{detail::deadline_after(time)});
  }
  template <class Clock, class Duration>
  queue_result<T> pop_until(std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return self().pop_within(wait_limit{until}); },
        [](const queue_result<T>& result) { return detail::gave_up(result.status()); });
  }
  /// As pop, until a stop is requested. Returns the item, closed, or why it gave up: empty or busy.
  queue_result<T> pop(std::stop_token stop) { return self().pop_within(wait_limit{no_deadline, &stop}); }

  /// Takes 1 to `count` items, waiting for the first. Returns 0 only when closed and drained.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    return count == 0 ? 0 : pop_each(self().pop_within(wait_limit{}), std::move(out), count);
  }
  /// As pop_n, without waiting.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    return count == 0 ? 0 : pop_each(self().try_pop(), std::move(out), count);
  }

 protected:
  pop_face() = default;
  ~pop_face() = default;

 private:
  template <class OutputIt>
  std::size_t pop_each(queue_result<T> first, OutputIt out, std::size_t count) {
    const auto give = [&out](T& item) {
      *out = std::move(item);
      ++out;
    };
    if (!first) return 0;
    give(*first);
    std::size_t taken = 1;
    for (; taken != count; ++taken) {
      queue_result<T> next = self().try_pop();  // constructed in place, as assignment would cost a copy
      if (!next) break;
      give(*next);
    }
    return taken;
  }
  Queue& self() noexcept { return static_cast<Queue&>(*this); }
};

template <class Queue, class T>
class queue_face : public push_face<Queue, T>, public pop_face<Queue, T> {
 public:
  using value_type = T;

 protected:
  queue_face() = default;
  ~queue_face() = default;
};

}  // namespace muster::inline MUSTER_ABI
