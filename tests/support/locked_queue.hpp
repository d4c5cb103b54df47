// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// locked_queue.hpp: a bounded queue behind one mutex, correct by inspection, and the same queue with one seeded
// fault. The checkers must accept the first and reject the second.
#pragma once

#include "history.hpp"
#include "queue_spec.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace muster_test {

enum class fault : std::uint8_t {
  none,
  newest_first,      // a stack
  swapped,           // now and then the second item before the first
  false_empty,       // now and then empty although there are items
  false_full,        // now and then full although there is room
  over_capacity,     // takes one item too many
  lost_item,         // now and then an item is thrown away
  doubled_item,      // now and then an item stays in the queue after it was popped
  push_after_close,  // close does not stop pushes
  early_closed,      // closed at once after close, with items inside
};

class locked_queue {
 public:
  locked_queue(queue_rules rules, fault seeded) : rules_(rules), fault_(seeded) {}

  result push(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    if (closed_ && fault_ != fault::push_after_close) return result::closed;
    if (items_.size() >= rules_.capacity + (fault_ == fault::over_capacity ? 1 : 0)) return result::full;
    if (now_and_then(fault::false_full) && items_.size() + 4 < rules_.capacity) return result::full;
    if (!now_and_then(fault::lost_item)) items_.push_back(value);
    return result::success;
  }

  result pop(std::uint64_t& value) {
    const std::lock_guard lock(mutex_);
    if (closed_ && fault_ == fault::early_closed) return result::closed;
    if (items_.empty()) return closed_ ? result::closed : result::empty;
    if (now_and_then(fault::false_empty)) return result::empty;
    if (fault_ == fault::newest_first) {
      value = items_.back();
      items_.pop_back();
      return result::success;
    }
    if (items_.size() > 1 && now_and_then(fault::swapped)) std::swap(items_[0], items_[1]);
    value = items_.front();
    if (!now_and_then(fault::doubled_item)) items_.pop_front();
    return result::success;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  /// True for one operation in 64 that could show this fault, if this is the queue's fault.
  bool now_and_then(fault f) { return fault_ == f && ++opportunities_ % 64 == 0; }

  std::mutex mutex_;
  const queue_rules rules_;
  const fault fault_;
  std::size_t opportunities_ = 0;
  bool closed_ = false;
  std::deque<std::uint64_t> items_;
};

}  // namespace muster_test
