// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// return_barrier.hpp: where a function returns to when its return address has been replaced. x86-64, the System V
// convention.
//
// Unwinding  goes through the barrier, to the function that is waiting for the return: exceptions, debuggers,
//            backtrace(). (Profilers that copy a part of the stack and unwind it later, such as `perf record
//            --call-graph dwarf`, stop here: the return address lies elsewhere.) The barrier is marked as a signal's
//            frame, and what is found above it is one less than the return address, so that libgcc's unwinder tells a
//            handler in the frame above from one in the frame below: their canonical frame addresses are the same.
//            What unwinds the stack for an exception is stopped here, until no other thread needs the frame above.
// Symbols    none that others see: the functions are inline, and the linker keeps one of each.
#pragma once

#include <muster/fork/engine/barrier/fork_frame.hpp>  // fork_frame
#include <muster/fork/engine/barrier/slot_map.hpp>    // slot_map

#include <unwind.h>  // _Unwind_GetCFA

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// What a function finds in the registers that its callees must keep.
struct kept_registers {
  enum name : unsigned { rbp, rbx, r12, r13, r14, r15, many };
  std::uintptr_t of[many];
};

/// Where a function is, after a call or when a signal has stopped it.
struct stack_point {
  kept_registers kept;
  std::uintptr_t stack;  // its stack pointer
  std::uintptr_t at;     // in its code
};

/// Keeps the result, and calls replaced_return::came, which returns when the waiting frame may go on: null, or what the
/// frame's other return gives. Entered by a jump, as if the waiting frame had called it.
[[MUSTER_NAKED]] inline void barrier_body() {
  MUSTER_SEEMS_TO_CALL
  asm volatile(
      "subq $24, %%rsp\n\t"
      ".cfi_adjust_cfa_offset 24\n\t"
      "movq %%rax, (%%rsp)\n\t"
      "movsd %%xmm0, 8(%%rsp)\n\t"
      "movq %%r10, %%rdi\n\t"
      "callq *24(%%r10)\n\t"
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

/// The name of passed_barrier in assembly.
#define MUSTER_PASSED_BARRIER "muster_v0_passed_barrier"

/// The barrier's personality routine.
[[gnu::visibility("hidden"), gnu::used]] inline _Unwind_Reason_Code passed_barrier(int, _Unwind_Action actions,
                                                                                   _Unwind_Exception_Class,
                                                                                   _Unwind_Exception*,
                                                                                   _Unwind_Context* barrier) noexcept
    asm(MUSTER_PASSED_BARRIER);
inline _Unwind_Reason_Code passed_barrier(int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,
                                          _Unwind_Context* barrier) noexcept {
  if ((actions & _UA_CLEANUP_PHASE) != 0) {
    replaced_return& r = slot_map::find(_Unwind_GetCFA(barrier));
    r.passed(r);
  }
  return _URC_CONTINUE_UNWIND;
}

/// Returns the barrier's address, for return addresses to be replaced by. Its code follows.
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline std::uintptr_t return_barrier() {
  MUSTER_SEEMS_TO_CALL
  // The frame's return address is found thus: the long before the barrier's address leads to slot_map::table; the
  // entry is table[CFA >> 26][(CFA & (2^26 - 1)) / 16].
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "retq\n\t"
      ".cfi_signal_frame\n\t"
      ".cfi_personality 0x1b, " MUSTER_PASSED_BARRIER
      "\n\t"
      ".cfi_def_cfa %%rsp, 0\n\t"
      ".cfi_escape 0x10, 16, 37, "         // DW_CFA_expression: the return address (column 16) lies at
      "0x80, 0, 0x09, 0xc0, 0x1a, "        // breg16, const1s -64, and: the barrier's address, wherever in it we are
      "0x35, 0x1c, "                       // lit5, minus: where the long is
      "0x12, 0x94, 4, "                    // dup, deref_size 4
      "0x08, 32, 0x24, 0x08, 32, 0x26, "   // its sign: shl 32, shra 32
      "0x22, 0x06, "                       // plus, deref: the table
      "0x14, 0x08, 26, 0x25, "             // over (the CFA), shr 26
      "0x38, 0x1e, 0x22, 0x06, "           // times 8, plus, deref: the chunk
      "0x14, 0x0c, 0xff, 0xff, 0xff, 3, "  // over (the CFA), const4u
      "0x1a, 0x31, 0x25, "                 // and, shr 1
      "0x22, 0x06\n\t"                     // plus, deref: the entry
      ".balign 64\n\t"
      ".skip 59\n\t"
      ".long " MUSTER_SLOT_TABLE
      " - .\n\t"
      "nop\n"  // unwinders look up the byte before a return address
      "1:\n\t"
      "movq " MUSTER_SLOT_TABLE
      "(%%rip), %%r11\n\t"
      "movq %%rsp, %%r10\n\t"
      "shrq $26, %%r10\n\t"
      "movq (%%r11,%%r10,8), %%r11\n\t"
      "movq %%rsp, %%r10\n\t"
      "andl $0x3ffffff, %%r10d\n\t"
      "shrq $1, %%r10\n\t"
      "movq (%%r11,%%r10), %%r10\n\t"
      "pushq 8(%%r10)\n\t"
      ".cfi_def_cfa_offset 8\n\t"
      ".cfi_offset 16, -8\n\t"
      "jmpq *16(%%r10)\n\t"
      :
      : MUSTER_MAY_THROW);
}

/// Where the caller is.
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
