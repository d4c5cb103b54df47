// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// join.hpp: forks with the engine that the program is compiled with. If that is the barrier: a fork that is a call, see
// frame.hpp, and what its worker does when the first half returns to the barrier, when an exception passes it, when a
// thief requests work at a fork, and when a signal interrupts it, see engine.hpp.
#pragma once

#include <muster/base/config.hpp>       // MUSTER_BARRIER
#include <muster/fork/detail/call.hpp>  // fork_on_watermark

#if defined(MUSTER_BARRIER)
#include <muster/base/detail/exception.hpp>      // capture_exception
#include <muster/fork/detail/barrier/frame.hpp>  // call_in_frame

#include <ucontext.h>  // ucontext_t
#include <unwind.h>    // _Unwind_GetCFA

#include <cstdint>      // std::uintptr_t
#include <cstring>      // std::memcpy
#include <exception>    // std::exception_ptr
#include <optional>     // results that do not fit into a register
#include <type_traits>  // std::is_scalar_v
#endif

#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI::detail {

#if defined(MUSTER_BARRIER)

/// The calling worker's fork whose return address was at `slot`.
inline stack_fork& replaced_at(const worker* self, std::uintptr_t slot) noexcept {
  stack_fork* const r = self == nullptr ? nullptr : self->forks.newest();
  MUSTER_CHECK(
      r != nullptr && r->slot() == slot,
      "fork2: a join is out of order: forks must join newest first, on the stack where they began; do not skip their "
      "frames (longjmp), and do not move them to another stack");
  return *r;
}

inline stack_fork* barrier_hooks::returned_to_barrier(std::uintptr_t slot) noexcept {
  worker* const self = worker::current();
  stack_fork& r = replaced_at(self, slot);
  if (!self->forks.take_back_at_barrier(r)) {
    self->await(r);
    return &r;
  }
  self->forks.recycle(r);
  return nullptr;
}

inline void barrier_hooks::requested_at_fork() noexcept { worker::current()->forks.publish_at_fork(); }

/// The frame and those above must stay until the thief, which uses them, is done.
inline void exception_passes(std::uintptr_t slot) noexcept {
  worker* const self = worker::current();
  stack_fork& r = replaced_at(self, slot);
  if (!self->forks.take_back(r)) {
    const selected_engine::end_of_stack here(self->forks, __builtin_frame_address(0));
    self->await(r);
    r.error() = nullptr;  // the first half's exception is thrown instead
    self->forks.end(r);
  }
  self->forks.recycle(r);
}

inline _Unwind_Reason_Code barrier_hooks::unwinding_past_barrier(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                                                 _Unwind_Exception*,
                                                                 _Unwind_Context* barrier) noexcept {
  // The canonical frame address that unwinders report here is that of the frame below: the stack pointer in this one.
  if ((actions & _UA_CLEANUP_PHASE) != 0) exception_passes(_Unwind_GetCFA(barrier) - sizeof(void*));
  return _URC_CONTINUE_UNWIND;
}

inline void barrier_hooks::interrupted(const void* of, void* context) noexcept {
  worker* const self = worker::current();
  if (self == nullptr || &self->forks != of) return;
  const auto in = [&](int name) {
    return static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[name]);
  };
  self->forks.publish_in_handler(
      {{{in(REG_RBP), in(REG_RBX), in(REG_R12), in(REG_R13), in(REG_R14), in(REG_R15)}}, in(REG_RSP), in(REG_RIP)});
}

template <class F>
using branch_result = result_or_nothing<result_of<F>>;

/// True if a function returns a T in one register. Only scalars: a structure may be packed, or hold vectors.
template <class T>
inline constexpr bool is_word = sizeof(T) <= sizeof(word) && (std::is_scalar_v<T> || std::is_same_v<T, std::monostate>);
template <class T>
inline constexpr bool is_real = std::is_same_v<T, float> || std::is_same_v<T, double>;

// NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer.
template <class T>
MUSTER_HOT word to_word(const T& value) noexcept {
  static_assert(sizeof(T) <= sizeof(word));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<word>(value);  // sign-extended: callees may expect it
  } else if constexpr (std::is_enum_v<T>) {
    return to_word(static_cast<std::underlying_type_t<T>>(value));
  } else {
    word bits = 0;
    std::memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
    return bits;
  }
}
template <class T>
MUSTER_HOT T from_word(word bits) noexcept {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}
// NOLINTEND(bugprone-sizeof-expression)

/// Calls a function through one word.
template <class F>
struct call_by_word {
  static constexpr bool fits_in_word = sizeof(captured<F>) <= sizeof(word);
  /// The inverse of closure().
  static captured<F> of(word closure) noexcept {
    if constexpr (fits_in_word) {
      alignas(captured<F>) unsigned char copy[sizeof(captured<F>)];
      std::memcpy(copy, &closure, sizeof copy);
      return *reinterpret_cast<captured<F>*>(copy);
    } else {
      return *from_word<captured<F>*>(closure);
    }
  }
  /// The word for `f`; valid as long as `f` lives.
  MUSTER_HOT static word closure(captured<F>& f) noexcept {
    if constexpr (fits_in_word) {
      return to_word(f);
    } else {
      return to_word(&f);
    }
  }
  [[gnu::visibility("hidden")]] static auto first(word closure) {
    if constexpr (is_real<branch_result<F>>) {
      return double{call(closure)};
    } else {
      return to_word(call(closure));
    }
  }
  /// Called by the thief.
  [[gnu::visibility("hidden")]] static void second(stack_fork& r, word closure) noexcept {
    try {
      if (worker::current() != nullptr) {
        r.result() = to_word(call(closure));
      } else {  // the thread is a worker only in another library that contains this code
        r.result() = to_word(run_outside_pool([&] { return call(closure); }));
      }
    } catch (...) {
      r.error() = capture_exception();
    }
  }

 private:
  MUSTER_HOT static branch_result<F> call(word closure) {
    if constexpr (fits_in_word) {
      captured<F> copy = of(closure);
      return call_branch(*worker::current(), copy.get());
    } else {
      return call_branch(*worker::current(), from_word<captured<F>*>(closure)->get());
    }
  }
};

/// A fork of a thread whose forks cannot be found on the stack.
template <class F, class G>
MUSTER_COLD fork_results<F, G> fork_without_frame(captured<F> f, captured<G> g) {
  worker* const self = worker::current();
  if (self == nullptr) return fork_outside<F, G>(f, g);
  return fork_on_watermark(*self, f.get(), g.get());
}

/// The second half's result, on its way from do_without_pool() to finish_frame().
inline constinit thread_local word second_without_pool = 0;

/// WITHOUT_POOL of the frame: executes both halves here, so that the frame's callers need not keep them across the
/// call.
template <class F, class G>
[[gnu::visibility("hidden")]] MUSTER_COLD auto do_without_pool(word f, word g, const void* /*poll_word*/) {
  auto [first, second] = fork_without_frame<F, G>(call_by_word<F>::of(f), call_by_word<G>::of(g));
  second_without_pool = to_word(second);
  if constexpr (is_real<branch_result<F>>) {
    return double_and_stolen{first, ran_without_pool()};
  } else {
    return word_and_stolen{to_word(first), ran_without_pool()};
  }
}
template <class G>
[[gnu::visibility("hidden")]] MUSTER_COLD word_and_stolen do_call_without_pool(word f, word g,
                                                                               const void* /*poll_word*/,
                                                                               void (*code)()) {
  auto call = [&] { return reinterpret_cast<word (*)(word)>(code)(f); };
  auto [first, second] =
      fork_without_frame<decltype(call)&, G>(captured<decltype(call)&>(call), call_by_word<G>::of(g));
  second_without_pool = to_word(second);
  return {first, ran_without_pool()};
}

/// The result of a second half that a thief has executed.
template <class G>
branch_result<G> join_thief(stack_fork& r) {
  selected_engine& forks = worker::current()->forks;
  const std::exception_ptr thrown = std::exchange(r.error(), nullptr);
  const word result = r.result();
  forks.end(r);
  forks.recycle(r);
  if (thrown != nullptr) std::rethrow_exception(thrown);
  return from_word<branch_result<G>>(result);
}

/// Calls the first half in a frame.
template <class F, class G>
MUSTER_HOT auto call_first_in_frame(captured<F>& f, captured<G>& g) {
  using first_half = call_by_word<F>;
  constexpr second_code second = &call_by_word<G>::second;
  const word later = call_by_word<G>::closure(g);
  const void* const poll_word = native::worker_slot().poll_word;
  if constexpr (requires { f.get().plain_function(); } && !std::is_floating_point_v<branch_result<F>>) {
    const auto code = reinterpret_cast<void (*)()>(f.get().plain_function());
    return call_in_frame<second, &do_call_without_pool<G>>(to_word(f.get().plain_argument()), later, poll_word, code);
  } else {
    return call_in_frame<&first_half::first, second, &do_without_pool<F, G>>(first_half::closure(f), later, poll_word);
  }
}

/// The result of the second half, if the caller of the frame has not executed it.
template <class G>
MUSTER_COLD branch_result<G> finish_frame(stack_fork* stolen) {
  if (is_without_pool(stolen)) return from_word<branch_result<G>>(second_without_pool);
  return join_thief<G>(*stolen);
}

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_in_frame(captured<F> f, captured<G> g) {
  using first_type = branch_result<F>;
  using second_type = branch_result<G>;
  if constexpr (is_word<first_type> && is_word<second_type>) {
    const auto [result, stolen] = call_first_in_frame<F, G>(f, g);
    first_type first{};
    if constexpr (is_real<first_type>) {
      first = static_cast<first_type>(result);
    } else {
      first = from_word<first_type>(result);
    }
    if (stolen != nullptr) [[unlikely]]
      return {first, finish_frame<G>(stolen)};
    return {first, call_branch(*worker::current(), g.get())};
  } else {
    // The results are in the caller's frame.
    std::optional<first_type> first;
    std::optional<second_type> second;
    auto f_into = [&] { first.emplace(call_branch(*worker::current(), f.get())); };
    auto g_into = [&] { second.emplace(call_branch(*worker::current(), g.get())); };
    fork_in_frame<decltype(f_into)&, decltype(g_into)&>(captured<decltype(f_into)&>(f_into),
                                                        captured<decltype(g_into)&>(g_into));
    if (!first || !second) __builtin_unreachable();  // both have been called
    return {std::move(*first), std::move(*second)};
  }
}

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_on(worker&, F&& f, G&& g) {
  return fork_in_frame<F, G>(captured<F>(f), captured<G>(g));
}
template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_of_thread(F&& f, G&& g) {
  return fork_in_frame<F, G>(captured<F>(f), captured<G>(g));
}

#else

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_on(worker& self, F&& f, G&& g) {
  return fork_on_watermark(self, std::forward<F>(f), std::forward<G>(g));
}
template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_of_thread(F&& f, G&& g) {
  worker* const self = worker::current();
  if (self == nullptr) [[unlikely]]
    return fork_outside<F, G>(captured<F>(f), captured<G>(g));
  return fork_on_watermark(*self, std::forward<F>(f), std::forward<G>(g));
}

#endif

}  // namespace muster::inline MUSTER_ABI::detail
