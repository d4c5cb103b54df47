// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine_stack.hpp: the processor's stack, for frame_deque: how forks are found on it, how their return addresses are
// replaced, and how another thread is stopped.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/base/arch.hpp>                       // shadow_stack
#include <muster/base/stop_signal.hpp>                // stop_signal
#include <muster/fork/engine/barrier/fork_frame.hpp>  // answer_from_fork
#include <muster/fork/engine/barrier/stack_walk.hpp>  // stack_walk

#include <bit>      // std::bit_cast
#include <chrono>   // how long to wait for an answer
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// See replaced_return; and what stop_signal calls. For the calling thread's worker.
inline void* came_to_barrier(replaced_return& at) noexcept;
inline void exception_passes(replaced_return& at) noexcept;
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
    // The table is the library's that has been loaded with this code, not the process's.
    return why != nullptr || slot_map::make()
               ? why
               : "there is no room for the table of return addresses: let the process have 16 MiB "
                 "more of address space (ulimit -v), or use the engine watermark";
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
  /// its own table and its own barrier.
  [[gnu::visibility("hidden")]] static void make_ready() noexcept { slot_map::make(); }
  /// Before replace(), by the same library. Returns false when there is no memory.
  [[gnu::visibility("hidden")]] static bool prepare(frame_record& r) noexcept {
    r.body = &barrier_body;
    r.came = &came_to_barrier;
    r.passed = &exception_passes;
    return slot_map::set(r.slot(), &r);
  }
  /// From now on the fork's first half returns to the barrier.
  [[gnu::visibility("hidden")]] static void replace(frame_record& r) noexcept {
    *std::bit_cast<std::uintptr_t*>(r.slot()) = return_barrier();
  }
  /// For the thief, on its own stack: executes the second half, which it finds in the frame.
  static open_count* run_stolen(fork_record& of) noexcept {
    auto& r = static_cast<frame_record&>(of);
    fork_frame::code(r.return_address)(r, fork_frame::closure(r.slot()));
    return nullptr;
  }

 private:
  static const char* first_obstacle() noexcept {
    if (shadow_stack())
      return "return addresses cannot be replaced, as the process has a shadow stack: start it without one (compile "
             "without -fcf-protection), or use the engine watermark";
    // A function that throws nothing has it only when all have.
    const auto function = std::bit_cast<std::uintptr_t>(&answer_from_fork);
    if (!unwind_information(function).found())
      return "the stack cannot be walked: compile with -fasynchronous-unwind-tables, and do not link with -static";
    return stop_signal::listen(&stopped_by_signal)
               ? nullptr
               : "SIGURG cannot be handled: let the process call sigaction(2), or use the engine watermark";
  }

  known_calls calls_;
};

}  // namespace muster::inline MUSTER_ABI::detail

#endif
