// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// arch.hpp: what the library must know about the processor.
//
// The sizes are constants of the architecture and not of the machine that compiles, because they decide the layout of
// public types: std::hardware_destructive_interference_size changes with -mtune, and so would the ABI.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <chrono>   // cycles
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>  // _mm_pause
#endif
#if !defined(__x86_64__)
#include <cfenv>  // std::fenv_t
#endif

namespace muster::inline MUSTER_ABI {

#if defined(__x86_64__) || defined(__i386__)
/// Bytes that move together between caches. Intel SDM volume 3, 12.1; AMD APM volume 2, 7.3: 64.
inline constexpr std::size_t line_size = 64;
/// Bytes that two hot words must be apart. Two lines: Intel's optimization manual (2.1.5.4, "spatial prefetcher")
/// fetches the other line of a 128-byte pair as well.
inline constexpr std::size_t isolation_size = 128;
#elif defined(__aarch64__)
// Arm Neoverse technical reference manuals: 64-byte lines. Apple's cores transfer 128 bytes, so words are kept 128
// apart.
inline constexpr std::size_t line_size = 64;
inline constexpr std::size_t isolation_size = 128;
#elif defined(__powerpc64__)
// Power ISA user manuals: 128-byte lines.
inline constexpr std::size_t line_size = 128;
inline constexpr std::size_t isolation_size = 128;
#else
// RISC-V and others: the line is not fixed by the architecture; 64 is what their cores have.
inline constexpr std::size_t line_size = 64;
inline constexpr std::size_t isolation_size = 128;
#endif

/// Tells the core that this is a waiting loop. Costs 10 to 150 cycles and gives the other hardware thread room.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // yields longer than the hint `yield`, which most cores ignore
#elif defined(__powerpc64__)
  asm volatile("or 27,27,27" ::: "memory");
#elif defined(__riscv)
  asm volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");  // the hint `pause`
#endif
}

/// The processor's clock counter, which counts at a constant rate; nanoseconds where there is none.
inline std::uint64_t cycles() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Whether the processor checks the returns of this thread against a second stack, which who changes the first does not
/// change.
inline bool shadow_stack() noexcept {
#if defined(__x86_64__)
  std::uintptr_t pointer = 0;
  asm volatile("rdsspq %0" : "+r"(pointer));  // does nothing where there is none
  return pointer != 0;
#else
  return false;
#endif
}

/// How the thread that makes it rounds floating-point numbers, and which exceptions trap.
class arithmetic {
 public:
  arithmetic() noexcept {
#if defined(__x86_64__)
    // Not std::fegetenv, which brings 64 KiB of the mathematical library into memory.
    asm volatile("fnstcw %0" : "=m"(x87_));
    sse_ = _mm_getcsr();
#else
    std::fegetenv(&all_);
#endif
  }
  /// Makes the calling thread do the same.
  void take() const noexcept {
#if defined(__x86_64__)
    asm volatile("fldcw %0" : : "m"(x87_));
    _mm_setcsr(sse_);
#else
    std::fesetenv(&all_);
#endif
  }

 private:
#if defined(__x86_64__)
  std::uint16_t x87_;
  std::uint32_t sse_;
#else
  std::fenv_t all_;
#endif
};

/// Asks for the line of `address` in a state that can be written. A hint; any address is allowed.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin emits PREFETCHW only when -march allows it. Every x86-64 processor accepts the instruction (the oldest
  // execute it as a no-op), so it is written out.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

/// Writes into each line of storage that only we use, without changing it, for the thread that writes it next: a line
/// that we have modified comes from our cache, one that we have only read may take several times as long to be had for
/// writing (`half buffers, only read` in `muster-bench run queue/one-to-one`; docs/design/queue.md).
inline void leave_modified(void* storage, std::size_t size) noexcept {
  volatile unsigned char* const bytes = static_cast<unsigned char*>(storage);
  for (std::size_t at = 0; at < size; at += line_size) bytes[at] = bytes[at];
  if (size > 1) bytes[size - 1] = bytes[size - 1];  // the storage may begin in the middle of a line
}

}  // namespace muster::inline MUSTER_ABI
