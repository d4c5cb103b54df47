// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_spec.hpp: what a correct queue is, as a sequential program. The checkers measure histories by it.
//
// push   success when the queue is open and holds fewer items than its capacity; full when it is open and holds
//        exactly as many; closed when it is closed.
// pop    the oldest item, open or closed; without an item: empty when the queue is open, closed when it is closed.
// close  always success; a second close changes nothing.
// busy   always allowed, changes nothing. So is full when the queue documents that it may be early.
#pragma once

#include "history.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace muster_test {

inline constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();

struct queue_rules {
  std::size_t capacity = unbounded;
  bool full_may_be_early = false;  // full says no more than busy
};

class queue_spec {
 public:
  using event_type = event;

  explicit queue_spec(queue_rules rules = {}) : rules_(rules) {}

  /// Lets the event take effect now. False, with the state unchanged, when it cannot have its outcome here.
  /// A pending event takes the effect it has when it is done here; false when that is none at all.
  bool apply(const event& e) {
    switch (e.kind) {
      case op::push: return push(e);
      case op::pop: return pop(e);
      case op::close: closed_ = true; return true;
    }
    return false;
  }

  std::size_t hash() const {
    std::uint64_t h = closed_ ? 0x9e3779b97f4a7c15u : 1;
    for (const std::uint64_t value : items_) h = (h ^ value) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return static_cast<std::size_t>(h);
  }

  friend bool operator==(const queue_spec& a, const queue_spec& b) {
    return a.closed_ == b.closed_ && a.items_ == b.items_;
  }

 private:
  bool push(const event& e) {
    const bool full = items_.size() >= rules_.capacity;
    switch (e.outcome) {
      case result::success:
      case result::pending:
        if (closed_ || full) return false;
        items_.push_back(e.value);
        return true;
      case result::full: return rules_.full_may_be_early || (full && !closed_);
      case result::closed: return closed_;
      case result::busy: return true;
      case result::empty: return false;
    }
    return false;
  }

  bool pop(const event& e) {
    switch (e.outcome) {
      case result::success:
      case result::pending:
        if (items_.empty() || (e.outcome == result::success && items_.front() != e.value)) return false;
        items_.erase(items_.begin());
        return true;
      case result::empty: return items_.empty() && !closed_;
      case result::closed: return items_.empty() && closed_;
      case result::busy: return true;
      case result::full: return false;
    }
    return false;
  }

  queue_rules rules_;
  bool closed_ = false;
  std::vector<std::uint64_t> items_;  // oldest first
};

}  // namespace muster_test
