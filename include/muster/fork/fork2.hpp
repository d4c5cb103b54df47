// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork2.hpp: calls two functions, or any number of them, that may run at the same time.
//
// Order      the first runs immediately, on this thread; the second runs after it, or at the same time on another
//            worker. With one worker, that is the order of two plain calls.
// Cost       a few stores and two compares, while no thief requests work.
// Exceptions if the first throws, the second is dropped, or awaited if it has begun, and its exception is lost.
//            Otherwise the second's exception is rethrown here. So the caller sees the exception of a serial program.
// Threads    the caller stays on its own thread, with its locks and its thread-local data. While it waits, it executes
//            only work that its own second function has forked.
// Outside    of any pool, both run in pool::shared().
#pragma once

#include <muster/fork/detail/barrier/join.hpp>  // fork_on
#include <muster/fork/detail/call.hpp>          // captured, call_branch, context
#include <muster/fork/pool.hpp>                 // run_outside_pool

#include <cstddef>      // std::size_t
#include <tuple>        // results of more than two
#include <type_traits>  // std::is_void_v
#include <utility>      // std::pair

namespace muster::inline MUSTER_ABI {

namespace detail {

template <class F, class G>
MUSTER_HOT auto fork_anywhere(F&& f, G&& g) {
  static_assert(can_be_forked<F>() && can_be_forked<G>());
  return fork_of_thread(std::forward<F>(f), std::forward<G>(g));
}

/// The parameter type of a function of one argument.
template <class R, class P>
P argument_of(R (*)(P));
template <class F>
using one_argument = decltype(argument_of(+std::declval<F&>()));
/// True if `F` is such a function, and its parameter is exactly an A that fits into a register.
template <class F, class A>
concept one_register = requires {
  requires std::is_function_v<std::remove_pointer_t<std::remove_reference_t<F>>>;
  requires std::is_scalar_v<one_argument<F>> && !std::is_floating_point_v<one_argument<F>>;
  requires sizeof(one_argument<F>) <= sizeof(void*) && std::is_same_v<std::remove_cvref_t<A>, one_argument<F>>;
};

/// function(arguments...). If these are small, so is it, and it can stay in registers; a std::tuple cannot.
template <std::size_t Index, class A>
struct bound_argument {
  captured<A> value;
};
template <class Indices, class F, class... A>
struct bound_arguments;
template <std::size_t... Index, class F, class... A>
struct bound_arguments<std::index_sequence<Index...>, F, A...> : bound_argument<Index, A>... {
  bound_arguments(captured<F> f, captured<A>... a) noexcept : bound_argument<Index, A>{a}..., function(f) {}
  decltype(auto) operator()() {
    return function.get()(std::forward<A>(static_cast<bound_argument<Index, A>&>(*this).value.get())...);
  }
  /// The function and its argument, if it has just one that fits into a register. See barrier/join.hpp.
  auto plain_function() noexcept
    requires(sizeof...(A) == 1 && (one_register<F, A> && ...))
  {
    return +function.get();
  }
  auto plain_argument() { return (static_cast<bound_argument<Index, A>&>(*this).value.get(), ...); }
  captured<F> function;
};
template <class F, class... A>
using bound_call = bound_arguments<std::index_sequence_for<A...>, F, A...>;

/// Forks function(arguments...) and the last argument, a function.
template <class F, class... Rest>
MUSTER_HOT auto fork_call(F&& function, Rest&&... rest) {
  constexpr std::size_t last = sizeof...(Rest) - 1;
  using types = std::tuple<Rest...>;
  std::tuple<Rest&&...> all(std::forward<Rest>(rest)...);
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    using call = bound_call<F, std::tuple_element_t<Index, types>...>;
    return fork_anywhere(
        call(captured<F>(function), captured<std::tuple_element_t<Index, types>>(std::get<Index>(all))...),
        std::forward<std::tuple_element_t<last, types>>(std::get<last>(all)));
  }(std::make_index_sequence<last>());
}

/// True if F can be called with all but the last argument, and the last one with no arguments.
template <class F, class... All>
inline constexpr bool takes_all_but_last = []<std::size_t... Index>(std::index_sequence<Index...>) {
  using all = std::tuple<All...>;
  using last = std::tuple_element_t<sizeof...(All) - 1, all>;
  return std::invocable<F&, std::tuple_element_t<Index, all>...> &&
         (std::invocable<last&> || std::invocable<last&, context&>);
}(std::make_index_sequence<sizeof...(All) - 1>());

}  // namespace detail

/// A fork of one function alone is a mistake.
template <class F>
void fork2(F&&) {
  static_assert(std::is_void_v<F>, "fork2 takes two functions, and calls them at the same time if it can");
}
/// Calls f() and g(), possibly at the same time, and returns both results; std::monostate replaces void.
template <class F, class G>
MUSTER_HOT auto fork2(F&& f, G&& g) {
  return detail::fork_anywhere(std::forward<F>(f), std::forward<G>(g));
}
/// Calls function(arguments...) and g(), the last argument: fork2(fib, n - 1, [&] { return fib(n - 2); }).
template <class F, class A, class B, class... More>
MUSTER_HOT auto fork2(F&& function, A&& argument, B&& second, More&&... more) {
  constexpr bool fits = detail::takes_all_but_last<F, A, B, More...>;
  static_assert(fits,
                "fork2 takes a function, its arguments, and a second function of no arguments; for more than two "
                "functions use parallel_invoke");
  if constexpr (fits)
    return detail::fork_call(std::forward<F>(function), std::forward<A>(argument), std::forward<B>(second),
                             std::forward<More>(more)...);
}

/// Calls all functions, possibly at the same time, and returns a tuple of their results; std::monostate replaces void.
/// If no other worker is free, they run in order. The leftmost exception is rethrown.
template <class F, class... More>
auto parallel_invoke(F&& first, More&&... more) {
  if constexpr (sizeof...(More) == 0) {
    using result = std::tuple<detail::result_or_nothing<detail::result_of<F>>>;
    const auto alone = [&](detail::worker& self) { return result(detail::call_branch(self, first)); };
    if (detail::worker* const self = detail::worker::current()) return alone(*self);
    return detail::run_outside_pool([&] { return alone(*detail::worker::current()); });
  } else {
    auto [head, tail] = muster::fork2(first, [&] { return muster::parallel_invoke(more...); });
    return std::tuple_cat(std::tuple<decltype(head)>(std::move(head)), std::move(tail));
  }
}

}  // namespace muster::inline MUSTER_ABI
