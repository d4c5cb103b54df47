// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_fork.hpp: a fork that writes nothing: a call in a try block, whose handler is its mark. See frame_deque.hpp.
//
// The fork is in a function of our own, which is small: so its frame is one that thieves may enter, whatever the
// caller's is like. What the compiler may assume in a handler holds for who enters it, by the C++ ABI. All that is
// used after the call is used after the handler too, so the two share no place on the stack that one could overwrite.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/fork/impl/calls.hpp>  // borrowed, call_half

#include <exception>    // std::exception_ptr
#include <optional>     // what is over-aligned
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::move

#if defined(__clang__)
#define MUSTER_OPAQUE [[gnu::noinline]]
/// Its address, of which the compiler forgets whose it is.
#define MUSTER_HIDDEN(...) ::muster::detail::hidden(&__VA_ARGS__)
#else
#define MUSTER_OPAQUE [[gnu::noipa]]
#define MUSTER_HIDDEN(...) __VA_ARGS__
#endif

namespace muster::inline MUSTER_ABI::detail {

template <class F>
MUSTER_HOT F* hidden(F* function) noexcept {
  asm volatile("" : "+r"(function));
  return function;
}

/// Whether a function returns an R in the registers that the barrier keeps. Structures may be packed, or be of vectors:
/// then they are not, whatever their size.
template <class R>
inline constexpr bool returned_in_registers =
    (std::is_scalar_v<R> && sizeof(R) <= sizeof(void*)) || (std::is_empty_v<R> && std::is_trivial_v<R>);

template <class F>
using half_result = result_or_nothing<result_of<F>>;

/// Destroys what is in a slot.
template <class T>
struct ended_slot {
  slot<T>& value;
  ~ended_slot() { value.destroy(); }
};

/// Forgets a fork whose second half a thief has executed.
inline void end_fork(worker& self, frame_record& r) noexcept {
  self.forks.end(r);
  self.forks.recycle(r);
}

/// For the thief.
template <class G>
void call_stolen(frame_record& r, borrowed<G> g) noexcept {
  try {
    static_cast<slot<half_result<G>>*>(r.result())->construct(call_half(*worker::current(), g.get()));
  } catch (...) {
    r.error() = std::current_exception();
  }
}

/// The first half. Nothing that the compiler knows of it may be used where it is called: the call must be one that may
/// throw, or it is not marked.
template <class F>
MUSTER_OPAQUE half_result<F> call_first(borrowed<F> f) {
  return call_half(*worker::current(), f.get());
}
/// When somebody asks: answers from within the first half, so that its fork is found too.
template <class F>
MUSTER_OPAQUE half_result<F> answer_and_call_first(borrowed<F> f) {
  worker::current()->forks.answer_at_fork();
  return call_half(*worker::current(), f.get());
}
/// The second half. Opaque too: a call that cannot throw may lie among the marked ones, in the compiler's table.
template <class G>
MUSTER_OPAQUE half_result<G> call_second(borrowed<G> g) {
  return call_half(*worker::current(), g.get());
}

/// The second half, which a thief has executed.
template <class G>
half_result<G> join_thief(frame_record& r, slot<half_result<G>>& second) {
  const std::exception_ptr thrown = std::exchange(r.error(), nullptr);
  end_fork(*worker::current(), r);
  if (thrown != nullptr) std::rethrow_exception(thrown);
  const ended_slot<half_result<G>> last{second};
  return std::move(second.value);
}

/// In the handler. A thief takes the second half along, and does not return. The owner returns with both results.
template <class F, class G>
MUSTER_COLD fork_results<F, G> arrive(landing& here, borrowed<G> g, slot<half_result<G>>& stolen) {
  here.of->template arrive<&call_stolen<G>>(g, &stolen);
  return {return_again<half_result<F>>(here.of->first()), join_thief<G>(*here.of, stolen)};
}
template <class F, class G>
  requires(returned_in_registers<half_result<F>> && returned_in_registers<half_result<G>>)
MUSTER_HOT fork_results<F, G> fork_here(worker& self, borrowed<F> f, borrowed<G> g) {
  asm volatile("" : : "r"(__builtin_frame_address(0)));  // the frame has a base, through which what is in it is found
  slot<half_result<G>> stolen;
  half_result<F> first{};
  const bool asked = self.forks.is_asked();
  // Nothing else may be called in the block: calls in it are marked.
  try {
    if (asked) [[unlikely]] {
      first = MUSTER_HIDDEN(answer_and_call_first<F>)(f);
    } else {
      first = MUSTER_HIDDEN(call_first<F>)(f);
    }
  } catch (landing& here) {
    return arrive<F, G>(here, g, stolen);
  }
  return {first, MUSTER_HIDDEN(call_second<G>)(g)};
}
template <class F, class G>
[[gnu::noinline]] fork_results<F, G> fork_in_small_frame(worker& self, borrowed<F> f, borrowed<G> g) {
  return fork_here<F, G>(self, f, g);
}

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_in_frame(worker& self, borrowed<F> f, borrowed<G> g) {
  using first_type = half_result<F>;
  using second_type = half_result<G>;
  if constexpr (returned_in_registers<first_type> && returned_in_registers<second_type> &&
                sizeof(fork_results<F, G>) <= 2 * sizeof(void*)) {
    return fork_in_small_frame<F, G>(self, f, g);
  } else {
    // The results lie in the caller's frame. Whoever moves them in ours, may align it for that.
    std::optional<first_type> first;
    std::optional<second_type> second;
    auto f_into = [&] { first.emplace(call_half(*worker::current(), f.get())); };
    auto g_into = [&] { second.emplace(call_half(*worker::current(), g.get())); };
    fork_in_small_frame<decltype(f_into)&, decltype(g_into)&>(self, borrowed<decltype(f_into)&>(f_into),
                                                              borrowed<decltype(g_into)&>(g_into));
    if (!first || !second) __builtin_unreachable();  // both have been called
    return {std::move(*first), std::move(*second)};
  }
}

}  // namespace muster::inline MUSTER_ABI::detail

#endif
