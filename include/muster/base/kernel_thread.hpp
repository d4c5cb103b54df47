// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// kernel_thread.hpp: a thread with a stack of a given size, which std::thread cannot have, on given processors; and in
// which process we are.
#pragma once

#include <muster/base/config.hpp>   // MUSTER_ABI
#include <muster/base/library.hpp>  // keep_library_of

#include <pthread.h>  // pthread_create, pthread_atfork
#include <sched.h>    // cpu_set_t

#include <cstddef>       // std::size_t
#include <system_error>  // std::system_error

namespace muster::inline MUSTER_ABI {

/// The processors on which the calling thread may run. Empty where that is not known, on more than 1024, say.
class processor_set {
 public:
  processor_set() noexcept : known_(::pthread_getaffinity_np(::pthread_self(), sizeof set_, &set_) == 0) {}
  /// Returns an error number.
  int give_to(pthread_attr_t& thread) const noexcept {
    return known_ ? ::pthread_attr_setaffinity_np(&thread, sizeof set_, &set_) : 0;
  }

 private:
  cpu_set_t set_;
  const bool known_;
};

/// Must be joined. The stack is reserved, and filled as deep as the thread goes.
class kernel_thread {
 public:
  using function = void* (*)(void*) noexcept;

  /// Throws std::system_error when the system has no more threads or no room for the stack.
  kernel_thread(std::size_t stack_bytes, const processor_set& where, function call, void* argument) {
    pthread_attr_t with;
    int error = ::pthread_attr_init(&with);
    if (error == 0) {
      error = ::pthread_attr_setstacksize(&with, stack_bytes);
      if (error == 0) error = where.give_to(with);
      if (error == 0) error = ::pthread_create(&thread_, &with, call, argument);
      ::pthread_attr_destroy(&with);
    }
    if (error != 0) throw std::system_error(error, std::generic_category(), "the system gives no more threads");
  }
  void join() noexcept { ::pthread_join(thread_, nullptr); }

 private:
  pthread_t thread_{};
};

namespace detail {

// The library that this code is executed in: the handler below belongs to that.
extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;  // NOLINT(bugprone-reserved-identifier)

}  // namespace detail

/// Changes in the child of a fork(2). Never changes where that could not be arranged.
inline unsigned process_generation() noexcept {
  static constinit unsigned generation = 0;
  static const bool watched = [] {
    keep_library_of(static_cast<const void*>(&detail::__dso_handle));  // its handlers go with it
    return ::pthread_atfork(nullptr, nullptr, [] { ++generation; }) == 0;
  }();
  static_cast<void>(watched);
  return generation;
}

}  // namespace muster::inline MUSTER_ABI
