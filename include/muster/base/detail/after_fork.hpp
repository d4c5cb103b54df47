// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// after_fork.hpp: mutexes of the whole process, in a child of fork(2): a thread of the parent may have held one, and
// the child has no such thread. And how an object finds out that it is in a child.
//
// The mutexes are not taken before the fork: a handler of fork(2) that waits for a thread could wait forever, if that
// thread waits for something that another handler of the program holds.
#pragma once

#include <muster/base/config.hpp>            // MUSTER_ABI
#include <muster/base/detail/os.hpp>         // os::in_child
#include <muster/base/detail/utilities.hpp>  // std::mutex

#include <atomic>  // std::atomic

namespace muster::inline MUSTER_ABI::native::detail {

/// For the only thread of a child: returns true if no thread held the mutex. Otherwise frees it, and what it protects
/// may be half changed.
inline bool recover_after_fork(std::mutex& one) noexcept {
  const bool was_free = one.try_lock();
  if (was_free) {
    one.unlock();
  } else {
    std::construct_at(&one);
  }
  return was_free;
}

/// The only T of the process: made at its first use, never destroyed, as threads may outlive static objects. In a child
/// of fork(2), T::after_fork() is called first. Not a static object of the function: that could be in the making by a
/// thread that the child does not have, for which the child would wait.
template <class T>
T& only() {
  static constinit std::atomic<T*> one{nullptr};
  // (1) acquire: pairs with (2).
  T* there = one.load(std::memory_order_acquire);
  if (there == nullptr) [[unlikely]] {
    T* const made = new T;
    os::in_child([] {
      if (T* const known = one.load(std::memory_order_relaxed); known != nullptr) known->after_fork();
    });
    // (2) release, or acquire if another thread was faster: pairs with (1, 2).
    if (one.compare_exchange_strong(there, made, std::memory_order_release, std::memory_order_acquire)) return *made;
    delete made;
  }
  return *there;
}

inline constinit std::atomic<unsigned> forks_seen{0};
inline constinit std::atomic<bool> counts_forks{false};

}  // namespace muster::inline MUSTER_ABI::native::detail

namespace muster::inline MUSTER_ABI::native {

/// A number that differs in a child of fork(2) from what its parent had before: what other threads of the parent were
/// doing then, no thread does in the child. Always 0 where there is no fork.
inline unsigned fork_generation() noexcept {
  if (!detail::counts_forks.load(std::memory_order_relaxed)) [[unlikely]] {
    // Two threads may arrange it twice, which does no harm.
    os::in_child([] { detail::forks_seen.fetch_add(1, std::memory_order_relaxed); });
    detail::counts_forks.store(true, std::memory_order_relaxed);
  }
  return detail::forks_seen.load(std::memory_order_relaxed);
}

}  // namespace muster::inline MUSTER_ABI::native
