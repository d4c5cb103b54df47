// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack_bounds.hpp: the bounds of the calling thread's or fiber's stack.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/detail/siblings.hpp>  // siblings

#include <pthread.h>  // pthread_getattr_np

#include <cstddef>  // std::size_t

namespace muster::inline MUSTER_ABI::detail {

/// Returns the system's stack of the calling thread; empty if unknown. Queries the system once per thread.
inline stack_bounds thread_stack() noexcept {
  static constinit thread_local stack_bounds own;
  static constinit thread_local bool asked = false;
  if (!asked) {
    asked = true;
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
      void* lowest = nullptr;
      std::size_t size = 0;
      if (::pthread_attr_getstack(&attributes, &lowest, &size) == 0)
        own = {static_cast<const char*>(lowest), static_cast<const char*>(lowest) + size};
      ::pthread_attr_destroy(&attributes);
    }
  }
  return own;
}

/// Returns the stack that the caller runs on; empty if neither the system nor the library knows it.
inline stack_bounds current_stack() noexcept {
  siblings* const fibers = sync::own_siblings();
  stack_bounds found = fibers == nullptr ? stack_bounds{} : fibers->stack();
  if (found.lowest == nullptr) found = thread_stack();
  const auto* const at = static_cast<const char*>(__builtin_frame_address(0));
  return found.lowest < at && at < found.end ? found : stack_bounds{};
}

}  // namespace muster::inline MUSTER_ABI::detail
