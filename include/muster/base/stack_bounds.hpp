// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack_bounds.hpp: where the stack lies that the calling thread, or fiber, runs on.
#pragma once

#include <muster/base/siblings.hpp>  // siblings

#include <pthread.h>  // pthread_getattr_np

#include <cstddef>  // std::size_t

namespace muster::inline MUSTER_ABI::detail {

/// The system's stack of the calling thread. Asks the system once for each thread. Empty where it does not know.
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

/// That of the caller. Empty when it runs on a stack that neither the system nor the library knows.
inline stack_bounds current_stack() noexcept {
  siblings* const fibers = sync::own_siblings();
  stack_bounds found = fibers == nullptr ? stack_bounds{} : fibers->stack();
  if (found.lowest == nullptr) found = thread_stack();
  const auto* const at = static_cast<const char*>(__builtin_frame_address(0));
  return found.lowest < at && at < found.end ? found : stack_bounds{};
}

}  // namespace muster::inline MUSTER_ABI::detail
