// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// calls.hpp: calls the functions of a fork, and holds functions and arguments until they are called.
#pragma once

#include <muster/fork/pool.hpp>  // result_of, worker

#include <functional>   // std::invoke
#include <memory>       // std::addressof
#include <type_traits>  // std::remove_reference_t
#include <utility>      // std::pair

namespace muster::inline MUSTER_ABI::detail {

/// Calls f, with a context if it takes one. See fork2.hpp.
template <class F>
result_or_nothing<result_of<F>> call_half(worker& self, F& f);

/// Calls f(arguments...), as std::invoke does if f is a pointer to a member.
template <class F, class... Arguments>
MUSTER_HOT decltype(auto) invoke(F& f, Arguments&&... arguments) {
  if constexpr (std::is_member_pointer_v<std::remove_cv_t<F>>) {
    return std::invoke(f, std::forward<Arguments>(arguments)...);
  } else {
    return f(std::forward<Arguments>(arguments)...);
  }
}

/// A function or an argument that is needed while the caller of fork2 waits. T is its type, a reference if the caller
/// passed an lvalue. Small rvalues are copied, so that they can stay in registers.
template <class T>
class borrowed {
 public:
  using value = std::remove_reference_t<T>;
  explicit borrowed(value& from) noexcept : at_(std::addressof(from)) {}
  value& get() noexcept { return *at_; }

 private:
  value* at_;
};
template <class T>
  requires(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T> &&
           sizeof(T) <= 2 * sizeof(void*))
class borrowed<T> {
 public:
  explicit borrowed(const T& from) noexcept : copy_(from) {}
  T& get() noexcept { return copy_; }

 private:
  T copy_;
};

template <class F, class G>
using fork_results = std::pair<result_or_nothing<result_of<F>>, result_or_nothing<result_of<G>>>;

/// Forks in the default pool, from a thread that is in none.
template <class F, class G>
MUSTER_COLD fork_results<F, G> fork_outside(borrowed<F> f, borrowed<G> g);

}  // namespace muster::inline MUSTER_ABI::detail
