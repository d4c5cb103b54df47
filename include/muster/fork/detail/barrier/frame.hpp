// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame.hpp: the frame of a fork, and the barrier: the code that its first half returns to when its return address is
// replaced. Assembly of x86-64, in the System V convention.
//
// Frame      keeps the second half on the stack and calls the first. A stack walk recognizes that call by the code at
//            its return address, and finds the second half beside the return address. When the return address is
//            replaced, the true one takes the second half's place, see unwound_to.
// Cost       without thieves: seven instructions, of which two write.
// Stealing   the first half returns to the barrier, which continues at the frame's other return: `stolen` is the record
//            that the barrier waited for. Otherwise it is null, and the caller executes the second half.
// Unwinding  exceptions, debuggers, backtrace() and profilers continue through the barrier to the function that waits
//            for the return. To them the barrier is a function that was just called: in place of its return address the
//            frame holds an address in its own code (fork_frame::unwound_to). Unwinding for an exception waits here
//            until no other thread needs the frame above.
// Symbols    hidden: each shared library has its own frames, and the linker keeps one of each function. Workers find
//            the frames of all libraries that share worker_slot() with them. Other libraries have their own workers,
//            perhaps on the same thread: two workers must not find the same frame.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI
#include <muster/base/sync.hpp>    // sync::atomic

#include <unwind.h>  // _Unwind_Context

#include <bit>      // std::bit_cast
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t
#include <cstring>  // std::memcmp

/// A function of assembly only. The compiler must not infer which registers it preserves.
#if defined(__clang__)
#define MUSTER_NAKED gnu::naked, gnu::no_stack_protector, gnu::no_instrument_function, gnu::noinline
#else
#define MUSTER_NAKED gnu::naked, gnu::no_stack_protector, gnu::no_instrument_function, gnu::noipa
#endif

/// Compilers infer that a function of assembly only never throws, and omit its callers' handlers. These two prevent
/// that: the first at the beginning of the function, the second among its clobbers.
#if defined(__clang__)
#define MUSTER_SEEMS_TO_CALL
#define MUSTER_MAY_THROW : "unwind"
#else
#define MUSTER_SEEMS_TO_CALL \
  if (false) ::muster::detail::may_throw();
#define MUSTER_MAY_THROW
#endif

/// The names of barrier_hooks in assembly.
#define MUSTER_RETURNED_TO_BARRIER "muster_v0_returned_to_barrier"
#define MUSTER_UNWINDING_PAST_BARRIER "muster_v0_unwinding_past_barrier"
#define MUSTER_REQUESTED_AT_FORK "muster_v0_requested_at_fork"

/// The name of fork_owners in assembly. It is the mangled C++ name, so that linker scripts that export or hide
/// worker_slot() treat it alike.
#define MUSTER_FORK_OWNERS "_ZN6muster10v0_barrier6detail11fork_ownersE"

/// The bytes that identify a frame; each layout has its own.
#define MUSTER_FORK_NAME "muster 0h"

namespace muster::inline MUSTER_ABI::detail {

void may_throw();

class stack_fork;

/// A function or a result, as passed in a register.
using word = std::uint64_t;
/// The second half, for the thief.
using second_code = void (*)(stack_fork&, word) noexcept;

/// The result of a frame: the first half's result, and the record if the second half was stolen. `stolen` is
/// ran_without_pool() if both halves ran in another way: the thread is not a worker, or its forks are pushed and
/// popped.
struct word_and_stolen {
  word first;          // rax
  stack_fork* stolen;  // rdx
};
inline stack_fork* ran_without_pool() noexcept { return std::bit_cast<stack_fork*>(std::uintptr_t{1}); }
inline bool is_without_pool(const stack_fork* stolen) noexcept { return reinterpret_cast<std::uintptr_t>(stolen) == 1; }
struct double_and_stolen {
  double first;        // xmm0
  stack_fork* stolen;  // rax
};

/// The calls from this folder to the workers above it: by the assembly below, by the unwinder, and by the signal
/// handler. join.hpp defines them.
struct barrier_hooks {
  /// The first half of the calling worker's fork whose return address was at `slot` has returned. Waits until the frame
  /// may continue. Returns null, or the record that the frame's other return passes on.
  [[gnu::visibility("hidden"), gnu::used]] static stack_fork* returned_to_barrier(std::uintptr_t slot) noexcept
      asm(MUSTER_RETURNED_TO_BARRIER);
  /// The barrier's personality routine: called while an exception propagates to the frame.
  [[gnu::visibility("hidden"), gnu::used]] static _Unwind_Reason_Code unwinding_past_barrier(
      int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*, _Unwind_Context* barrier) noexcept
      asm(MUSTER_UNWINDING_PAST_BARRIER);
  /// Makes the calling worker publish. Called in a fork of which a thief requests work.
  [[gnu::visibility("hidden"), gnu::used]] static void requested_at_fork() noexcept asm(MUSTER_REQUESTED_AT_FORK);
  /// A signal for the engine `of` has interrupted the calling thread at `context`, a ucontext_t.
  static void interrupted(const void* of, void* context) noexcept;
};

/// Its address identifies the workers that a fork belongs to. Like native::worker_slot(), libraries share it or have
/// their own.
[[gnu::used]] inline constinit char fork_owners asm(MUSTER_FORK_OWNERS) = 0;

// rdi: the argument of the first half; rsi: the second half; rdx: worker_binding::poll_word. When a thief requests
// work, the worker publishes from a frame below, so that it finds this one too. If forks are not found on the stack,
// WITHOUT_POOL executes both halves instead of the frame. %0: second_code; MORE: how the other return passes `stolen`,
// which is in rdx.
#define MUSTER_FORK_FRAME(CALL, JUMP, NOTHING_STOLEN, MORE, WITHOUT_POOL, ...) \
  asm volatile(                                                                \
      "cmpq $-2, (%%rdx)\n\t"                                                  \
      "jae 3f\n\t"                                                             \
      "pushq %%rsi\n\t"                                                        \
      ".cfi_def_cfa_offset 16\n\t"                                             \
      "callq " CALL                                                            \
      "\n"                                                                     \
      "1:\n\t"                                                                 \
      "popq %%rdx\n\t"                                                         \
      ".cfi_def_cfa_offset 8\n\t" NOTHING_STOLEN                               \
      "\n\t"                                                                   \
      "retq\n\t"                                                               \
      ".cfi_def_cfa_offset 16\n\t" /* unwinders look up the byte before 2 */   \
      ".ascii \"" MUSTER_FORK_NAME                                             \
      "\"\n\t"            /* fork_frame::name */                               \
      ".long %c0 - .\n\t" /* at fork_frame::code_at */                         \
      ".long " MUSTER_FORK_OWNERS                                              \
      "@GOTPCREL\n" /* at fork_frame::owners_at */                             \
      "2:\n\t"      /* at fork_frame::other_return */                          \
      "addq $8, %%rsp\n\t"                                                     \
      ".cfi_def_cfa_offset 8\n\t" MORE                                         \
      "retq\n"                                                                 \
      "3:\n\t"                                                                 \
      "je " WITHOUT_POOL                                                       \
      "\n\t"                                                                   \
      "pushq %%rsi\n\t"                                                        \
      ".cfi_def_cfa_offset 16\n\t"                                             \
      "leaq 1b(%%rip), %%rax\n\t"                                              \
      "pushq %%rax\n\t" /* as if it had called what follows */                 \
      ".cfi_def_cfa_offset 8\n\t"                                              \
      "pushq %%rdi\n\t"                                                        \
      ".cfi_def_cfa_offset 16\n\t"                                             \
      "pushq %%rcx\n\t"                                                        \
      ".cfi_def_cfa_offset 24\n\t"                                             \
      "subq $8, %%rsp\n\t"                                                     \
      ".cfi_def_cfa_offset 32\n\t"                                             \
      "callq " MUSTER_REQUESTED_AT_FORK                                        \
      "\n\t"                                                                   \
      "addq $8, %%rsp\n\t"                                                     \
      ".cfi_def_cfa_offset 24\n\t"                                             \
      "popq %%rcx\n\t"                                                         \
      ".cfi_def_cfa_offset 16\n\t"                                             \
      "popq %%rdi\n\t"                                                         \
      ".cfi_def_cfa_offset 8\n\t"                                              \
      "jmp " JUMP "\n\t"                                                       \
      :                                                                        \
      : __VA_ARGS__ MUSTER_MAY_THROW)

/// Calls Code(first), which returns a word.
template <word (*Code)(word), second_code Second, word_and_stolen (*WithoutPool)(word, word, const void*)>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline word_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                 const void* /*poll_word*/) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("%P1", "%P1", "xorl %%edx, %%edx", "", "%P2", "i"(Second), "i"(Code), "i"(WithoutPool));
}
template <double (*Code)(word), second_code Second, double_and_stolen (*WithoutPool)(word, word, const void*)>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline double_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                   const void* /*poll_word*/) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("%P1", "%P1", "xorl %%eax, %%eax", "movq %%rdx, %%rax\n\t", "%P2", "i"(Second), "i"(Code),
                    "i"(WithoutPool));
}
/// Calls code(first), whose result fits into the register of a word.
template <second_code Second, word_and_stolen (*WithoutPool)(word, word, const void*, void (*)())>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline word_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                 const void* /*poll_word*/,
                                                                                 void (* /*code*/)()) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("*%%rcx", "*%%rcx", "xorl %%edx, %%edx", "", "%P1", "i"(Second), "i"(WithoutPool));
}

/// Access to such a frame by its return address, or by the slot on the stack that holds it.
struct fork_frame {
  static constexpr char name[] = MUSTER_FORK_NAME;
  static constexpr std::size_t name_bytes = sizeof name - 1;
  // From the first return:
  static constexpr std::uintptr_t name_at = 4, code_at = 13, owners_at = 17, other_return = 21;
  // From the barrier, unwinders continue here. To them the barrier has popped the word that the frame keeps, so they
  // must find the rules that hold after the frame's first instruction, which pops it. They look up the byte before.
  static constexpr std::uintptr_t unwound_to = 2;

  /// True if a call that returns to `address`, in a function that ends at `end`, is a fork that the caller's workers
  /// may find.
  static bool returns_to(std::uintptr_t address, std::uintptr_t end) noexcept {
    return end - address >= other_return &&
           std::memcmp(std::bit_cast<const char*>(address + name_at), name, name_bytes) == 0 &&
           *std::bit_cast<const char* const*>(beside(address + owners_at)) == &fork_owners;
  }
  /// True if a function that begins there is one of the above.
  static bool begins_at(std::uintptr_t function, std::uintptr_t end) noexcept {
    constexpr std::uintptr_t most =
        256;  // bytes of a frame's code, including padding that compiler options insert in front
    for (std::uintptr_t at = function; end - function < most && at < end; ++at)
      if (returns_to(at, end)) return true;
    return false;
  }
  static second_code code(std::uintptr_t return_address) noexcept {
    return std::bit_cast<second_code>(beside(return_address + code_at));
  }
  static word& closure(std::uintptr_t slot) noexcept { return *std::bit_cast<word*>(slot + sizeof(void*)); }

 private:
  /// The address that a relative number in the code refers to.
  static std::uintptr_t beside(std::uintptr_t number) noexcept {
    std::int32_t distance = 0;
    std::memcpy(&distance, std::bit_cast<const char*>(number), sizeof distance);
    return number + static_cast<std::uintptr_t>(std::int64_t{distance});
  }
};

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

/// Saves the result and calls returned_to_barrier(). Entered by a jump, as if the waiting frame had called it.
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline void barrier_body() {
  MUSTER_SEEMS_TO_CALL
  asm volatile(
      "movq %%rsp, %%rdi\n\t"
      "subq $24, %%rsp\n\t"
      ".cfi_adjust_cfa_offset 24\n\t"
      "movq %%rax, (%%rsp)\n\t"
      "movsd %%xmm0, 8(%%rsp)\n\t"
      "callq " MUSTER_RETURNED_TO_BARRIER
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
  asm volatile(".cfi_personality 0x1b, " MUSTER_UNWINDING_PAST_BARRIER
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
