// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// status.hpp: results of queue operations, named as in the ISO C++ proposal P0260, "C++ Concurrent Queues".
#pragma once

#include <muster/base/config.hpp>            // MUSTER_ABI
#include <muster/base/detail/utilities.hpp>  // std::addressof

#include <optional>   // the value of a result
#include <stdexcept>  // std::logic_error
#include <string>     // the message of bad_queue_access
#include <utility>    // std::forward

namespace muster::inline MUSTER_ABI {

/// The result of an operation on a queue.
enum class queue_status : unsigned char {
  success,  // the item was pushed or popped
  empty,    // there was no item
  full,     // the queue held capacity() items
  closed,   // push: the queue is closed; pop: it is closed and drained
  busy,     // an operation of another thread must end first; try again
};

/// The name of a status.
constexpr const char* to_string(queue_status status) noexcept {
  switch (status) {
    case queue_status::success: return "success";
    case queue_status::empty: return "empty";
    case queue_status::full: return "full";
    case queue_status::closed: return "closed";
    case queue_status::busy: return "busy";
  }
  return "unknown";
}

/// Thrown by queue_result::value() when there is no value.
class bad_queue_access : public std::logic_error {
 public:
  /// With a message that names the status.
  explicit bad_queue_access(queue_status status)
      : std::logic_error(std::string("queue_result::value(): there is no item, the status is '") + to_string(status) +
                         "'; test the result before using it"),
        status_(status) {}
  /// Why there was no value.
  queue_status status() const noexcept { return status_; }

 private:
  queue_status status_;
};

/// An item, or the reason why there is none. Works like std::expected<T, queue_status>.
template <class T>
class queue_result {
 public:
  using value_type = T;

  /// No item, and why.
  queue_result(queue_status reason) noexcept : status_(reason) {}
  /// An item that is constructed from `args`.
  template <class... Args>
  explicit queue_result(std::in_place_t, Args&&... args)
      : value_(std::in_place, std::forward<Args>(args)...), status_(queue_status::success) {}

  /// Returns true if there is an item.
  explicit operator bool() const noexcept { return status_ == queue_status::success; }
  /// Returns true if there is an item.
  bool has_value() const noexcept { return status_ == queue_status::success; }
  /// success, or why there is no item.
  queue_status status() const noexcept { return status_; }
  /// The same, under the name that std::expected uses.
  queue_status error() const noexcept { return status_; }

  // NOLINTBEGIN(bugprone-unchecked-optional-access): as with std::optional, the caller has looked
  /// The item; there must be one.
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  /// The item; there must be one.
  T* operator->() noexcept { return std::addressof(*value_); }
  const T* operator->() const noexcept { return std::addressof(*value_); }
  // NOLINTEND(bugprone-unchecked-optional-access)

  /// The item. Throws bad_queue_access if there is none.
  T& value() & { return require(), *value_; }
  const T& value() const& { return require(), *value_; }
  T&& value() && { return require(), *std::move(value_); }
  /// The item, or `other` if there is none.
  template <class U>
  T value_or(U&& other) && {
    return has_value() ? *std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

 private:
  void require() const {
    if (!has_value()) MUSTER_THROW(bad_queue_access(status_));
  }

  std::optional<T> value_;
  queue_status status_;
};

}  // namespace muster::inline MUSTER_ABI
