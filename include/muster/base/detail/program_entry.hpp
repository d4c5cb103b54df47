// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// program_entry.hpp: starts another program in this process without the kernel's help: the thread pointer and the jump.
// Linux.
//
// Thread pointer  each of the two programs has its own, for thread_local data; code of one must not run with the
//                 other's. Set by an instruction where the kernel allows it (Linux 5.9), otherwise by a system call.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <sys/auxv.h>     // getauxval
#include <sys/syscall.h>  // SYS_arch_prctl

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

#if defined(__x86_64__)

inline constexpr std::uint32_t set_thread_pointer_operation = 0x1002;  // of arch_prctl

class thread_pointer {
 public:
  /// Set once by prepare(), which must run before a filter could forbid the query.
  static bool& by_instruction() noexcept {
    static constinit bool known = false;
    return known;
  }
  static void prepare() noexcept { by_instruction() = (::getauxval(AT_HWCAP2) & 2U) != 0; }
  static std::uintptr_t get() noexcept {
    std::uintptr_t now = 0;
    if (by_instruction()) asm volatile("rdfsbase %0" : "=r"(now));
    else asm volatile("mov %%fs:0, %0" : "=r"(now));  // points to itself
    return now;
  }
  static void set(std::uintptr_t to) noexcept {
    if (by_instruction()) {
      asm volatile("wrfsbase %0" : : "r"(to) : "memory");
      return;
    }
    long result = SYS_arch_prctl;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(std::uintptr_t{set_thread_pointer_operation}), "S"(to)
                 : "rcx", "r11", "memory");
  }
};

/// Starts a program at its first instruction, on a stack filled as the kernel would.
[[noreturn]] inline void enter_program(void* stack, std::uintptr_t entry) noexcept {
  asm volatile(
      "mov %0, %%rsp\n\t"
      "xor %%edx, %%edx\n\t"  // no function to call at exit
      "xor %%ebp, %%ebp\n\t"
      "jmp *%1"
      :
      : "r"(stack), "r"(entry)
      : "memory", "rdx");
  __builtin_unreachable();
}

#elif defined(__aarch64__)

class thread_pointer {
 public:
  static void prepare() noexcept {}
  static std::uintptr_t get() noexcept {
    std::uintptr_t now = 0;
    asm volatile("mrs %0, tpidr_el0" : "=r"(now));
    return now;
  }
  static void set(std::uintptr_t to) noexcept { asm volatile("msr tpidr_el0, %0" : : "r"(to) : "memory"); }
};

[[noreturn]] inline void enter_program(void* stack, std::uintptr_t entry) noexcept {
  asm volatile(
      "mov sp, %0\n\t"
      "mov x0, xzr\n\t"
      "br %1"
      :
      : "r"(stack), "r"(entry)
      : "memory", "x0");
  __builtin_unreachable();
}

#endif

}  // namespace muster::inline MUSTER_ABI::detail
