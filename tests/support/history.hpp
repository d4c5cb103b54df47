// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// history.hpp: what threads did to a queue and when, for the checkers beside this file.
//
// A history is a set of events in any order. An event is one operation with its outcome and the stamps of its
// begin and its end; the operation took effect at some moment from begin to end, both included. One event comes
// before another only if its end is smaller than the other's begin; otherwise the two are concurrent.
//
// Values     every value that is pushed with success is distinct. A push that reported full, busy or closed
//            may be tried again with the same value.
// Pending    an operation that never returned has outcome pending and end never. wing_gong_lowe accepts such
//            events; fifo_monitor demands complete histories and throws.
// Recording  each thread writes its own log, allocated and touched beforehand. Only the clock may be shared.
#pragma once

#include "clock.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster_test {

enum class op : std::uint8_t { push, pop, close };

enum class result : std::uint8_t {
  success,  // pushed; popped (event::value is what came out); closed the queue
  empty,    // pop only
  full,     // push only
  busy,     // push or pop gave up for no promised reason; it changed nothing
  closed,   // push: not taken, ever again; pop: nothing left, ever again
  pending,  // never returned
};

/// The end stamp of an operation that never returned. No clock gives it.
inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

struct event {
  std::uint32_t thread = 0;
  op kind = op::push;
  std::uint64_t value = 0;  // of a push, or of a pop with success; otherwise without meaning
  result outcome = result::pending;
  std::uint64_t begin = 0;
  std::uint64_t end = never;
};

inline const char* to_string(op kind) {
  switch (kind) {
    case op::push: return "push";
    case op::pop: return "pop";
    case op::close: return "close";
  }
  return "(no such operation)";
}

inline const char* to_string(result outcome) {
  switch (outcome) {
    case result::success: return "success";
    case result::empty: return "empty";
    case result::full: return "full";
    case result::busy: return "busy";
    case result::closed: return "closed";
    case result::pending: return "pending";
  }
  return "(no such outcome)";
}

/// "push of 7 by thread 2 [14,19]": the operation without its outcome.
inline std::string describe(const event& e) {
  std::string text = to_string(e.kind);
  if (e.kind == op::push || (e.kind == op::pop && e.outcome == result::success)) {
    text += " of " + std::to_string(e.value);
  }
  text += " by thread " + std::to_string(e.thread) + " [" + std::to_string(e.begin) + ",";
  return text + (e.end == never ? "never" : std::to_string(e.end)) + "]";
}

/// One line for each event, for the message of a failing test.
inline std::string describe(std::span<const event> history) {
  std::string text;
  for (const event& e : history) text += describe(e) + ": " + to_string(e.outcome) + "\n";
  return text;
}

/// Throws std::invalid_argument unless the event's outcome is one that its operation can have, and its stamps
/// are in order.
inline void require_well_formed(const event& e) {
  const bool pending = e.outcome == result::pending;
  bool possible = pending || e.outcome == result::success;
  if (e.kind == op::push) possible = possible || e.outcome == result::full;
  if (e.kind == op::pop) possible = possible || e.outcome == result::empty;
  if (e.kind != op::close) possible = possible || e.outcome == result::busy || e.outcome == result::closed;
  if (!possible || e.begin > e.end || e.begin == never || pending != (e.end == never)) {
    throw std::invalid_argument("not an event that a queue can give: " + describe(e) + ": " + to_string(e.outcome) +
                                "; correct the test that recorded it");
  }
}

/// Translates the status of a queue whose status enumerators are called success, empty, full, busy and closed.
template <class Status>
constexpr result as_result(Status status) {
  switch (status) {
    case Status::success: return result::success;
    case Status::empty: return result::empty;
    case Status::full: return result::full;
    case Status::busy: return result::busy;
    case Status::closed: return result::closed;
  }
  throw std::invalid_argument("a status that is not one of success, empty, full, busy, closed");
}

/// The events of one thread. Aligned so that two logs in one array never share a line.
template <class Clock>
class alignas(separation) thread_log {
 public:
  /// Room for `room` events, allocated and touched now. `clock` must outlive the log.
  thread_log(Clock& clock, std::uint32_t thread, std::size_t room) : clock_(&clock), thread_(thread), events_(room) {}

  /// Call just before the operation. `value` is what a push pushes.
  /// Throws std::length_error when the room is used up.
  void invoke(op kind, std::uint64_t value = 0);

  /// Call just after the operation that was invoked last.
  void respond(result outcome) { events_[used_ - 1].end = clock_->end(), events_[used_ - 1].outcome = outcome; }

  /// The same for a pop that returned `value`.
  void respond(result outcome, std::uint64_t value) { respond(outcome), events_[used_ - 1].value = value; }

  /// Another item of the bulk operation that responded last: an event of the same kind, outcome and stamps.
  /// Throws std::length_error when the room is used up.
  void respond_again(std::uint64_t value);

  /// The events recorded so far; an operation without a response is pending. Only after the thread has stopped.
  std::span<const event> events() const { return std::span(events_).first(used_); }

  std::size_t room_left() const { return events_.size() - used_; }

 private:
  Clock* clock_;
  std::uint32_t thread_;
  std::size_t used_ = 0;
  std::vector<event> events_;
};

template <class Clock>
void thread_log<Clock>::invoke(op kind, std::uint64_t value) {
  if (used_ == events_.size()) throw std::length_error("the log of a thread is full: give thread_log more room");
  event& e = events_[used_++];
  e.thread = thread_, e.kind = kind, e.value = value;
  e.begin = clock_->begin();  // last, so that the interval is as short as it can be
}

template <class Clock>
void thread_log<Clock>::respond_again(std::uint64_t value) {
  if (used_ == events_.size()) throw std::length_error("the log of a thread is full: give thread_log more room");
  events_[used_] = events_[used_ - 1];
  events_[used_++].value = value;
}

/// One clock and one log for each thread, numbered from 0.
template <class Clock>
class recording {
 public:
  recording(std::size_t threads, std::size_t room_per_thread) {
    logs_.reserve(threads);
    for (std::uint32_t i = 0; i < threads; ++i) logs_.emplace_back(clock_, i, room_per_thread);
  }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

  thread_log<Clock>& log(std::size_t thread) { return logs_.at(thread); }

  /// All events of all threads. Only when the threads have been joined.
  std::vector<event> history() const {
    std::vector<event> all;
    for (const auto& log : logs_) all.insert(all.end(), log.events().begin(), log.events().end());
    return all;
  }

 private:
  Clock clock_;
  std::vector<thread_log<Clock>> logs_;
};

}  // namespace muster_test
