// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// arch.hpp: properties of the processor.
//
// The sizes are constants of the architecture, not of the compiling machine, because they decide the layout of public
// types: std::hardware_destructive_interference_size changes with -mtune, and the ABI would change with it.
#pragma once

#include <muster/base/config.hpp>       // MUSTER_ABI
#include <muster/base/detail/time.hpp>  // cycles

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t

#if !defined(__x86_64__)
#include <cfenv>  // std::fenv_t
#endif

namespace muster::inline MUSTER_ABI {

#if defined(__x86_64__)
/// The unit of transfer between caches, in bytes. Intel SDM volume 3, 12.1; AMD APM volume 2, 7.3: 64.
inline constexpr std::size_t line_size = 64;
/// The distance between two hot words, in bytes. Two lines, because the spatial prefetcher also fetches the other line
/// of a 128-byte pair (Intel's optimization manual, 2.1.5.4).
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
// RISC-V and others: the architecture does not fix the line; their cores have 64 bytes.
inline constexpr std::size_t line_size = 64;
inline constexpr std::size_t isolation_size = 128;
#endif

/// Tells the core that this is a waiting loop. Takes 10 to 150 cycles, which the other hardware thread can use.
inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // yields longer than the hint `yield`, which most cores ignore
#elif defined(__powerpc64__)
  asm volatile("or 27,27,27" ::: "memory");
#elif defined(__riscv)
  asm volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");  // the hint `pause`
#endif
}

/// Reads the processor's constant-rate cycle counter, or nanoseconds where there is none.
inline std::uint64_t cycles() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Returns true if this thread has a shadow stack. Changing a return address then faults.
inline bool shadow_stack() noexcept {
#if defined(__x86_64__)
  std::uintptr_t pointer = 0;
  asm volatile("rdsspq %0" : "+r"(pointer));  // does nothing where there is none
  return pointer != 0;
#elif defined(__aarch64__)
  std::uint64_t is_off = 0;
  // chkfeat; where it does not exist, it does nothing.
  asm volatile("mov x16, #1\n\thint #40\n\tmov %0, x16" : "=r"(is_off) : : "x16");
  return is_off == 0;
#else
  return false;
#endif
}

/// The floating-point environment of the thread that constructs it: the rounding mode and the trapping exceptions.
class fp_environment {
 public:
  /// Reads the environment of the calling thread.
  fp_environment() noexcept {
#if defined(__x86_64__)
    // Not std::fegetenv, which loads 64 KiB of the math library.
    asm volatile("fnstcw %0" : "=m"(x87_));
    sse_ = __builtin_ia32_stmxcsr();
#else
    std::fegetenv(&all_);
#endif
  }
  /// Applies it to the calling thread.
  void take() const noexcept {
#if defined(__x86_64__)
    asm volatile("fldcw %0" : : "m"(x87_));
    __builtin_ia32_ldmxcsr(sse_);
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

/// Prefetches the line of `address` for writing. A hint; any address is allowed.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The builtin emits PREFETCHW only when -march allows it. Every x86-64 processor accepts the instruction (the oldest
  // execute it as a no-op), so it is written out.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

/// Rewrites one byte in each line of exclusively owned storage, unchanged, for the next thread that writes it. A
/// modified line comes directly from this core's cache; getting a line for writing that was only read here may take
/// several times as long (`half buffers, only read` in `muster-bench run queue/one-to-one`; docs/design/queue.md).
inline void leave_modified(void* storage, std::size_t size) noexcept {
  volatile unsigned char* const bytes = static_cast<unsigned char*>(storage);
  for (std::size_t at = 0; at < size; at += line_size) bytes[at] = bytes[at];
  if (size > 1) bytes[size - 1] = bytes[size - 1];  // the storage may begin in the middle of a line
}

}  // namespace muster::inline MUSTER_ABI
