// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// config.hpp: the porting header: selects the build of the seam, and defines the two kinds of check.
//
// MUSTER_MODEL, MUSTER_CHAOS, MUSTER_COUNTING and MUSTER_SIMULATION choose the implementation of base/sync.hpp; the
// default is the C++ standard library. Each choice has its own inline namespace, so that object files of different
// choices cannot be linked by mistake. No choice and no flag changes the layout of a public type.
#pragma once

#if defined(MUSTER_SINGLE)
#error "a header <muster/...> comes after a muster-*.hpp: include either the single files or those"
#endif

#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "muster needs a 64-bit machine: its counters and links are words of 64 bits. Compile for one (not -m32, -mx32)."
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#error "muster needs clang or g++ on Windows: it uses their attributes and built-in functions. Use clang-cl or MinGW."
#endif

// The operating system, chosen here and nowhere else: base/detail/os.hpp includes its side.
#if defined(__linux__)
#define MUSTER_LINUX
#elif defined(_WIN32)
#define MUSTER_WINDOWS
#elif defined(__APPLE__)
#define MUSTER_MACOS
#else
#error "muster needs Linux, Windows or macOS: it sleeps by a call that waits for a word in memory (base/detail/os.hpp)."
#endif

#include <cstdio>   // the message of a failed check
#include <cstdlib>  // std::abort

// MUSTER_SANITIZED: a sanitizer watches stacks and faults.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(hwaddress_sanitizer) || __has_feature(safe_stack)
#define MUSTER_SANITIZED
#endif
#endif
// MUSTER_FORK_BARRIER requests fork/detail/barrier, which is used where it is supported.
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
#elif !defined(__cpp_exceptions)
#define MUSTER_ABI v0_no_exceptions
#else
#define MUSTER_ABI v0
#endif

namespace muster::inline MUSTER_ABI {

/// Prints what is wrong and where, then aborts.
#if defined(MUSTER_MODEL)
[[noreturn]] void fail_check(const char* what, const char* file, int line);  // the checker's
#else
[[noreturn]] inline void fail_check(const char* what, const char* file, int line) {
  std::fprintf(stderr, "muster: %s (%s:%d)\n", what, file, line);
  std::abort();
}
#endif

/// Prints the message of an error that no exception can report, then aborts.
[[noreturn]] inline void end_by_error(const char* what) noexcept {
  std::fprintf(stderr, "muster: %s (this program is compiled without exceptions, so it ends here)\n", what);
  std::abort();
}

#if defined(NDEBUG)
inline constexpr bool debug_checks = false;
#else
inline constexpr bool debug_checks = true;
#endif

}  // namespace muster::inline MUSTER_ABI

// The hot path of an operation is a few instructions; its waiting path is many. Compilers that weigh both together stop
// inlining the hot path in larger programs, so the two are marked. Without optimization nothing is inlined: programs
// are then a tenth smaller, compile in a sixth less time, and can be stepped through.
#if defined(__OPTIMIZE__)
#define MUSTER_HOT [[gnu::always_inline]] inline
#else
#define MUSTER_HOT inline
#endif
#define MUSTER_COLD [[gnu::noinline]]

// The queues may be compiled with -fno-exceptions: an error then ends the program, and no handler is needed. With
// exceptions these are the keywords.
#if defined(__cpp_exceptions)
#define MUSTER_TRY try
#define MUSTER_CATCH_ALL catch (...)
#define MUSTER_RETHROW throw
#define MUSTER_THROW(...) throw __VA_ARGS__
#else
#define MUSTER_TRY if constexpr (true)
#define MUSTER_CATCH_ALL else
#define MUSTER_RETHROW static_cast<void>(0)
#define MUSTER_THROW(...) ::muster::end_by_error((__VA_ARGS__).what())
#endif

/// Aborts with `what` unless `condition` holds, in every build. For the structures' check() functions.
#define MUSTER_CHECK(condition, what) \
  ((condition) ? static_cast<void>(0) : ::muster::fail_check(what, __FILE__, __LINE__))
