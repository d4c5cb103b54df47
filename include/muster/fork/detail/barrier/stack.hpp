// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack.hpp: the processor's stack, for engine.hpp: finds the forks on the calling thread's stack that no other thread
// has seen, replaces their return addresses, and interrupts another thread.
//
// Where     from the caller to the newest frame whose return address is replaced, or, if there is none, to the frame in
//           which the thread entered the pool. A walk that leads elsewhere finds no forks: forks on a stack that the
//           program switched to run serially.
// Cost      some nanoseconds per frame. The compiler's tables are read once per call and cached by its return address
//           and its function's code.
// Signals   may be used in signal handlers, as unwind.hpp.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/base/arch.hpp>                     // shadow_stack
#include <muster/base/detail/interrupt_signal.hpp>  // interrupt_signal
#include <muster/base/detail/shared_object.hpp>     // pin_shared_object
#include <muster/base/detail/time.hpp>              // how long to wait for an answer
#include <muster/base/sync.hpp>                     // sync::light_fence
#include <muster/fork/detail/barrier/frame.hpp>     // fork_frame, stack_point
#include <muster/fork/detail/barrier/records.hpp>   // found_forks
#include <muster/fork/detail/barrier/unwind.hpp>    // frame_rule, unwind_information

#include <algorithm>  // std::min
#include <array>      // the known rules
#include <bit>        // std::bit_cast
#include <cstddef>    // std::size_t
#include <cstdint>    // std::uintptr_t
#include <cstring>    // std::memcpy

namespace muster::inline MUSTER_ABI::detail {

/// True if a function whose rule has been read unwinds the stack: an unwinder function that this library would call
/// (read from the GOT, since its address may be that of the program's PLT entry), or another that leads to handlers,
/// such as that of a second unwinder in the program.
inline bool unwinds_stack(const unwind_information& of) noexcept {
  std::uintptr_t raise = 0, resume = 0, force = 0, again = 0;
  asm("movq _Unwind_RaiseException@GOTPCREL(%%rip), %0\n\t"
      "movq _Unwind_Resume@GOTPCREL(%%rip), %1\n\t"
      "movq _Unwind_ForcedUnwind@GOTPCREL(%%rip), %2\n\t"
      "movq _Unwind_Resume_or_Rethrow@GOTPCREL(%%rip), %3"
      : "=r"(raise), "=r"(resume), "=r"(force), "=r"(again));
  const std::uintptr_t function = of.function();
  return of.leads_to_handlers() || function == raise || function == resume || function == force || function == again;
}

/// The cached facts about a call, by its return address. The code is compared too: another library may have been loaded
/// there since.
struct known_call {
  using words = std::array<std::uint64_t, 4>;
  std::uintptr_t return_address = 0;
  std::uintptr_t function = 0;  // where it begins
  words code{};                 // the code that makes its frame, and the call
  frame_rule rule;
  bool fork = false;
  bool unwinds = false;  // the function unwinds the stack: frames above it may have been left already
};

/// A cache of the calls seen last.
class known_calls {
 public:
  const known_call& of(std::uintptr_t return_address) noexcept {
    auto& [first, second] = all_[(return_address * 0x9e3779b97f4a7c15ULL) >> (64U - bits)];
    if (is(first, return_address)) [[likely]]
      return first;
    if (is(second, return_address)) return second;
    second = first;
    find(first, return_address);
    return first;
  }

 private:
  static constexpr unsigned bits = 7;
  /// The function's first three words, and the last one before the return address; all of them, if it is short.
  static known_call::words code_of(std::uintptr_t function, std::uintptr_t return_address) noexcept {
    constexpr std::uintptr_t bytes = sizeof(std::uint64_t);
    const std::uintptr_t last = return_address - bytes;
    const auto code_at = [](std::uintptr_t at) {
      std::uint64_t code;
      std::memcpy(&code, std::bit_cast<const void*>(at), sizeof code);
      return code;
    };
    return {code_at(std::min(function, last)), code_at(std::min(function + bytes, last)),
            code_at(std::min(function + 2 * bytes, last)), code_at(last)};
  }
  /// True if there still is code where the function began, given that there is at the return address.
  static bool has_code(std::uintptr_t function, std::uintptr_t return_address) noexcept {
    constexpr unsigned page_bits = 12;
    return (function ^ return_address) >> page_bits == 0 || unwind_entry::in_one_library(function, return_address);
  }
  static bool is(const known_call& one, std::uintptr_t return_address) noexcept {
    // Only known calls certainly have code: a stack made by the program may end with any address.
    if (!one.rule.known || one.return_address != return_address || !has_code(one.function, return_address))
      return false;
    const known_call::words now = code_of(one.function, return_address);
    std::uint64_t other = 0;
    for (unsigned i = 0; i < now.size(); ++i) other |= now[i] ^ one.code[i];
    return other == 0;
  }
  MUSTER_COLD static void find(known_call& one, std::uintptr_t return_address) noexcept {
    one = {};
    unwind_information function(return_address - 1);
    if (!function.found()) return;
    one.return_address = return_address;
    one.function = function.function();
    one.code = code_of(one.function, return_address);
    one.rule = function.rule();
    one.unwinds = unwinds_stack(function);
    one.fork = fork_frame::returns_to(return_address, function.end());
  }

  std::array<std::array<known_call, 2>, std::size_t{1} << bits> all_{};
};

/// One walk. The records that it takes from `stock` are linked, newest first.
class stack_walk {
 public:
  using extent = found_forks::extent;

  /// `newest_slot`: the slot of the newest known fork, or 0 if there is none. `entry`: an address in the frame in which
  /// the thread entered the pool.
  stack_walk(known_calls& calls, found_forks& found, std::uintptr_t newest_slot, std::uintptr_t entry) noexcept
      : calls_(calls), found_(found), newest_slot_(newest_slot), entry_(entry) {}

  /// Walks from a call.
  extent go(stack_point p) noexcept {
    if (newest_slot_ == 0 && p.stack >= entry_) return extent::unusable;
    for (;;) {
      const std::uintptr_t slot = p.stack - sizeof(void*);
      // All forks above the newest known one are known. While its return is handled, its slot holds the true address.
      if (newest_slot_ != 0 && slot >= newest_slot_) return slot == newest_slot_ ? extent::all : extent::unusable;
      if (p.stack >= entry_) return extent::all;
      const known_call& call = calls_.of(p.at);
      if (!call.rule.known || call.unwinds) return extent::unusable;
      if (call.fork) found_.add(slot, p.at);
      if (!call.rule.apply(p)) return extent::unusable;
    }
  }
  /// Walks from where a signal has interrupted the thread.
  extent go_from_signal(stack_point p) noexcept {
    unwind_information function(p.at);
    if (!function.found()) return extent::unusable;
    const frame_rule rule = function.rule();
    if (!rule.known || unwinds_stack(function)) return extent::unusable;
    // It may have checked for a request but not called its first half yet.
    const bool may_fork = fork_frame::begins_at(function.function(), function.end());
    if (newest_slot_ == 0 && p.stack > entry_) return extent::unusable;
    if (!rule.apply(p)) return extent::unusable;
    // Its own frame contains the entry, or is the next one below: the walk is complete, with no frame between.
    if (newest_slot_ == 0 && p.stack >= entry_) return may_fork ? extent::some : extent::all;
    const extent above = go(p);
    return above == extent::all && may_fork ? extent::some : above;
  }

 private:
  known_calls& calls_;
  found_forks& found_;
  const std::uintptr_t newest_slot_;
  const std::uintptr_t entry_;
};

/// The processor's stack: finds forks on it, replaces their return addresses, and interrupts another thread.
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
  static const char* unavailable_reason() noexcept {
    static const char* const why = [] {
      const char* const first = find_unavailable_reason();
      if (first != nullptr) pin_shared_object(first);  // other libraries with this code may return the same text
      return first;
    }();
    if (why == nullptr) make_ready();
    return why;
  }

  static thread this_thread() noexcept { return interrupt_signal::this_thread(); }
  /// For the pool's own threads.
  static void let_stop() noexcept { interrupt_signal::unblock(); }
  /// Interrupts a thread; `of` is passed to the handler.
  static void stop(thread one, void* of) noexcept { interrupt_signal::send(one, of); }
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
    pin_shared_object(&barrier_stays);
    barrier_stays.store(true, std::memory_order_relaxed);
  }
  /// Call it before replace(), in the same library. Returns false if that has not called make_ready().
  [[gnu::visibility("hidden")]] static bool prepare(stack_fork& r) noexcept {
    r.closure() = fork_frame::closure(r.slot());
    return barrier_stays.load(std::memory_order_relaxed);
  }
  /// From now on the fork's first half returns to the barrier.
  [[gnu::visibility("hidden")]] static void replace(stack_fork& r) noexcept {
    fork_frame::closure(r.slot()) = r.return_address() + fork_frame::unwound_to;
    // (1) light_fence: alone, for handlers on this thread that unwind its stack: one that finds the barrier finds the
    // true return address.
    sync::light_fence();
    *std::bit_cast<std::uintptr_t*>(r.slot()) = return_barrier();
  }
  /// Call it when the first half has returned to the barrier, but not when an exception passes: unwinders still read
  /// the replaced word.
  static void restore(stack_fork& r) noexcept { fork_frame::closure(r.slot()) = r.closure(); }
  /// Called by the thief, on its own stack: executes the second half.
  static completion_count* run_stolen(task& of) noexcept {
    auto& r = static_cast<stack_fork&>(of);
    fork_frame::code(r.return_address())(r, r.closure());
    return nullptr;
  }

 private:
  static const char* find_unavailable_reason() noexcept {
    if (shadow_stack())
      return "return addresses cannot be replaced, as the process has a shadow stack: start it without one (compile "
             "without -fcf-protection), or use the engine watermark";
    if (!unwind_information(std::bit_cast<std::uintptr_t>(&throw_nothing)).found())
      return "the stack cannot be walked: compile with -fasynchronous-unwind-tables, and do not link with -static";
    return interrupt_signal::install_handler(&barrier_hooks::interrupted)
               ? nullptr
               : "SIGURG cannot be handled: let the process call sigaction(2), or use the engine watermark";
  }

  /// A function that has unwind information only if all functions have.
  [[gnu::noinline, gnu::visibility("hidden")]] static void throw_nothing() noexcept { asm volatile(""); }

  known_calls calls_;
};

}  // namespace muster::inline MUSTER_ABI::detail

#endif
