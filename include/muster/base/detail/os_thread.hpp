// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os_thread.hpp: a thread with a given stack size, which std::thread does not offer. It inherits from a chosen
// thread instead of its creator, and can release unused pages of its stack.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/arch.hpp>                   // fp_environment
#include <muster/base/config.hpp>                 // MUSTER_ABI
#include <muster/base/detail/stack_overflow.hpp>  // stack_guard_bytes

#include <pthread.h>   // pthread_create
#include <sched.h>     // cpu_set_t
#include <sys/mman.h>  // madvise
#include <unistd.h>    // sysconf

#include <csignal>       // sigset_t
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uintptr_t
#include <string>        // names
#include <system_error>  // std::system_error

namespace muster::inline MUSTER_ABI {

/// The attributes that new threads inherit from the calling thread: its processors (if known: not with more than 1024,
/// for example), its blocked signals, and its floating-point environment.
class thread_attributes {
 public:
  thread_attributes() noexcept
      : known_(::pthread_getaffinity_np(::pthread_self(), sizeof processors_, &processors_) == 0) {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
  }
  /// Returns an error number.
  int give_to([[maybe_unused]] pthread_attr_t& thread) const noexcept {
#if defined(__GLIBC__)
    if (known_) return ::pthread_attr_setaffinity_np(&thread, sizeof processors_, &processors_);
#endif
    return 0;
  }
  /// Applies the rest, in the new thread.
  void take() const noexcept {
#if !defined(__GLIBC__)
    // musl has no such attribute. The thread may begin on other processors; nothing of the caller's has run yet.
    if (known_) ::sched_setaffinity(0, sizeof processors_, &processors_);
#endif
    arithmetic_.take();
    ::pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  }

 private:
  cpu_set_t processors_;
  const bool known_;
  sigset_t blocked_;
  fp_environment arithmetic_;
};

/// Must be joined. The stack is reserved address space; pages are allocated as the thread uses them. The thread starts
/// with all signals blocked, so that none arrives before thread_attributes::take().
class os_thread {
 public:
  using function = void* (*)(void*) noexcept;

  /// Throws std::system_error if the system has no more threads or no room for the stack.
  os_thread(std::size_t stack_bytes, const thread_attributes& from, function call, void* argument) {
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
    if (error != 0)
      throw std::system_error(error, std::generic_category(),
                              "cannot create a thread; end others, or raise the limit (ulimit -u)");
  }
  void join() noexcept { ::pthread_join(thread_, nullptr); }

 private:
  pthread_t thread_{};
};

/// Names the calling thread, as debuggers and `top -H` show it: at most 15 characters, and the number follows.
inline void name_this_thread(const std::string& name, unsigned number) {
  constexpr std::size_t room = 15;
  const std::string suffix = '-' + std::to_string(number);
  ::pthread_setname_np(::pthread_self(), (name.substr(0, room - suffix.size()) + suffix).c_str());
}

/// Returns to the system the stack pages that the calling thread no longer uses. It must run on its own stack.
inline void release_unused_stack() noexcept {
  constexpr std::size_t in_use = std::size_t{64} << 10U;  // below the caller's frame, for its next calls
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
