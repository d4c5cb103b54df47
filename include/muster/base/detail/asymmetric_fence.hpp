// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// asymmetric_fence.hpp: a fence that one side executes for all (Dice, Huang, Yang, "Asymmetric Dekker Synchronization",
// 2001). The other side needs none: sync::light_fence() orders only the compiler. By membarrier(2) on Linux, and
// FlushProcessWriteBuffers on Windows. Where there is none, asymmetric_fences() returns false, and both sides execute
// read-modify-writes.
#pragma once

#include <muster/base/config.hpp>              // fail_check
#include <muster/base/detail/futex_words.hpp>  // futex_scope
#include <muster/base/detail/os.hpp>           // os::fence_others

#include <atomic>  // std::atomic

namespace muster::inline MUSTER_ABI {

/// Registers this process for heavy_fence() of that scope. A forked child must register again.
inline bool join_heavy_fences(futex_scope scope) noexcept { return os::join_fences(scope); }

/// Returns true if heavy_fence() reaches the other threads of the process, or of all processes that have joined, so
/// that their side needs no fence. False on Linux before 4.14 (between processes 4.16), where a sandbox
/// forbids membarrier(2), and on macOS.
inline bool asymmetric_fences(futex_scope scope = futex_scope::process) noexcept {
  if (scope != futex_scope::process) return join_heavy_fences(scope);
  // Not a static object that is made at first use, which takes milliseconds if there are threads: in a child of fork(2)
  // it could be in the making by a thread that the child does not have. Relaxed: nothing else depends on it, and all
  // threads find the same.
  enum class answer : unsigned char { none, yes, no };
  static constinit std::atomic<answer> known{answer::none};
  answer now = known.load(std::memory_order_relaxed);
  if (now == answer::none) [[unlikely]] {
    now = join_heavy_fences(scope) ? answer::yes : answer::no;
    known.store(now, std::memory_order_relaxed);
  }
  return now == answer::yes;
}

/// On return, every other thread that it reaches has executed a full fence since the call began. Takes microseconds.
/// Requires asymmetric_fences(). Returns false, with no effect, if a filter entered since then forbids membarrier(2).
[[nodiscard]] inline bool try_heavy_fence(futex_scope scope = futex_scope::process) noexcept {
  // A forked child may have lost the registration.
  return os::fence_others(scope) || join_heavy_fences(scope);
}

/// As try_heavy_fence(), but aborts if it fails.
inline void heavy_fence(futex_scope scope = futex_scope::process) noexcept {
  if (!try_heavy_fence(scope))
    fail_check(
        "heavy_fence: membarrier(2) worked before and now fails; allow it in the process's filter of system calls, or "
        "install the filter before the first pool or queue is made",
        __FILE__, __LINE__);
}

}  // namespace muster::inline MUSTER_ABI
