// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// config.hpp: the porting header. Which build of the seam is compiled, and the two kinds of check.
//
// MUSTER_MODEL, MUSTER_CHAOS, MUSTER_COUNTING and MUSTER_SIMULATION choose what stands behind base/sync.hpp; without
// them it is the C++ standard library.
// Each choice lives in an inline namespace of its own, so that object files of different choices cannot be linked
// together by mistake. No choice and no flag changes the layout of a public type.
#pragma once

#include <cstdio>   // the message of a failed check
#include <cstdlib>  // std::abort

// MUSTER_SANITIZED: somebody else watches stacks and faults.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(hwaddress_sanitizer) || __has_feature(safe_stack)
#define MUSTER_SANITIZED
#endif
#endif
// MUSTER_FORK_BARRIER asks for fork/engine/barrier, which is used where it can be.
#if defined(MUSTER_FORK_BARRIER) && defined(__x86_64__) && defined(__LP64__) && defined(__linux__) &&              \
    !defined(MUSTER_SANITIZED) && !defined(MUSTER_MODEL) && !defined(MUSTER_CHAOS) && !defined(MUSTER_COUNTING) && \
    !defined(MUSTER_SIMULATION)
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define MUSTER_BARRIER
#endif
#endif
#endif

#if defined(MUSTER_MODEL)
#define MUSTER_ABI v0_model
#elif defined(MUSTER_CHAOS)
#define MUSTER_ABI v0_chaos
#elif defined(MUSTER_COUNTING)
#define MUSTER_ABI v0_counting
#elif defined(MUSTER_SIMULATION)
#define MUSTER_ABI v0_simulation
#elif defined(MUSTER_BARRIER)
#define MUSTER_ABI v0_barrier
#else
#define MUSTER_ABI v0
#endif

#if !defined(__cpp_exceptions)
#error "muster reports errors by exceptions: compile without -fno-exceptions"
#endif

namespace muster::inline MUSTER_ABI {

/// Prints the broken promise and what to do about it, and aborts. Never returns.
#if defined(MUSTER_MODEL)
[[noreturn]] void fail_check(const char* what, const char* file, int line);  // the checker's
#else
[[noreturn]] inline void fail_check(const char* what, const char* file, int line) {
  std::fprintf(stderr, "muster: %s (%s:%d)\n", what, file, line);
  std::abort();
}
#endif

#if defined(NDEBUG)
inline constexpr bool debug_checks = false;
#else
inline constexpr bool debug_checks = true;
#endif

}  // namespace muster::inline MUSTER_ABI

// The hot path of an operation is a few instructions, and what it does when it has to wait is many. Compilers that
// weigh the two together stop inlining the hot path in larger programs, so we say which is which. Without optimization
// nothing is inlined: programs are a tenth smaller then, compile in a sixth less time, and can be stepped through.
#if defined(__OPTIMIZE__)
#define MUSTER_HOT [[gnu::always_inline]] inline
#else
#define MUSTER_HOT inline
#endif
#define MUSTER_COLD [[gnu::noinline]]

/// Aborts with `what` unless `condition` holds, in every build. For the check() functions of the structures.
#define MUSTER_CHECK(condition, what) \
  ((condition) ? static_cast<void>(0) : ::muster::fail_check(what, __FILE__, __LINE__))
