// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_frame.hpp: the frame of a fork. It keeps the second half on the stack and calls the first. A stack walk
// recognizes that call by the code at its return address, and finds the second half beside the return address. When the
// return address is replaced, the true one takes the second half's place, see unwound_to. x86-64, the System V
// convention.
//
// Cost       without thieves: seven instructions, of which two write.
// Stealing   the first half returns to the barrier, which continues at the frame's other return: `stolen` is the record
//            that the barrier waited for. Otherwise it is null, and the caller executes the second half.
// Symbols    hidden: each shared library has its own frames. Workers find those of all libraries that share
//            own_place() with them. Other libraries have their own workers, perhaps on the same thread: two workers
//            must not find the same frame.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <bit>      // std::bit_cast
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

/// The names of answer_from_fork and fork_owners in assembly. The second is the mangled C++ name, so that linker
/// scripts that export or hide own_place() treat it alike.
#define MUSTER_ANSWER_FROM_FORK "muster_v0_answer_from_fork"
#define MUSTER_FORK_OWNERS "_ZN6muster10v0_barrier6detail11fork_ownersE"

/// The bytes that identify a frame; each layout has its own.
#define MUSTER_FORK_NAME "muster 0h"

namespace muster::inline MUSTER_ABI::detail {

void may_throw();

class frame_record;

/// A function or a result, as passed in a register.
using word = std::uint64_t;
/// The second half, for the thief.
using second_code = void (*)(frame_record&, word) noexcept;

/// The result of a frame: the first half's result, and the record if the second half was stolen. `stolen` is
/// for_nobody() if both halves ran in another way: the thread is not a worker, or its forks are pushed and popped.
struct word_and_stolen {
  word first;            // rax
  frame_record* stolen;  // rdx
};
inline frame_record* for_nobody() noexcept { return std::bit_cast<frame_record*>(std::uintptr_t{1}); }
inline bool is_for_nobody(const frame_record* stolen) noexcept { return reinterpret_cast<std::uintptr_t>(stolen) == 1; }
struct double_and_stolen {
  double first;          // xmm0
  frame_record* stolen;  // rax
};

/// Makes the calling worker answer. Called in a fork that is asked.
[[gnu::visibility("hidden"), gnu::used]] inline void answer_from_fork() noexcept asm(MUSTER_ANSWER_FROM_FORK);

/// Its address identifies the workers that a fork belongs to. Like real::own_place(), libraries share it or have their
/// own.
[[gnu::used]] inline constinit char fork_owners asm(MUSTER_FORK_OWNERS) = 0;

// rdi: the argument of the first half; rsi: the second half; rdx: pool_place::mark. When the worker is asked, it
// answers from a frame below, so that it finds this one too. If forks are not found on the stack, NOBODY executes both
// halves instead of the frame. %0: second_code; MORE: how the other return passes `stolen`, which is in rdx.
#define MUSTER_FORK_FRAME(CALL, JUMP, NOTHING_STOLEN, MORE, NOBODY, ...)     \
  asm volatile(                                                              \
      "cmpq $-2, (%%rdx)\n\t"                                                \
      "jae 3f\n\t"                                                           \
      "pushq %%rsi\n\t"                                                      \
      ".cfi_def_cfa_offset 16\n\t"                                           \
      "callq " CALL                                                          \
      "\n"                                                                   \
      "1:\n\t"                                                               \
      "popq %%rdx\n\t"                                                       \
      ".cfi_def_cfa_offset 8\n\t" NOTHING_STOLEN                             \
      "\n\t"                                                                 \
      "retq\n\t"                                                             \
      ".cfi_def_cfa_offset 16\n\t" /* unwinders look up the byte before 2 */ \
      ".ascii \"" MUSTER_FORK_NAME                                           \
      "\"\n\t"            /* fork_frame::name */                             \
      ".long %c0 - .\n\t" /* at fork_frame::code_at */                       \
      ".long " MUSTER_FORK_OWNERS                                            \
      "@GOTPCREL\n" /* at fork_frame::owners_at */                           \
      "2:\n\t"      /* at fork_frame::other_return */                        \
      "addq $8, %%rsp\n\t"                                                   \
      ".cfi_def_cfa_offset 8\n\t" MORE                                       \
      "retq\n"                                                               \
      "3:\n\t"                                                               \
      "je " NOBODY                                                           \
      "\n\t"                                                                 \
      "pushq %%rsi\n\t"                                                      \
      ".cfi_def_cfa_offset 16\n\t"                                           \
      "leaq 1b(%%rip), %%rax\n\t"                                            \
      "pushq %%rax\n\t" /* as if it had called what follows */               \
      ".cfi_def_cfa_offset 8\n\t"                                            \
      "pushq %%rdi\n\t"                                                      \
      ".cfi_def_cfa_offset 16\n\t"                                           \
      "pushq %%rcx\n\t"                                                      \
      ".cfi_def_cfa_offset 24\n\t"                                           \
      "subq $8, %%rsp\n\t"                                                   \
      ".cfi_def_cfa_offset 32\n\t"                                           \
      "callq " MUSTER_ANSWER_FROM_FORK                                       \
      "\n\t"                                                                 \
      "addq $8, %%rsp\n\t"                                                   \
      ".cfi_def_cfa_offset 24\n\t"                                           \
      "popq %%rcx\n\t"                                                       \
      ".cfi_def_cfa_offset 16\n\t"                                           \
      "popq %%rdi\n\t"                                                       \
      ".cfi_def_cfa_offset 8\n\t"                                            \
      "jmp " JUMP "\n\t"                                                     \
      :                                                                      \
      : __VA_ARGS__ MUSTER_MAY_THROW)

/// Calls Code(first), which returns a word.
template <word (*Code)(word), second_code Second, word_and_stolen (*Nobody)(word, word, const void*)>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline word_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                 const void* /*mark*/) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("%P1", "%P1", "xorl %%edx, %%edx", "", "%P2", "i"(Second), "i"(Code), "i"(Nobody));
}
template <double (*Code)(word), second_code Second, double_and_stolen (*Nobody)(word, word, const void*)>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline double_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                   const void* /*mark*/) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("%P1", "%P1", "xorl %%eax, %%eax", "movq %%rdx, %%rax\n\t", "%P2", "i"(Second), "i"(Code),
                    "i"(Nobody));
}
/// Calls code(first), whose result fits into the register of a word.
template <second_code Second, word_and_stolen (*Nobody)(word, word, const void*, void (*)())>
[[MUSTER_NAKED, gnu::visibility("hidden")]] inline word_and_stolen call_in_frame(word /*first*/, word /*second*/,
                                                                                 const void* /*mark*/,
                                                                                 void (* /*code*/)()) {
  MUSTER_SEEMS_TO_CALL
  MUSTER_FORK_FRAME("*%%rcx", "*%%rcx", "xorl %%edx, %%edx", "", "%P1", "i"(Second), "i"(Nobody));
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

}  // namespace muster::inline MUSTER_ABI::detail
