// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// context.hpp: the switch from one stack to another.
//
// x86-64     Inline code that declares all registers as overwritten. So the compiler saves only the registers that are
//            live at the switch; a function that saves the six callee-saved registers costs more. (Context-aware
//            switching: libfringe; Photon.)
// AArch64    The same.
// elsewhere  and with MUSTER_BOOST_CONTEXT: Boost.Context, which the program must link.
// Not saved  the floating-point control words (MXCSR, x87, FPCR): rounding modes and masks belong to the thread. A
//            fiber that changes them must restore them before it yields.
// Shadow stacks (Intel CET, AArch64's GCS, where the C library turns them on) are not switched; shadow_stack() returns
//            true if the thread has one. Nor are the second stacks of -fsanitize=safe-stack and shadow-call-stack.
#pragma once

#include <muster/base/arch.hpp>  // shadow_stack

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t

#if !defined(MUSTER_BOOST_CONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define MUSTER_BOOST_CONTEXT 1
#endif
#if defined(MUSTER_BOOST_CONTEXT)
#include <boost/context/detail/fcontext.hpp>
#endif

namespace muster::inline MUSTER_ABI::detail {

inline constexpr const char* shadow_stack_advice =
#if defined(__aarch64__)
    "fiber: cannot run under a guarded control stack; start the program with GLIBC_TUNABLES=glibc.cpu.aarch64_gcs=0, "
    "or "
    "link it without -mbranch-protection=gcs";
#else
    "fiber: cannot run under a shadow stack (Intel CET); start the program with "
    "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or link it without -fcf-protection";
#endif

/// True if each thread has a second stack that only the compiler knows.
inline constexpr bool has_hidden_stack =
#if !defined(__has_feature)
    false;
#elif __has_feature(safe_stack) || __has_feature(shadow_call_stack)
    true;
#else
        false;
#endif

#if defined(MUSTER_BOOST_CONTEXT)

inline constexpr bool switches_by_itself = false;

/// The place where a suspended fiber continues.
using saved_context = void*;

inline constinit thread_local saved_context* left_context = nullptr;  // receives the context that is being left

template <void (*Body)()>
saved_context new_context(void* top, std::size_t size) {
  struct start {
    static void here(boost::context::detail::transfer_t from) {
      *left_context = from.fctx;
      Body();
    }
  };
  return boost::context::detail::make_fcontext(top, size, &start::here);
}

inline void switch_context(saved_context& from, const saved_context& to) noexcept {
  left_context = &from;
  const auto back = boost::context::detail::jump_fcontext(to, nullptr);
  *left_context = back.fctx;
}

#else

inline constexpr bool switches_by_itself = true;

/// The place where a suspended fiber continues. It has the registers that inline code cannot declare as overwritten:
/// base and frame pointer.
struct saved_context {
  void* stack = nullptr;
  void* base = nullptr;   // rbx, x19
  void* frame = nullptr;  // rbp, x29
  void* go_on = nullptr;
};

/// The highest address at or below `top` where a frame may begin.
inline void** aligned(void* top) noexcept {
  char* const at = static_cast<char*>(top);
  return reinterpret_cast<void**>(at - reinterpret_cast<std::uintptr_t>(at) % 16);
}

#if defined(__x86_64__)

template <void (*Body)()>
saved_context new_context(void* top, std::size_t) {
  void** stack = aligned(top);
  *--stack = nullptr;  // the return address of Body, where debuggers stop
  return {.stack = static_cast<void*>(stack), .go_on = reinterpret_cast<void*>(Body)};
}

[[gnu::always_inline]] inline void switch_context(saved_context& from, const saved_context& to) noexcept {
  // A jump, not a return: the processor predicts returns from the calls it has seen, and these belong to another stack.
  // Nothing is pushed, so data that the compiler keeps below the stack pointer (the red zone) stays intact.
  saved_context* left = &from;
  const saved_context* entered = &to;
  asm volatile(
      "movq %%rsp, (%[left])\n\t"
      "movq %%rbx, 8(%[left])\n\t"
      "movq %%rbp, 16(%[left])\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rax, 24(%[left])\n\t"
      "movq (%[entered]), %%rsp\n\t"
      "movq 8(%[entered]), %%rbx\n\t"
      "movq 16(%[entered]), %%rbp\n\t"
      "jmpq *24(%[entered])\n\t"
      "1:\n\t"
      "endbr64\n\t"
      : [left] "+D"(left), [entered] "+S"(entered)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory", "st", "st(1)",
        "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7",
        "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15"
#if defined(__AVX512F__)
        ,
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
#if defined(__APX_F__)
        ,
        "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31"
#endif
  );
}

#elif defined(__aarch64__)

template <void (*Body)()>
saved_context new_context(void* top, std::size_t) {
  return {.stack = static_cast<void*>(aligned(top)), .go_on = reinterpret_cast<void*>(Body)};
}

[[gnu::always_inline]] inline void switch_context(saved_context& from, const saved_context& to) noexcept {
  register saved_context* left asm("x0") = &from;
  register const saved_context* entered asm("x1") = &to;
  asm volatile(
      "mov x17, sp\n\t"
      "adr x16, 1f\n\t"
      "stp x17, x19, [x0]\n\t"
      "stp x29, x16, [x0, #16]\n\t"
      "ldp x17, x19, [x1]\n\t"
      "ldp x29, x16, [x1, #16]\n\t"
      "mov sp, x17\n\t"
      "mov x30, xzr\n\t"  // where debuggers stop, for a body that has just begun
      "br x16\n\t"
      "1:\n\t"
      "hint #36\n\t"  // bti j
      : "+r"(left), "+r"(entered)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
        "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "cc", "memory",
#if defined(__ARM_FEATURE_SVE)
        "z0", "z1", "z2", "z3", "z4", "z5", "z6", "z7", "z8", "z9", "z10", "z11", "z12", "z13", "z14", "z15", "z16",
        "z17", "z18", "z19", "z20", "z21", "z22", "z23", "z24", "z25", "z26", "z27", "z28", "z29", "z30", "z31", "p0",
        "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"
#if !defined(__clang__)
        ,
        "ffr"  // clang++ has no name for it, and keeps nothing in it
#endif
#else
        "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"
#endif
  );
}

#endif
#endif

}  // namespace muster::inline MUSTER_ABI::detail
