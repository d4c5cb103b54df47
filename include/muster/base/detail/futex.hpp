// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// futex.hpp: sleeping in the kernel until a 32-bit word changes.
//
// Why not std::atomic::wait: it has no deadline, hashes all words into a few process-local buckets, and does not work
// between processes.
//
// Deadlines are absolute on std::chrono::steady_clock.
// Many words: a thread can sleep on several words at once.
// Bits: sleeper and waker each give a set of bits; a wake need affect only sleepers whose set intersects the waker's.
// The system (base/detail/os.hpp) may lack both: it then wakes too many threads, and a thread that sleeps on several
// words checks them every millisecond.
#pragma once

#include <muster/base/config.hpp>              // MUSTER_ABI
#include <muster/base/detail/futex_words.hpp>  // futex_words
#include <muster/base/detail/os.hpp>           // os::sleep

#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI {

/// Sleeps if *word == expected, until a wake that shares a bit with `bits`, or until the deadline.
inline futex_reason futex_wait(const void* word, std::uint32_t expected, std::uint32_t bits, deadline until,
                               futex_scope scope) noexcept {
  return os::sleep({word, expected, bits, scope}, until);
}

/// Returns a millisecond from now, or the deadline if earlier: for a sleeper that may miss its wake-up.
inline deadline nap_until(deadline until) noexcept {
  const deadline soon = deadline_clock::now() + std::chrono::milliseconds(1);
  return until < soon ? until : soon;
}

namespace detail {

/// As futex_wait, on the first word only, for at most a millisecond, because the others may change meanwhile.
inline futex_reason nap_on_first(const futex_words& words, deadline until) noexcept {
  const deadline soon = nap_until(until);
  const futex_reason why = os::sleep(words[0], soon);
  return why == futex_reason::timed_out && soon < until ? futex_reason::woken : why;
}

}  // namespace detail

/// Sleeps if no word has changed, until a wake of any of them, regardless of bits, or until the deadline. There must be
/// at least one word. If the system cannot sleep on several, or there are too many, sleeps on one of them for at most a
/// millisecond.
inline futex_reason futex_wait_any(const futex_words& words, deadline until) noexcept {
  if (words.overflown()) return detail::nap_on_first(words, until);
  if (words.count() == 1) return os::sleep(words[0], until);
  futex_reason why = futex_reason::woken;
  return os::sleep_any(words, until, why) ? why : detail::nap_on_first(words, until);
}

/// Wakes up to `count` sleepers on the word that share a bit with `bits`. Returns how many; on a system that cannot
/// select or count them, wakes all sleepers on the word and returns 0.
inline int futex_wake(const void* word, int count, std::uint32_t bits, futex_scope scope) noexcept {
  return os::wake(word, count, bits, scope);
}

}  // namespace muster::inline MUSTER_ABI
