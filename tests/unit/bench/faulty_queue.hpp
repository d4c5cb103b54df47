// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// faulty_queue.hpp: a queue that is wrong on purpose, in each of the ways in which a queue can be wrong. For tests.
#pragma once

#include "driver/stream.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace muster::bench {

enum class fault { none, drops, duplicates, reorders, corrupts, balances };

/// A locked queue that goes wrong at its thousandth item.
template <fault Fault>
class faulty {
 public:
  static constexpr ending ends_by = ending::drained;
  faulty(std::size_t, unsigned, unsigned) {}

  class producer {
   public:
    producer(faulty& q, unsigned) : queue_(q) {}
    void push(item value) {
      const std::lock_guard lock(queue_.mutex_);
      auto& items = queue_.items_;
      const bool now = ++queue_.pushed_ == 1000;
      if (now && Fault == fault::drops) return;
      if (now && Fault == fault::corrupts) value ^= 2;
      items.push_back(value);
      if (now && Fault == fault::duplicates) items.push_back(value);
      if (now && Fault == fault::balances) {
        // Two items become others, and the sum of all stays what it was.
        items.back() += 1;
        items.front() -= 1;
      }
      if (now && Fault == fault::reorders && items.size() >= 2)
        std::swap(items[items.size() - 1], items[items.size() - 2]);
    }

    bool try_push(item value) {
      push(value);
      return true;
    }

   private:
    faulty& queue_;
  };

  class consumer {
   public:
    consumer(faulty& q, unsigned) : queue_(q) {}
    bool try_pop(item& value) {
      const std::lock_guard lock(queue_.mutex_);
      if (queue_.items_.size() < 3 && queue_.pushed_ < total) return false;  // so that there is something to reorder
      if (queue_.items_.empty()) return false;
      value = queue_.items_.front();
      queue_.items_.pop_front();
      return true;
    }

   private:
    faulty& queue_;
  };

  static constexpr std::uint64_t total = 5000;

 private:
  std::mutex mutex_;
  std::deque<item> items_;
  std::uint64_t pushed_ = 0;
};

}  // namespace muster::bench
