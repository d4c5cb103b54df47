// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clock.hpp: the stamps of a recorded history, in two modes. A clock has begin(), called just before an
// operation, and end(), called just after it, from any thread.
//
// Both guarantee: if operation A got end stamp x, B got begin stamp y, and x < y, then A took effect before B began.
// Without this a checker would reject a correct queue. Equal stamps claim nothing: the checkers treat such operations
// as concurrent.
//
// exact_clock  One shared counter. All its increments form one release sequence, so x < y implies that A
//              happens before B by the rules of C++, on every machine and with no assumption about clocks. The
//              price: threads meet on the counter, which slows them down, and the order it adds can hide a
//              missing fence in the structure under test. Use both modes.
// cheap_clock  The processor's time, with no sharing. It assumes that the time-stamp counters of all cores
//              agree to within the time in which a store of one core can reach another (tens of nanoseconds).
//              The kernel measures that, and stops using the counter as its clock when they do not agree. So the
//              counter is read only where it is invariant and the kernel's clock source is "tsc". Elsewhere, and on
//              other machines, std::chrono::steady_clock is used, which is one clock for all threads.
//              The full fence in end() drains the store buffer: without it a release store could still be
//              invisible after its stamp, and the next pop elsewhere would be accused of a false "empty".
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>      // __get_cpuid: is the counter invariant?
#include <x86intrin.h>  // __rdtscp, _mm_lfence, _mm_mfence
#endif

namespace muster_test {

/// Two lines: neighbouring lines are fetched in pairs on x86-64.
inline constexpr std::size_t separation = 128;

class exact_clock {
 public:
  std::uint64_t begin() noexcept { return next(); }
  std::uint64_t end() noexcept { return next(); }

 private:
  std::uint64_t next() noexcept { return next_.fetch_add(1, std::memory_order_seq_cst); }

  alignas(separation) std::atomic<std::uint64_t> next_{1};
};

class cheap_clock {
 public:
  /// The stamp is taken before any later access of this thread starts.
  std::uint64_t begin() const noexcept;

  /// The stamp is taken after every earlier access of this thread is done and visible to all.
  std::uint64_t end() const noexcept;

 private:
  static bool may_read_counter() noexcept;
  std::uint64_t now() const noexcept;

  const bool counts_cycles_ = may_read_counter();
};

#if defined(__x86_64__)

inline bool cheap_clock::may_read_counter() noexcept {
  static const bool trusted_by_kernel = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string source;
    return (file >> source) && source == "tsc";
  }();
  if (!trusted_by_kernel) return false;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_rdtscp = __get_cpuid(0x80000001u, &a, &b, &c, &d) != 0 && (d >> 27 & 1u) != 0;
  return has_rdtscp && __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d >> 8 & 1u) != 0;
}

inline std::uint64_t cheap_clock::now() const noexcept {
  if (counts_cycles_) {
    unsigned core = 0;
    return __rdtscp(&core);  // waits until every earlier instruction has executed
  }
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline std::uint64_t cheap_clock::begin() const noexcept {
  const std::uint64_t stamp = now();
  _mm_lfence();  // no later instruction starts before the counter is read
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return stamp;
}

inline std::uint64_t cheap_clock::end() const noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _mm_mfence();  // earlier stores leave the store buffer
  const std::uint64_t stamp = now();
  _mm_lfence();
  return stamp;
}

#else

inline bool cheap_clock::may_read_counter() noexcept { return false; }

inline std::uint64_t cheap_clock::now() const noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

inline std::uint64_t cheap_clock::begin() const noexcept {
  const std::uint64_t stamp = now();
  __sync_synchronize();  // not std::atomic_thread_fence, which g++ refuses to compile for thread sanitizer
  return stamp;
}

inline std::uint64_t cheap_clock::end() const noexcept {
  __sync_synchronize();
  return now();
}

#endif

}  // namespace muster_test
