// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// return_barrier.hpp: the code that a function returns to when its return address is replaced. x86-64, the System V
// convention.
//
// Unwinding  exceptions, debuggers, backtrace() and profilers continue through the barrier to the function that waits
//            for the return. To them the barrier is a function that was just called: in place of its return address the
//            frame holds an address in its own code (fork_frame::unwound_to). Unwinding for an exception waits here
//            until no other thread needs the frame above.
// Symbols    none are exported: the functions are inline, and the linker keeps one of each.
#pragma once

#include <muster/base/sync.hpp>                       // sync::atomic
#include <muster/fork/engine/barrier/fork_frame.hpp>  // fork_frame

#include <unwind.h>  // _Unwind_Context

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// The values of the callee-saved registers in a function.
struct kept_registers {
  enum name : unsigned { rbp, rbx, r12, r13, r14, r15, many };
  std::uintptr_t of[many];
};

/// A place in a function's execution: after a call, or where a signal has interrupted it.
struct stack_point {
  kept_registers kept;
  std::uintptr_t stack;  // its stack pointer
  std::uintptr_t at;     // in its code
};

/// True if the library that contains this stays loaded.
[[gnu::visibility("hidden")]] inline constinit sync::atomic<bool> barrier_stays{false};

/// The assembly names of the following functions.
#define MUSTER_CAME_TO_BARRIER "muster_v0_came_to_barrier"
#define MUSTER_PASSED_BARRIER "muster_v0_passed_barrier"

/// The first half of the calling worker's fork whose return address was at `slot` has returned. Waits until the frame
/// may continue. Returns null, or the record that the frame's other return passes on.
[[gnu::visibility("hidden"), gnu::used]] inline frame_record* came_to_barrier(std::uintptr_t slot) noexcept
    asm(MUSTER_CAME_TO_BARRIER);
/// The barrier's personality routine: called while an exception propagates to the frame.
[[gnu::visibility("hidden"), gnu::used]] inline _Unwind_Reason_Code passed_barrier(int, _Unwind_Action actions,
                                                                                   _Unwind_Exception_Class,
                                                                                   _Unwind_Exception*,
                                                                                   _Unwind_Context* barrier) noexcept
    asm(MUSTER_PASSED_BARRIER);

/// Saves the result and calls came_to_barrier(). Entered by a jump, as if the waiting frame had called it.
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline void barrier_body() {
  MUSTER_SEEMS_TO_CALL
  asm volatile(
      "movq %%rsp, %%rdi\n\t"
      "subq $24, %%rsp\n\t"
      ".cfi_adjust_cfa_offset 24\n\t"
      "movq %%rax, (%%rsp)\n\t"
      "movsd %%xmm0, 8(%%rsp)\n\t"
      "callq " MUSTER_CAME_TO_BARRIER
      "\n\t"
      "movq %%rax, %%rdx\n\t"
      "movq (%%rsp), %%rax\n\t"
      "movsd 8(%%rsp), %%xmm0\n\t"
      "addq $24, %%rsp\n\t"
      ".cfi_adjust_cfa_offset -24\n\t"
      "testq %%rdx, %%rdx\n\t"
      "je 1f\n\t"
      "addq %0, (%%rsp)\n"  // from the frame's first return to the other
      "1:\n\t"
      "retq\n\t"
      :
      : "i"(fork_frame::other_return)MUSTER_MAY_THROW);
}

/// Returns the barrier's address, which replaces return addresses. The barrier's code follows.
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline std::uintptr_t return_barrier() {
  MUSTER_SEEMS_TO_CALL
  asm volatile(".cfi_personality 0x1b, " MUSTER_PASSED_BARRIER
               "\n\t"
               "leaq 1f(%%rip), %%rax\n\t"
               "retq\n\t"
               "nop\n"  // unwinders look up the byte before a return address
               "1:\n\t"
               "movq (%%rsp), %%r11\n\t"
               "subq %1, %%r11\n\t"
               "pushq %%r11\n\t"  // as if the waiting frame had called
               "jmp %P0\n\t"
               :
               : "i"(&barrier_body), "i"(fork_frame::unwound_to)MUSTER_MAY_THROW);
}

/// Stores the caller's registers and place.
[[MUSTER_NAKED]] inline void find_here(stack_point& /*rdi*/) {
  asm volatile(
      "movq %%rbp, (%%rdi)\n\t"
      "movq %%rbx, 8(%%rdi)\n\t"
      "movq %%r12, 16(%%rdi)\n\t"
      "movq %%r13, 24(%%rdi)\n\t"
      "movq %%r14, 32(%%rdi)\n\t"
      "movq %%r15, 40(%%rdi)\n\t"
      "leaq 8(%%rsp), %%rax\n\t"
      "movq %%rax, 48(%%rdi)\n\t"
      "movq (%%rsp), %%rax\n\t"
      "movq %%rax, 56(%%rdi)\n\t"
      "retq\n\t"
      :
      :);
}

}  // namespace muster::inline MUSTER_ABI::detail
