// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A library of one function, loaded by fork_libraries_test.cpp. It differs only in its frame from the library that is
// made of this file with another FRAME_BYTES: 24, or 64 more.

/// Calls `next`.
extern "C" [[gnu::visibility("default")]] void plugin_calls(void (*next)());

#define MUSTER_TEXT_OF(number) #number
#define MUSTER_TEXT(number) MUSTER_TEXT_OF(number)
asm(".text\n\t"
    ".globl plugin_calls\n\t"
    ".type plugin_calls, @function\n\t"
    ".balign 64\n"
    "plugin_calls:\n\t"
    ".cfi_startproc\n\t"
    "subq $" MUSTER_TEXT(FRAME_BYTES) ", %rsp\n\t"
    ".cfi_adjust_cfa_offset " MUSTER_TEXT(FRAME_BYTES) "\n\t"
    "nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\t"
    "callq *%rdi\n\t"
    "addq $" MUSTER_TEXT(FRAME_BYTES) ", %rsp\n\t"
    ".cfi_adjust_cfa_offset -" MUSTER_TEXT(FRAME_BYTES) "\n\t"
    "retq\n\t"
    ".cfi_endproc\n\t"
    ".size plugin_calls, . - plugin_calls");
