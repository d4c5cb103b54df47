// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/operations.hpp: the common interface of the queues: all forms of push and pop.
//
// Each queue implements emplace_within, try_emplace, pop, pop_within, try_pop, close, is_closed, capacity, size_approx
// and check. The other operations call these with a limit, or repeatedly; a queue may provide its own faster push_n and
// the like. push_operations and pop_operations serve types that only push or only pop;
// consume_operations lends items in their cells, by consume_within and try_consume.
// Names and statuses are those of the ISO C++ proposal P0260. docs/contracts/queue.md has a row for every operation.
#pragma once

#include <muster/base/detail/time.hpp>          // durations
#include <muster/queue/detail/item_access.hpp>  // is_multipass
#include <muster/queue/detail/wait_limit.hpp>   // wait_limit
#include <muster/queue/status.hpp>              // queue_status

#include <cstddef>     // std::size_t
#include <iterator>    // std::sentinel_for, std::ranges::begin
#include <stop_token>  // cancellation
#include <utility>     // std::move

namespace muster::inline MUSTER_ABI {

namespace detail {

struct watch_access;  // queue/detail/watch_access.hpp

/// Returns true if an operation with a limit ended because of the limit.
constexpr bool gave_up(queue_status status) noexcept {
  return status == queue_status::full || status == queue_status::empty || status == queue_status::busy;
}

/// An iterator that reads one item of another, and advances it no further.
template <class It>
struct item_of {
  using difference_type = std::ptrdiff_t;
  decltype(auto) operator*() const { return **at; }
  item_of& operator++() noexcept { return *this; }
  It* at;
};

// Bulk operations on iterators that cannot tell their distance take this many items at once.
inline constexpr std::size_t uncounted_run = 256;

/// Advances `at` by up to uncounted_run items. Returns by how many.
template <class It, class End>
std::size_t advance_a_run(It& at, const End& last) {
  std::size_t run = 0;
  for (; run != uncounted_run && at != last; ++run) ++at;
  return run;
}

/// Calls `some(first, count)`, which returns how many items it has transferred, until it transfers fewer than `count`,
/// or the end is reached. Returns the sum.
template <class It, class End, class Some>
std::size_t by_runs(It first, const End& last, Some some) {
  if constexpr (std::sized_sentinel_for<End, It>) {
    const auto count = static_cast<std::size_t>(last - first);
    return some(std::move(first), count);
  } else if constexpr (is_multipass<It>) {
    for (std::size_t sum = 0;;) {
      It next = first;
      const std::size_t run = detail::advance_a_run(next, last);
      const std::size_t done = run == 0 ? 0 : some(std::move(first), run);
      sum += done;
      if (run != uncounted_run || done != run) return sum;
      first = std::move(next);
    }
  } else {
    std::size_t sum = 0;
    for (; first != last && some(item_of<It>{&first}, std::size_t{1}) != 0; ++first) ++sum;
    return sum;
  }
}

}  // namespace detail

template <class Queue, class T>
class push_operations {
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

  /// Pushes the items from `first` until `last`, a sentinel of any kind, as push_n. Returns the number pushed, which is
  /// smaller than that of the items only if the queue is closed.
  template <class InputIt, std::sentinel_for<InputIt> Sentinel>
  std::size_t push_range(InputIt first, Sentinel last) {
    return detail::by_runs(std::move(first), last,
                           [this](auto from, std::size_t count) { return self().push_n(std::move(from), count); });
  }
  template <class Range>
  std::size_t push_range(Range&& range) {
    return push_range(std::ranges::begin(range), std::ranges::end(range));
  }
  /// As push_range, while there is room.
  template <class InputIt, std::sentinel_for<InputIt> Sentinel>
  std::size_t try_push_range(InputIt first, Sentinel last) {
    return detail::by_runs(std::move(first), last,
                           [this](auto from, std::size_t count) { return self().try_push_n(std::move(from), count); });
  }
  template <class Range>
  std::size_t try_push_range(Range&& range) {
    return try_push_range(std::ranges::begin(range), std::ranges::end(range));
  }

 protected:
  push_operations() = default;
  ~push_operations() = default;

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
class pop_operations {
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

  /// Takes 1 to `count` items, waiting for the first. Returns 0 only when closed and drained, or if `count` is 0.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    return count == 0 ? 0 : pop_each(self().pop_within(wait_limit{}), std::move(out), count);
  }
  /// As pop_n, without waiting.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    return count == 0 ? 0 : pop_each(self().try_pop(), std::move(out), count);
  }

  /// Takes items into the places from `first` until `last`, as pop_n: at least one, waiting for it, and perhaps fewer
  /// than there are. Returns how many; 0 only when closed and drained, or without places.
  template <std::forward_iterator OutputIt, std::sentinel_for<OutputIt> Sentinel>
  std::size_t pop_into(OutputIt first, Sentinel last) {
    return detail::by_runs(std::move(first), last, [this, waits = true](OutputIt to, std::size_t count) mutable {
      return std::exchange(waits, false) ? self().pop_n(std::move(to), count) : self().try_pop_n(std::move(to), count);
    });
  }
  template <class Range>
  std::size_t pop_into(Range&& range) {
    return pop_into(std::ranges::begin(range), std::ranges::end(range));
  }
  /// The same as pop_n.
  template <class OutputIt>
  std::size_t pop_into(OutputIt out, std::size_t most) {
    return self().pop_n(std::move(out), most);
  }
  /// As pop_into, without waiting.
  template <std::forward_iterator OutputIt, std::sentinel_for<OutputIt> Sentinel>
  std::size_t try_pop_into(OutputIt first, Sentinel last) {
    return detail::by_runs(std::move(first), last,
                           [this](OutputIt to, std::size_t count) { return self().try_pop_n(std::move(to), count); });
  }
  template <class Range>
  std::size_t try_pop_into(Range&& range) {
    return try_pop_into(std::ranges::begin(range), std::ranges::end(range));
  }
  template <class OutputIt>
  std::size_t try_pop_into(OutputIt out, std::size_t most) {
    return self().try_pop_n(std::move(out), most);
  }

 protected:
  pop_operations() = default;
  ~pop_operations() = default;

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
class consume_operations {
 public:
  /// Takes the first item without moving it: calls f(item) with a T& into the queue, then destroys the item. Waits
  /// while there is none. Returns success, or closed when closed and drained. Ignores the result of f. If f throws, the
  /// item is destroyed as well, and consume rethrows.
  template <class F>
  MUSTER_HOT queue_status consume(F&& f) {
    return self().consume_within(wait_limit{}, f);
  }
  /// As consume, with a time limit, which does not end f. Returns success, closed, or why it gave up: empty or busy.
  template <class F, class Rep, class Period>
  queue_status consume_for(F&& f, std::chrono::duration<Rep, Period> time) {
    return self().consume_within(wait_limit{detail::deadline_after(time)}, f);
  }
  template <class F, class Clock, class Duration>
  queue_status consume_until(F&& f, std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return self().consume_within(wait_limit{until}, f); }, detail::gave_up);
  }
  /// As consume, until a stop is requested. Returns success, closed, or why it gave up: empty or busy.
  template <class F>
  queue_status consume(F&& f, std::stop_token stop) {
    return self().consume_within(wait_limit{no_deadline, &stop}, f);
  }

  /// Only spsc_queue has front().
  template <class Self = Queue>
  T* front() {
    static_assert(
        sizeof(Self) == 0,
        "front(): only spsc_queue has it; elsewhere another consumer could take the item while you look at it. "
        "consume(f) owns the item until f returns");
    return nullptr;
  }

 protected:
  consume_operations() = default;
  ~consume_operations() = default;

 private:
  Queue& self() noexcept { return static_cast<Queue&>(*this); }
};

template <class Queue, class T>
class queue_operations : public push_operations<Queue, T>,
                         public pop_operations<Queue, T>,
                         public consume_operations<Queue, T> {
 public:
  using value_type = T;

 protected:
  queue_operations() = default;
  ~queue_operations() = default;
};

}  // namespace muster::inline MUSTER_ABI
