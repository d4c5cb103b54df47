// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// group_count.hpp: the tasks of a group that have not ended, the first exception of them, and the threads that sleep
// until all have ended.
//
// Lifetime   the last access of a task that ends is the release of the lock, which a thread that waits takes before it
//            returns. So the group may be destroyed when the wait is over.
// Progress   every operation takes a lock for a few instructions, or for the system calls that wake sleepers.
// Killed     a thread that stops while it holds the lock blocks the others.
#pragma once

#include <muster/base/sync.hpp>            // sync::atomic, sync::cell, sync::full_fence
#include <muster/fork/detail/parking.hpp>  // parker, spin_lock

#include <cstddef>    // std::size_t
#include <exception>  // std::exception_ptr
#include <mutex>      // std::lock_guard
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

class group_count {
 public:
  group_count() noexcept = default;
  group_count(const group_count&) = delete;
  group_count& operator=(const group_count&) = delete;

  /// Tasks are about to be given to the pool. Then call wake(), after a full fence.
  void begin(std::size_t many = 1) noexcept {
    const std::lock_guard lock(lock_);
    open_.store(open_.load(std::memory_order_relaxed) + many, std::memory_order_relaxed);
  }
  /// A task has been given to the pool: a thread that sleeps may execute it.
  void wake() noexcept {
    if (sleepers_.load(std::memory_order_relaxed) == nullptr) return;
    const std::lock_guard lock(lock_);
    wake_all();
  }
  /// Tasks have ended, with an exception or null. The caller must not access the group afterwards.
  void end(std::exception_ptr error, std::size_t many = 1) noexcept {
    std::exception_ptr late;  // destroyed after the lock is released: it may be of a user's type
    const std::lock_guard lock(lock_);
    (error_.read_ref() == nullptr ? error_.write_ref() : late) = std::move(error);
    const std::size_t left = open_.load(std::memory_order_relaxed) - many;
    open_.store(left, std::memory_order_relaxed);
    if (left == 0) wake_all();
  }

  /// Returns true if all tasks have ended; the caller then sees their effects.
  bool is_over() noexcept {
    if (open_.load(std::memory_order_relaxed) != 0) return false;
    const std::lock_guard lock(lock_);
    return open_.load(std::memory_order_relaxed) == 0;
  }
  /// Returns the first exception, once; or null.
  std::exception_ptr take_error() noexcept {
    const std::lock_guard lock(lock_);
    return std::exchange(error_.write_ref(), nullptr);
  }
  /// Sleeps until all tasks have ended, or one is given to the pool, or a deadline; may return early. Returns at once
  /// if can_execute().
  template <class CanExecute>
  void sleep(deadline until, CanExecute can_execute) noexcept {
    sleeper here;
    {
      const std::lock_guard lock(lock_);
      if (open_.load(std::memory_order_relaxed) == 0) return;
      here.next = sleepers_.load(std::memory_order_relaxed);
      sleepers_.store(&here, std::memory_order_relaxed);
    }
    // (1) full_fence: pairs with joint_tasks.hpp (1). We see the task that is given to the pool, or its giver sees us.
    sync::full_fence();
    if (!can_execute()) here.place.park_until(until);
    const std::lock_guard lock(lock_);
    if (here.woken) return;
    sleeper* before = sleepers_.load(std::memory_order_relaxed);
    if (before == &here) return sleepers_.store(here.next, std::memory_order_relaxed);
    while (before->next != &here) before = before->next;
    before->next = here.next;
  }

 private:
  /// On the stack of a thread that sleeps; changed under the lock.
  struct sleeper {
    parker place;
    sleeper* next = nullptr;
    bool woken = false;
  };

  void wake_all() noexcept {
    for (sleeper* one = sleepers_.load(std::memory_order_relaxed); one != nullptr; one = one->next) {
      one->woken = true;
      one->place.unpark();
    }
    sleepers_.store(nullptr, std::memory_order_relaxed);
  }

  spin_lock lock_;
  sync::atomic<std::size_t> open_{0};  // changed under the lock, as everything below
  sync::atomic<sleeper*> sleepers_{nullptr};
  sync::cell<std::exception_ptr> error_;
};

}  // namespace muster::inline MUSTER_ABI::detail
