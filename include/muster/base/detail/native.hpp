// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// native.hpp: the standard side of the seam. Everything here compiles to the same code as hand-written calls.
// Include base/sync.hpp instead.
#pragma once

#include <muster/base/arch.hpp>                     // pause, isolation_size
#include <muster/base/detail/asymmetric_fence.hpp>  // join_heavy_fences
#include <muster/base/detail/futex.hpp>             // futex_wait, heavy_fence
#include <muster/base/detail/thread_state.hpp>      // thread_index, innermost
#include <muster/base/detail/utilities.hpp>         // std::mutex

#include <atomic>   // std::atomic
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t
#include <utility>  // std::exchange, std::forward

namespace muster::inline MUSTER_ABI::native {

template <class T>
using atomic = std::atomic<T>;

/// Plain data that crosses threads. One thread owns it at a time; the structure's ordering operations transfer it. The
/// checker records every write_ref() as a write and every read_ref() as a read, and reports conflicting ones that are
/// unordered.
template <class T>
class cell {
 public:
  cell() = default;
  template <class... Args>
  explicit cell(Args&&... args) : value_(std::forward<Args>(args)...) {}

  T& write_ref() noexcept { return value_; }
  const T& read_ref() const noexcept { return value_; }

 private:
  T value_;
};

/// For waiting loops, when rereading the same values would fail again.
inline void relax() noexcept { pause(); }

/// Gives the core to another thread.
inline void yield() noexcept { os::yield(); }

/// Sleeps for about fifty microseconds.
inline void nap() noexcept { os::nap(); }

/// The cheap side of the asymmetric fence: it orders only the compiler. Its partner is heavy_fence().
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Sequentially consistent: earlier stores are visible to all threads before later loads execute. Never on a path that
/// publishes an item.
inline void full_fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

/// Objects that are never destroyed, because other threads may access one after its owner has ended. The next owner
/// reuses it. Each has its own cache lines.
template <class T>
class lasting {
 public:
  /// Throws std::bad_alloc.
  static T& take() {
    lasting& here = all();
    const std::lock_guard lock(here.mutex_);
    if (here.free_ == nullptr) return *new isolated;
    return *std::exchange(here.free_, here.free_->next);
  }
  /// Requires an object from take().
  static void give_back(T& one) noexcept {
    lasting& here = all();
    const std::lock_guard lock(here.mutex_);
    auto& given = static_cast<isolated&>(one);
    given.next = std::exchange(here.free_, &given);
  }

 private:
  struct alignas(isolation_size) isolated : T {
    isolated* next = nullptr;
  };
  friend lasting& detail::only<lasting>();
  static lasting& all() { return detail::only<lasting>(); }
  void after_fork() noexcept {
    if (!detail::recover_after_fork(mutex_)) free_ = nullptr;
  }
  std::mutex mutex_;
  isolated* free_ = nullptr;
};

/// Called before the thread switches to another of its fibers.
inline void switch_fiber() noexcept {}

inline void heavy_fence(futex_scope scope = futex_scope::process) noexcept { MUSTER_ABI::heavy_fence(scope); }
[[nodiscard]] inline bool try_heavy_fence(futex_scope scope = futex_scope::process) noexcept {
  return MUSTER_ABI::try_heavy_fence(scope);
}
inline bool asymmetric_fences(futex_scope scope = futex_scope::process) noexcept {
  return MUSTER_ABI::asymmetric_fences(scope);
}

inline futex_reason futex_wait(const atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t bits,
                               deadline until, futex_scope scope) noexcept {
  static_assert(sizeof(atomic<std::uint32_t>) == 4, "a futex is four bytes");
  return MUSTER_ABI::futex_wait(&word, expected, bits, until, scope);
}

inline int futex_wake(const atomic<std::uint32_t>& word, int count, std::uint32_t bits, futex_scope scope) noexcept {
  return MUSTER_ABI::futex_wake(&word, count, bits, scope);
}

inline futex_reason futex_wait_any(const futex_words& words, deadline until) noexcept {
  return MUSTER_ABI::futex_wait_any(words, until);
}

}  // namespace muster::inline MUSTER_ABI::native
