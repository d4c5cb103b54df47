// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine_stack.hpp: the processor's stack, for frame_deque: finds forks on it, replaces their return addresses, and
// interrupts another thread.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/base/arch.hpp>                       // shadow_stack
#include <muster/base/library.hpp>                    // keep_library_of
#include <muster/base/stop_signal.hpp>                // stop_signal
#include <muster/base/sync.hpp>                       // sync::light_fence
#include <muster/fork/engine/barrier/fork_frame.hpp>  // answer_from_fork
#include <muster/fork/engine/barrier/stack_walk.hpp>  // stack_walk

#include <bit>      // std::bit_cast
#include <chrono>   // how long to wait for an answer
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// The handler that stop_signal calls, for the calling thread's worker.
inline void stopped_by_signal(const void* of, void* context) noexcept;

class machine_stack {
 public:
  using thread = int;
  /// The place where a signal has interrupted a thread.
  using point = stack_point;
  /// The minimum number of unused records of a thread.
  static constexpr unsigned records = 16;
  /// After a thief has waited without success, this many later requests are skipped.
  static constexpr unsigned spared = 32;

  /// Returns null, or the reason why forks cannot be found in this process.
  static const char* obstacle() noexcept {
    static const char* const why = [] {
      const char* const first = first_obstacle();
      if (first != nullptr) keep_library_of(first);  // other libraries with this code may return the same text
      return first;
    }();
    if (why == nullptr) make_ready();
    return why;
  }

  static thread this_thread() noexcept { return stop_signal::this_thread(); }
  /// For the pool's own threads.
  static void let_stop() noexcept { stop_signal::let_in(); }
  /// Interrupts a thread; `of` is passed to the handler.
  static void stop(thread one, void* of) noexcept { stop_signal::send(one, of); }
  /// Waits until ready(). Returns false if that takes too long.
  template <class Ready>
  static bool wait(Ready ready) noexcept {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (!ready()) {
      sync::relax();
      if (std::chrono::steady_clock::now() > until) return false;
    }
    return true;
  }

  /// The caller's depth on the stack; its callees are deeper.
  [[gnu::always_inline]] static std::uint64_t depth() noexcept {
    return ~reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  }
  /// Finds the forks below `newest_slot`, the slot of the newest known fork, or below `entry` if that is 0. Walks from
  /// the caller, or from `stopped`, where a signal has interrupted the thread.
  found_forks::extent find(found_forks& found, std::uintptr_t newest_slot, std::uintptr_t entry,
                           const point* stopped) noexcept {
    stack_walk walk(calls_, found, newest_slot, entry);
    if (stopped != nullptr) return walk.go_from_signal(*stopped);
    stack_point here;
    find_here(here);
    return walk.go(here);
  }

  /// Call it before the first prepare(), without a lock because it asks the loader, and not in a handler. The same
  /// library must call both: each has its own barrier, which must stay loaded because frames of others may return to
  /// it.
  [[gnu::visibility("hidden")]] static void make_ready() noexcept {
    if (barrier_stays.load(std::memory_order_relaxed)) [[likely]]
      return;
    keep_library_of(&barrier_stays);
    barrier_stays.store(true, std::memory_order_relaxed);
  }
  /// Call it before replace(), in the same library. Returns false if that has not called make_ready().
  [[gnu::visibility("hidden")]] static bool prepare(frame_record& r) noexcept {
    r.closure() = fork_frame::closure(r.slot());
    return barrier_stays.load(std::memory_order_relaxed);
  }
  /// From now on the fork's first half returns to the barrier.
  [[gnu::visibility("hidden")]] static void replace(frame_record& r) noexcept {
    fork_frame::closure(r.slot()) = r.return_address() + fork_frame::unwound_to;
    // (1) light_fence: alone, for handlers on this thread that unwind its stack: one that finds the barrier finds the
    // true return address.
    sync::light_fence();
    *std::bit_cast<std::uintptr_t*>(r.slot()) = return_barrier();
  }
  /// Call it when the first half has returned to the barrier, but not when an exception passes: unwinders still read
  /// the replaced word.
  static void restore(frame_record& r) noexcept { fork_frame::closure(r.slot()) = r.closure(); }
  /// Called by the thief, on its own stack: executes the second half.
  static open_count* run_stolen(fork_record& of) noexcept {
    auto& r = static_cast<frame_record&>(of);
    fork_frame::code(r.return_address())(r, r.closure());
    return nullptr;
  }

 private:
  static const char* first_obstacle() noexcept {
    if (shadow_stack())
      return "return addresses cannot be replaced, as the process has a shadow stack: start it without one (compile "
             "without -fcf-protection), or use the engine watermark";
    if (!unwind_information(std::bit_cast<std::uintptr_t>(&throw_nothing)).found())
      return "the stack cannot be walked: compile with -fasynchronous-unwind-tables, and do not link with -static";
    return stop_signal::listen(&stopped_by_signal)
               ? nullptr
               : "SIGURG cannot be handled: let the process call sigaction(2), or use the engine watermark";
  }

  /// A function that has unwind information only if all functions have.
  [[gnu::noinline, gnu::visibility("hidden")]] static void throw_nothing() noexcept { asm volatile(""); }

  known_calls calls_;
};

}  // namespace muster::inline MUSTER_ABI::detail

#endif
