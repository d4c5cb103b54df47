// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine_stack.hpp: the processor's stack, for frame_deque: how forks are found on it, how their return addresses are
// replaced, and how another thread is stopped.
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

/// What stop_signal calls, for the calling thread's worker.
inline void stopped_by_signal(const void* of, void* context) noexcept;

class machine_stack {
 public:
  using thread = int;
  /// Where a signal has stopped a thread.
  using point = stack_point;
  /// How many records a thread has at hand, at least.
  static constexpr unsigned records = 16;
  /// How often nobody waits for an answer, when one has waited in vain.
  static constexpr unsigned spared = 32;

  /// Null, or why forks cannot be found in this process.
  static const char* obstacle() noexcept {
    static const char* const why = [] {
      const char* const first = first_obstacle();
      if (first != nullptr) keep_library_of(first);  // others that have this code may say the same
      return first;
    }();
    if (why == nullptr) make_ready();
    return why;
  }

  static thread this_thread() noexcept { return stop_signal::this_thread(); }
  /// For the pool's own threads.
  static void let_stop() noexcept { stop_signal::let_in(); }
  /// Stops a thread where it is; `of` tells it what for.
  static void stop(thread one, void* of) noexcept { stop_signal::send(one, of); }
  /// Returns false when what a stopped thread does is not ready() for long.
  template <class Ready>
  static bool wait(Ready ready) noexcept {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (!ready()) {
      sync::relax();
      if (std::chrono::steady_clock::now() > until) return false;
    }
    return true;
  }

  /// Where the caller is: calls that it makes lie deeper.
  [[gnu::always_inline]] static std::uint64_t depth() noexcept {
    return ~reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  }
  /// Finds the forks below `newest_slot`, that of the newest fork that is known, or, when it is 0, below `entry`; from
  /// where the thread is, or `stopped`, from where a signal has stopped it.
  found_forks::extent find(found_forks& found, std::uintptr_t newest_slot, std::uintptr_t entry,
                           const point* stopped) noexcept {
    stack_walk walk(calls_, found, newest_slot, entry);
    if (stopped != nullptr) return walk.go_from_signal(*stopped);
    stack_point here;
    find_here(here);
    return walk.go(here);
  }

  /// Before the first prepare(), without a lock, as it asks the loader; not in a handler. By the same library: each has
  /// its own barrier, to which frames of others may return, so that it must stay loaded.
  [[gnu::visibility("hidden")]] static void make_ready() noexcept {
    if (barrier_stays.load(std::memory_order_relaxed)) [[likely]]
      return;
    keep_library_of(&barrier_stays);
    barrier_stays.store(true, std::memory_order_relaxed);
  }
  /// Before replace(), by the same library. Returns false when it has not made ready.
  [[gnu::visibility("hidden")]] static bool prepare(frame_record& r) noexcept {
    r.closure() = fork_frame::closure(r.slot());
    return barrier_stays.load(std::memory_order_relaxed);
  }
  /// From now on the fork's first half returns to the barrier.
  [[gnu::visibility("hidden")]] static void replace(frame_record& r) noexcept {
    fork_frame::closure(r.slot()) = r.return_address() + fork_frame::unwound_to;
    // (1) light_fence: alone, for handlers on this thread that unwind its stack: who finds the barrier finds the true
    // return address.
    sync::light_fence();
    *std::bit_cast<std::uintptr_t*>(r.slot()) = return_barrier();
  }
  /// When the first half has returned to the barrier. Not when an exception passes: unwinders still read what is there.
  static void restore(frame_record& r) noexcept { fork_frame::closure(r.slot()) = r.closure(); }
  /// For the thief, on its own stack: executes the second half.
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

  /// So it has unwind information only when all functions have.
  [[gnu::noinline, gnu::visibility("hidden")]] static void throw_nothing() noexcept { asm volatile(""); }

  known_calls calls_;
};

}  // namespace muster::inline MUSTER_ABI::detail

#endif
