// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os_linux.hpp: the functions of os.hpp on Linux, with glibc or musl.
#pragma once

#include <muster/base/config.hpp>              // MUSTER_ABI
#include <muster/base/detail/futex_words.hpp>  // futex_words
#include <muster/base/detail/os_posix.hpp>     // IWYU pragma: export

#include <linux/futex.h>  // FUTEX_WAIT_BITSET
#include <sys/syscall.h>  // SYS_futex, SYS_membarrier
#include <time.h>         // clock_nanosleep
#include <unistd.h>       // syscall

#include <cerrno>   // ETIMEDOUT
#include <cstdint>  // std::uint32_t
#include <ctime>    // timespec

namespace muster::inline MUSTER_ABI::os {

/// The number of futex_waitv(2), which Debian's older headers lack; it is the same on all machines.
inline constexpr long futex_waitv_call = 449;

namespace detail {

/// A deadline in the kernel's format, on the monotonic clock, which is std::chrono::steady_clock in every C++ library
/// for Linux.
class kernel_deadline {
 public:
  explicit kernel_deadline(deadline until) noexcept : for_ever_(until == no_deadline) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
    never_ = ns <= 0;
    at_.tv_sec = ns / 1'000'000'000;
    at_.tv_nsec = ns % 1'000'000'000;
  }
  /// Returns true if the deadline is before the clock's origin, which the kernel rejects.
  bool too_early() const noexcept { return never_; }
  const timespec* get() const noexcept { return for_ever_ ? nullptr : &at_; }

 private:
  const bool for_ever_;
  bool never_ = false;
  timespec at_{};
};

inline futex_reason reason_of(long answer) noexcept {
  if (answer >= 0) return futex_reason::woken;
  if (errno == ETIMEDOUT) return futex_reason::timed_out;
  return errno == EAGAIN ? futex_reason::changed : futex_reason::woken;
}

}  // namespace detail

inline futex_reason sleep(const futex_word& word, deadline until) noexcept {
  const int op = FUTEX_WAIT_BITSET | (word.scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  const detail::kernel_deadline limit(until);
  if (limit.too_early()) return futex_reason::timed_out;
  return detail::reason_of(::syscall(SYS_futex, word.at, op, word.value, limit.get(), nullptr, word.bits));
}

inline bool sleep_any(const futex_words& words, deadline until, futex_reason& why) noexcept {
  // The kernel's ABI, written out because Debian's headers may be older.
  struct kernel_word {
    std::uint64_t value, at;
    std::uint32_t flags, reserved;
  };
  constexpr std::uint32_t of_32_bits = 2, of_this_process = 128;
  kernel_word all[futex_words::most];
  for (unsigned i = 0; i < words.count(); ++i)
    all[i] = {words[i].value, reinterpret_cast<std::uintptr_t>(words[i].at),
              of_32_bits | (words[i].scope == futex_scope::process ? of_this_process : 0), 0};
  const detail::kernel_deadline limit(until);
  why = futex_reason::timed_out;
  if (limit.too_early()) return true;
  const long answer = ::syscall(futex_waitv_call, all, words.count(), 0, limit.get(), CLOCK_MONOTONIC);
  if (answer < 0 && errno != ETIMEDOUT && errno != EAGAIN && errno != EINTR) return false;
  why = detail::reason_of(answer);
  return true;
}

inline int wake(const void* word, int count, std::uint32_t bits, futex_scope scope) noexcept {
  const int op = FUTEX_WAKE_BITSET | (scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  const long woken = ::syscall(SYS_futex, word, op, count, nullptr, nullptr, bits);
  return woken > 0 ? static_cast<int>(woken) : 0;
}

namespace detail {

// membarrier(2). The numbers are the kernel's ABI, written out because Debian's oldest headers lack the names.
struct membarrier_commands {
  int fence, join;  // a fence reaches the processes that have joined
};
constexpr membarrier_commands membarrier_of(futex_scope scope) noexcept {
  return scope == futex_scope::process ? membarrier_commands{1 << 3, 1 << 4} : membarrier_commands{1 << 1, 1 << 2};
}

inline bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace detail

/// A forked child must join again. Linux 4.14; between processes 4.16.
inline bool join_fences(futex_scope scope) noexcept {
  return detail::membarrier(detail::membarrier_of(scope).join) &&
         detail::membarrier(detail::membarrier_of(scope).fence);
}

inline bool fence_others(futex_scope scope) noexcept { return detail::membarrier(detail::membarrier_of(scope).fence); }

inline void nap() noexcept {
  constexpr timespec length{0, 50'000};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
}

}  // namespace muster::inline MUSTER_ABI::os
