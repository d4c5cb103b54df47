// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// kernel_thread.hpp: a thread with a stack of a given size, which std::thread cannot have, that inherits from a thread
// of our choice, not from the one that happens to make it, and that may give back the pages of its stack.
#pragma once

#include <muster/base/arch.hpp>            // arithmetic
#include <muster/base/config.hpp>          // MUSTER_ABI
#include <muster/base/stack_overflow.hpp>  // stack_guard_bytes

#include <pthread.h>   // pthread_create
#include <sched.h>     // cpu_set_t
#include <sys/mman.h>  // madvise
#include <unistd.h>    // sysconf

#include <csignal>       // sigset_t
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uintptr_t
#include <system_error>  // std::system_error

namespace muster::inline MUSTER_ABI {

/// What a thread hands down to those it makes, of the calling thread: the processors on which it may run (where they
/// are known: not on more than 1024, say), the signals it blocks, its floating-point environment.
class inheritance {
 public:
  inheritance() noexcept : known_(::pthread_getaffinity_np(::pthread_self(), sizeof processors_, &processors_) == 0) {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
  }
  /// Returns an error number.
  int give_to(pthread_attr_t& thread) const noexcept {
    return known_ ? ::pthread_attr_setaffinity_np(&thread, sizeof processors_, &processors_) : 0;
  }
  /// The rest, in the new thread.
  void take() const noexcept {
    arithmetic_.take();
    ::pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  }

 private:
  cpu_set_t processors_;
  const bool known_;
  sigset_t blocked_;
  arithmetic arithmetic_;
};

/// Must be joined. The stack is reserved, and filled as deep as the thread goes. It begins with all signals blocked, so
/// that none finds it before it has taken what it inherits.
class kernel_thread {
 public:
  using function = void* (*)(void*) noexcept;

  /// Throws std::system_error when the system has no more threads or no room for the stack.
  kernel_thread(std::size_t stack_bytes, const inheritance& from, function call, void* argument) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t with;
    int error = ::pthread_attr_init(&with);
    if (error == 0) {
      error = ::pthread_attr_setstacksize(&with, stack_bytes);
      if (error == 0) error = ::pthread_attr_setguardsize(&with, stack_guard_bytes);
      if (error == 0) error = from.give_to(with);
      if (error == 0) error = ::pthread_create(&thread_, &with, call, argument);
      ::pthread_attr_destroy(&with);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0) throw std::system_error(error, std::generic_category(), "the system gives no more threads");
  }
  void join() noexcept { ::pthread_join(thread_, nullptr); }

 private:
  pthread_t thread_{};
};

/// Gives back to the system what the calling thread, which must have a stack of its own, has used of it and does not
/// use now.
inline void release_unused_stack() noexcept {
  constexpr std::size_t in_use = std::size_t{64} << 10U;  // below the caller's frame, for what is called next
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  pthread_attr_t with;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (::pthread_getattr_np(::pthread_self(), &with) != 0) return;
  const bool known = ::pthread_attr_getstack(&with, &lowest, &bytes) == 0;
  ::pthread_attr_destroy(&with);
  const auto begin = reinterpret_cast<std::uintptr_t>(lowest);
  const std::uintptr_t used = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) - in_use - begin;
  if (known && used < bytes) ::madvise(lowest, used / page * page, MADV_DONTNEED);
}

}  // namespace muster::inline MUSTER_ABI
