// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// futex_words.hpp: the words that threads sleep on, and the time until which they do.
#pragma once

#include <muster/base/config.hpp>       // MUSTER_ABI
#include <muster/base/detail/time.hpp>  // deadlines

#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI {

/// Which threads can wake the sleeper: those of this process, or of any process that has mapped the word.
enum class futex_scope : unsigned char { process, shared };

/// Why futex_wait returned. `woken` may be spurious; `changed`: the word did not hold the expected value.
enum class futex_reason : unsigned char { woken, changed, timed_out };

/// A point on the monotonic clock. no_deadline waits forever.
using deadline_clock = std::chrono::steady_clock;
using deadline = deadline_clock::time_point;
inline constexpr deadline no_deadline = deadline::max();

/// A word to sleep on while it has this value.
struct futex_word {
  const void* at;
  std::uint32_t value;
  std::uint32_t bits;  // a wake that shares a bit wakes the sleeper
  futex_scope scope;
};

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

}  // namespace muster::inline MUSTER_ABI
