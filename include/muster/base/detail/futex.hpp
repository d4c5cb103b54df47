// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// futex.hpp: sleeping in the kernel until a 32-bit word changes. Linux.
//
// Why not std::atomic::wait: it has no deadline, hashes all words into a few process-local buckets, and does not work
// between processes.
//
// Deadlines are absolute on the monotonic clock, which is std::chrono::steady_clock in every Linux C++ library.
// Many words: a thread can sleep on several words at once (futex_waitv, Linux 5.16).
// Bits: sleeper and waker each give a set of bits; a wake affects only sleepers whose set intersects the waker's.
#pragma once

#include <muster/base/config.hpp>       // MUSTER_ABI
#include <muster/base/detail/time.hpp>  // deadlines

#include <cerrno>   // ETIMEDOUT
#include <climits>  // INT_MAX
#include <cstdint>  // std::uint32_t
#include <ctime>    // timespec

#if !defined(__linux__)
#error "muster needs Linux: it sleeps by futex(2). Build on Linux, or use the queues of another library here."
#endif

#include <linux/futex.h>  // FUTEX_WAIT_BITSET
#include <sys/syscall.h>  // SYS_futex
#include <unistd.h>       // syscall

namespace muster::inline MUSTER_ABI {

/// Which threads can wake the sleeper: those of this process, or of any process that has mapped the word.
enum class futex_scope : unsigned char { process, shared };

/// Why futex_wait returned. `woken` may be spurious; `changed`: the word did not hold the expected value.
enum class futex_reason : unsigned char { woken, changed, timed_out };

/// A point on the monotonic clock. no_deadline waits forever.
using deadline_clock = std::chrono::steady_clock;
using deadline = deadline_clock::time_point;
inline constexpr deadline no_deadline = deadline::max();

namespace detail {

/// The number of futex_waitv(2), which Debian's older headers lack; it is the same on all machines.
inline constexpr long futex_waitv_call = 449;

/// A deadline in the kernel's format.
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

/// Sleeps if *word == expected, until a wake that shares a bit with `bits`, or until the deadline.
inline futex_reason futex_wait(const void* word, std::uint32_t expected, std::uint32_t bits, deadline until,
                               futex_scope scope) noexcept {
  const int op = FUTEX_WAIT_BITSET | (scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  const detail::kernel_deadline limit(until);
  if (limit.too_early()) return futex_reason::timed_out;
  return detail::reason_of(::syscall(SYS_futex, word, op, expected, limit.get(), nullptr, bits));
}

/// A word to sleep on while it has this value.
struct futex_word {
  const void* at;
  std::uint32_t value;
  std::uint32_t bits;  // a wake that shares a bit wakes the sleeper
  futex_scope scope;
};

/// Returns a millisecond from now, or the deadline if earlier: for a sleeper that may miss its wake-up.
inline deadline nap_until(deadline until) noexcept {
  const deadline soon = deadline_clock::now() + std::chrono::milliseconds(1);
  return until < soon ? until : soon;
}

/// The set of words that a thread is about to sleep on.
class futex_words {
 public:
  static constexpr unsigned most = 64;

  /// If `asymmetric`, the sleeper must execute a heavy fence before its last check.
  void add(const futex_word& one, bool asymmetric) noexcept {
    if (asymmetric) (one.scope == futex_scope::process ? fence_process_ : fence_shared_) = true;
    for (unsigned i = count_; i-- != 0;)
      if (words_[i].at == one.at) {
        words_[i].bits |= one.bits;  // keeps the older value: if the word has changed since, the thread does not sleep
        return;
      }
    if (count_ == most) overflown_ = true;
    else words_[count_++] = one;
  }
  bool wants_fence(futex_scope scope) const noexcept {
    return scope == futex_scope::process ? fence_process_ : fence_shared_;
  }
  unsigned count() const noexcept { return count_; }
  const futex_word& operator[](unsigned i) const noexcept { return words_[i]; }
  /// Returns true if some words did not fit: the sleeper must check those periodically.
  bool overflown() const noexcept { return overflown_; }

 private:
  futex_word words_[most];
  unsigned count_ = 0;
  bool fence_process_ = false;
  bool fence_shared_ = false;
  bool overflown_ = false;
};

namespace detail {

/// As futex_wait, on the first word only, for at most a millisecond, because the others may change meanwhile.
inline futex_reason nap_on_first(const futex_words& words, deadline until) noexcept {
  const deadline soon = nap_until(until);
  const futex_word& one = words[0];
  const futex_reason why = futex_wait(one.at, one.value, one.bits, soon, one.scope);
  return why == futex_reason::timed_out && soon < until ? futex_reason::woken : why;
}

}  // namespace detail

/// Sleeps if no word has changed, until a wake of any of them, regardless of bits, or until the deadline. There must be
/// at least one word. If the kernel lacks the call, or there are too many words, sleeps on one of them for at most a
/// millisecond.
inline futex_reason futex_wait_any(const futex_words& words, deadline until) noexcept {
  if (words.overflown()) return detail::nap_on_first(words, until);
  if (words.count() == 1) return futex_wait(words[0].at, words[0].value, words[0].bits, until, words[0].scope);
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
  if (limit.too_early()) return futex_reason::timed_out;
  const long answer = ::syscall(detail::futex_waitv_call, all, words.count(), 0, limit.get(), CLOCK_MONOTONIC);
  if (answer < 0 && errno != ETIMEDOUT && errno != EAGAIN && errno != EINTR) return detail::nap_on_first(words, until);
  return detail::reason_of(answer);
}

/// Wakes up to `count` sleepers on the word that share a bit with `bits`. Returns how many.
inline int futex_wake(const void* word, int count, std::uint32_t bits, futex_scope scope) noexcept {
  const int op = FUTEX_WAKE_BITSET | (scope == futex_scope::process ? FUTEX_PRIVATE_FLAG : 0);
  const long woken = ::syscall(SYS_futex, word, op, count, nullptr, nullptr, bits);
  return woken > 0 ? static_cast<int>(woken) : 0;
}

}  // namespace muster::inline MUSTER_ABI
