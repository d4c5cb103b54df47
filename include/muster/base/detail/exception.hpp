// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// exception.hpp: keeps an exception for another thread, or for later.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <version>  // __GLIBCXX__

#include <exception>  // std::exception_ptr, std::bad_exception

#if defined(__GLIBCXX__) && __has_include(<bits/cxxabi_forced.h>)
#include <bits/cxxabi_forced.h>  // abi::__forced_unwind, without the rest of <cxxabi.h>
#endif

#if !defined(__cpp_exceptions)
#error "of muster, only the queues work without exceptions: compile the other parts without -fno-exceptions"
#endif

namespace muster::inline MUSTER_ABI::detail {

#if defined(__GLIBCXX__) && __has_include(<bits/cxxabi_forced.h>)
/// The unwinding of a thread that ends by pthread_exit or cancellation. A handler must rethrow it or end the program.
using forced_unwind = __cxxabiv1::__forced_unwind;
#else
struct forced_unwind {};  // a catch-all handler cannot tell
#endif

/// In a catch-all handler, returns the exception caught. For an exception of another language, which C++ cannot keep,
/// returns std::bad_exception.
inline std::exception_ptr capture_exception() noexcept {
  std::exception_ptr now = std::current_exception();
  return now != nullptr ? now : std::make_exception_ptr(std::bad_exception());
}

}  // namespace muster::inline MUSTER_ABI::detail
