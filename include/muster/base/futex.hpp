// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// futex.hpp: sleeping in the kernel until a 32-bit word changes, and the asymmetric fence. Linux.
//
// Why not std::atomic::wait: it has no deadline, it hashes all words into a few process-local buckets, and it cannot
// work between processes.
//
// Deadlines are absolute on the monotonic clock, which is std::chrono::steady_clock with every Linux C++ library.
// Bits: a sleeper names a set of bits, a waker names a set, and they meet when the sets intersect.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <atomic>   // the fallback of heavy_fence
#include <cerrno>   // ETIMEDOUT
#include <chrono>   // deadlines
#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t
#include <ctime>    // timespec

#if !defined(__linux__)
#error "muster needs Linux: it sleeps by futex(2). Build on Linux, or use the queues of another library here."
#endif

#include <linux/futex.h>  // FUTEX_WAIT_BITSET
#include <sys/syscall.h>  // SYS_futex, SYS_membarrier
#include <unistd.h>       // syscall

namespace muster::inline MUSTER_ABI {

/// Who can wake the sleeper: threads of this process, or of any process that has mapped the word.
enum class futex_scope : unsigned char { process, shared };

/// Why futex_wait returned. `woken` may be spurious; `changed`: the word did not hold the expected value.
enum class futex_reason : unsigned char { woken, changed, timed_out };

/// A point on the monotonic clock. no_deadline waits for ever.
using deadline_clock = std::chrono::steady_clock;
using deadline = deadline_clock::time_point;
inline constexpr deadline no_deadline = deadline::max();

/// Sleeps while *word == expected, until a wake that shares a bit with `bits`, or the deadline.
inline futex_reason futex_wait(const void* word, std::uint32_t expected, std::uint32_t bits, deadline until,
                               futex_scope scope) noexcept {
  const int op = FUTEX_WAIT_BITSET | (scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  timespec when{};
  timespec* limit = nullptr;
  if (until != no_deadline) {
    const auto since = until.time_since_epoch();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
    if (ns <= 0) return futex_reason::timed_out;  // the kernel refuses times before its clock began
    when.tv_sec = static_cast<std::time_t>(ns / 1'000'000'000);
    when.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    limit = &when;
  }
  if (::syscall(SYS_futex, word, op, expected, limit, nullptr, bits) == 0) return futex_reason::woken;
  if (errno == ETIMEDOUT) return futex_reason::timed_out;
  return errno == EAGAIN ? futex_reason::changed : futex_reason::woken;
}

/// Wakes up to `count` sleepers on the word that share a bit with `bits`. Returns how many.
inline int futex_wake(const void* word, int count, std::uint32_t bits, futex_scope scope) noexcept {
  const int op = FUTEX_WAKE_BITSET | (scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  const long woken = ::syscall(SYS_futex, word, op, count, nullptr, nullptr, bits);
  return woken > 0 ? static_cast<int>(woken) : 0;
}

namespace detail {

// membarrier(2). The numbers are the kernel's ABI; they are written out because Debian's oldest headers lack the names.
struct membarrier_commands {
  int fence, join;  // whoever has joined is reached
};
constexpr membarrier_commands membarrier_of(futex_scope scope) noexcept {
  return scope == futex_scope::process ? membarrier_commands{1 << 3, 1 << 4} : membarrier_commands{1 << 1, 1 << 2};
}

inline bool membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace detail

/// Makes this process one that heavy_fence() of that scope reaches. A child of fork() has to join anew.
inline bool join_heavy_fences(futex_scope scope) noexcept {
  return detail::membarrier(detail::membarrier_of(scope).join) &&
         detail::membarrier(detail::membarrier_of(scope).fence);
}

/// True when heavy_fence() reaches the other threads of the process, or of all processes that have joined, so that
/// their side needs no fence at all. False on old kernels (4.14, 4.16) and where a sandbox forbids membarrier(2).
inline bool asymmetric_fences(futex_scope scope = futex_scope::process) noexcept {
  static const bool available = join_heavy_fences(futex_scope::process);
  return scope == futex_scope::process ? available : join_heavy_fences(scope);
}

/// After it, every other thread that it reaches has passed a full fence since the call began. Costs microseconds. Only
/// where asymmetric_fences() is true.
inline void heavy_fence(futex_scope scope = futex_scope::process) noexcept {
  if (detail::membarrier(detail::membarrier_of(scope).fence)) return;
  // A child of fork() may have lost the registration.
  if (!join_heavy_fences(scope))
    fail_check(
        "membarrier(2) worked and then stopped working: a sandbox that the process enters must allow it, or be "
        "entered before the first pool or queue is made",
        __FILE__, __LINE__);
}

}  // namespace muster::inline MUSTER_ABI
