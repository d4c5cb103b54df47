// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// locked.hpp: many parts; every other one forks and joins while it holds a mutex. While a worker waits for such a join,
// it may execute a part that needs the mutex. If the worker itself holds it, or another worker that waits for work
// further down this stack, they deadlock. This mutex detects that and stops locking.
#pragma once

#include "programs/program.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace muster::bench {

/// A mutex that knows its holder, and reports a deadlock after 0.3 seconds.
class watched_mutex {
 public:
  /// Returns false after a deadlock.
  bool lock() {
    const auto self = std::this_thread::get_id();
    if (is_dead()) return false;
    if (holder_.load(std::memory_order_relaxed) == self || !mutex_.try_lock_for(std::chrono::milliseconds(300))) {
      dead_.store(true, std::memory_order_relaxed);
      return false;
    }
    holder_.store(self, std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    holder_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }
  bool is_dead() const { return dead_.load(std::memory_order_relaxed); }

 private:
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> holder_;
  std::atomic<bool> dead_{false};
};

template <class S>
class locked {
 public:
  static constexpr program_sizes size{16, 1000, 20000};  // parts
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit locked(std::uint64_t parts) : parts_(parts) {}

  void run(S) { value_ = all(0, parts_); }

  std::uint64_t digest() const { return value_; }
  std::string error() const { return value_ == parts_ << inner_depth ? "" : "a part is lost"; }
  std::uint64_t items() const { return parts_; }
  void tell(std::map<std::string, double>& to) const {
    to["before a deadlock"] = 1000 * static_cast<double>(done_) / static_cast<double>(parts_);
  }

 private:
  static constexpr unsigned inner_depth = 10;

  std::uint64_t all(std::uint64_t first, std::uint64_t last) {
    if (last - first == 1) return part(first % 2 == 0);
    const std::uint64_t middle = first + (last - first) / 2;
    const auto [a, b] = S::fork2([=, this] { return all(first, middle); }, [=, this] { return all(middle, last); });
    return a + b;
  }
  std::uint64_t part(bool with_lock) {
    const bool mine = with_lock && mutex_.lock();
    const std::uint64_t sum = inner(inner_depth);
    if (mine) mutex_.unlock();
    if (!mutex_.is_dead()) done_.fetch_add(1, std::memory_order_relaxed);
    return sum;
  }
  static std::uint64_t inner(unsigned depth) {
    if (depth == 0) {
      S::leaf();
      std::uint64_t value = 0;
      for (unsigned i = 0; i < 100; ++i) opaque(value);
      return 1;
    }
    const auto [a, b] = S::fork2([=] { return inner(depth - 1); }, [=] { return inner(depth - 1); });
    return a + b;
  }

  const std::uint64_t parts_;
  watched_mutex mutex_;
  std::atomic<std::uint64_t> done_{0};  // before a deadlock
  std::uint64_t value_ = 0;
};

}  // namespace muster::bench
