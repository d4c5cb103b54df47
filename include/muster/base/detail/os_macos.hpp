// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os_macos.hpp: the functions of os.hpp on macOS 14.4 and later, the first with a public call that waits for a word.
//
// Fences     macOS has none for the other threads, so join_fences() returns false: makers of events execute a
//            read-modify-write instead.
// Processes  words between processes are not offered, as the recovery from a death (shared_queue) needs Linux.
#pragma once

#include <muster/base/config.hpp>              // MUSTER_ABI
#include <muster/base/detail/futex_words.hpp>  // futex_words
#include <muster/base/detail/os_posix.hpp>     // IWYU pragma: export

#if !defined(__ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__) || __ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__ < 140400
#error "muster needs macOS 14.4: it sleeps by os_sync_wait_on_address. Compile with -mmacosx-version-min=14.4 or later."
#endif

#include <time.h>  // nanosleep

#include <cerrno>   // ETIMEDOUT
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

#if __has_include(<os/os_sync_wait_on_address.h>)
#include <os/clock.h>                    // OS_CLOCK_MACH_ABSOLUTE_TIME
#include <os/os_sync_wait_on_address.h>  // os_sync_wait_on_address
#else
// Headers for cross-compilation lack this one, although their library has the functions.
extern "C" {
using os_clockid_t = std::uint32_t;
using os_sync_wait_on_address_flags_t = std::uint32_t;
using os_sync_wake_by_address_flags_t = std::uint32_t;
inline constexpr os_clockid_t OS_CLOCK_MACH_ABSOLUTE_TIME = 32;
inline constexpr os_sync_wait_on_address_flags_t OS_SYNC_WAIT_ON_ADDRESS_NONE = 0;
inline constexpr os_sync_wake_by_address_flags_t OS_SYNC_WAKE_BY_ADDRESS_NONE = 0;
int os_sync_wait_on_address(void*, std::uint64_t, std::size_t, os_sync_wait_on_address_flags_t);
int os_sync_wait_on_address_with_timeout(void*, std::uint64_t, std::size_t, os_sync_wait_on_address_flags_t,
                                         os_clockid_t, std::uint64_t);
int os_sync_wake_by_address_all(void*, std::size_t, os_sync_wake_by_address_flags_t);
}
#endif

namespace muster::inline MUSTER_ABI::os {

inline futex_reason sleep(const futex_word& word, deadline until) noexcept {
  auto* const at = const_cast<void*>(word.at);
  if (until == no_deadline) {
    ::os_sync_wait_on_address(at, word.value, sizeof word.value, OS_SYNC_WAIT_ON_ADDRESS_NONE);
    return futex_reason::woken;
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - deadline_clock::now()).count();
  if (left <= 0) return futex_reason::timed_out;  // the call refuses 0
  const int answer =
      ::os_sync_wait_on_address_with_timeout(at, word.value, sizeof word.value, OS_SYNC_WAIT_ON_ADDRESS_NONE,
                                             OS_CLOCK_MACH_ABSOLUTE_TIME, static_cast<std::uint64_t>(left));
  if (answer >= 0 || errno != ETIMEDOUT) return futex_reason::woken;
  return deadline_clock::now() >= until ? futex_reason::timed_out : futex_reason::woken;
}

inline bool sleep_any(const futex_words&, deadline, futex_reason&) noexcept { return false; }

inline int wake(const void* word, int, std::uint32_t, futex_scope) noexcept {
  ::os_sync_wake_by_address_all(const_cast<void*>(word), sizeof(std::uint32_t), OS_SYNC_WAKE_BY_ADDRESS_NONE);
  return 0;
}

inline bool join_fences(futex_scope) noexcept { return false; }

inline bool fence_others(futex_scope) noexcept { return false; }

inline void nap() noexcept {
  constexpr timespec length{0, 50'000};
  ::nanosleep(&length, nullptr);
}

}  // namespace muster::inline MUSTER_ABI::os
