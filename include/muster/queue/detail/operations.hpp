// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/operations.hpp: what the queues have in common for their users: the spellings of push and pop.
//
// Each queue implements emplace_within, try_emplace, pop, pop_within, try_pop, close, is_closed, capacity, size_approx
// and check; the other operations are these under names and limits, or again and again. A queue that can do better has
// its own push_n, say. push_face and pop_face are for those who do only one of the two.
// Names and statuses are those of the ISO C++ proposal P0260. docs/contracts/queue.md has a row for every operation.
#pragma once

#include <muster/queue/detail/wait_limit.hpp>  // wait_limit
#include <muster/queue/status.hpp>             // queue_status

#include <chrono>      // durations
#include <cstddef>     // std::size_t
#include <stop_token>  // cancellation
#include <utility>     // std::move

namespace muster::inline MUSTER_ABI {

namespace detail {

/// Whether an operation with a limit has ended by it.
constexpr bool gave_up(queue_status status) noexcept {
  return status == queue_status::full || status == queue_status::empty || status == queue_status::busy;
}

}  // namespace detail

template <class Queue, class T>
class push_face {
 public:
  using value_type = T;

  /// Appends an item; waits while the queue is full. success or closed. The item is untouched when it was not taken.
  MUSTER_HOT queue_status push(const T& item) { return self().emplace_within(wait_limit{}, item); }
  MUSTER_HOT queue_status push(T&& item) { return self().emplace_within(wait_limit{}, std::move(item)); }
  /// The same, with the item constructed in place.
  template <class... Args>
  MUSTER_HOT queue_status emplace(Args&&... args) {
    return self().emplace_within(wait_limit{}, std::forward<Args>(args)...);
  }

  /// Appends an item if there is room now. success, full, closed or busy.
  MUSTER_HOT queue_status try_push(const T& item) { return self().try_emplace(item); }
  MUSTER_HOT queue_status try_push(T&& item) { return self().try_emplace(std::move(item)); }

  /// push, but gives up when the time is over: success, closed, or what was in the way, full or busy.
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
  /// push, but gives up when a stop is requested: success, closed, or what was in the way, full or busy.
  queue_status push(const T& item, std::stop_token stop) {
    return self().emplace_within(wait_limit{no_deadline, &stop}, item);
  }
  queue_status push(T&& item, std::stop_token stop) {
    return self().emplace_within(wait_limit{no_deadline, &stop}, std::move(item));
  }

  /// Pushes `count` items from `first` on, waiting for room. Returns how many: fewer when closed.
  /// Goes on to an item of `first` when the one before has been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count) {
    return push_each(std::move(first), count,
                     [this](auto&& item) { return self().emplace(std::forward<decltype(item)>(item)); });
  }
  /// Pushes items from `first` on as long as there is room, at most `count`. Returns how many.
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

  /// pop, but gives up when the time is over: an item, closed, or what was in the way, empty or busy.
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
  /// pop, but gives up when a stop is requested: an item, closed, or what was in the way, empty or busy.
  queue_result<T> pop(std::stop_token stop) { return self().pop_within(wait_limit{no_deadline, &stop}); }

  /// Takes 1 to `count` items, waiting for the first. 0 only when the queue is closed and drained.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    return count == 0 ? 0 : pop_each(self().pop_within(wait_limit{}), std::move(out), count);
  }
  /// The same without waiting.
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
      queue_result<T> next = self().try_pop();  // a new one, made in place: one to assign to would cost a copy
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
