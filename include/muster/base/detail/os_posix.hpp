// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os_posix.hpp: the functions of os.hpp that Linux and macOS share.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <limits.h>   // PTHREAD_DESTRUCTOR_ITERATIONS
#include <pthread.h>  // pthread_key_create, pthread_atfork
#include <sched.h>    // sched_yield

namespace muster::inline MUSTER_ABI::os {

inline void yield() noexcept { ::sched_yield(); }

inline void in_child(void (*call)()) noexcept { ::pthread_atfork(nullptr, nullptr, call); }

/// The number of times that a thread's end calls the functions of its keys, while they set values.
inline constexpr unsigned thread_key_rounds = PTHREAD_DESTRUCTOR_ITERATIONS;

class thread_key {
 public:
  bool make(void (*at_end)(void*)) noexcept { return ::pthread_key_create(&key_, at_end) == 0; }
  void set(const void* value) const noexcept { ::pthread_setspecific(key_, value); }

 private:
  pthread_key_t key_{};
};

}  // namespace muster::inline MUSTER_ABI::os
