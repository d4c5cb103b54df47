// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// call.hpp: calls the functions that are forked, and holds them and their arguments until then; and the fork that
// pushes a record for its second half, see watermark.hpp.
#pragma once

#include <muster/base/detail/exception.hpp>  // capture_exception
#include <muster/fork/detail/scheduler.hpp>  // worker
#include <muster/fork/detail/task.hpp>       // task

#include <concepts>     // std::invocable
#include <exception>    // std::exception_ptr
#include <functional>   // std::invoke
#include <memory>       // std::addressof
#include <type_traits>  // std::remove_reference_t
#include <utility>      // std::pair
#include <variant>      // std::monostate

namespace muster::inline MUSTER_ABI {

class context;

namespace detail {

/// The result of F, called with a context& if it takes one.
template <class F>
using result_of = typename std::conditional_t<std::invocable<F&, context&>, std::invoke_result<F&, context&>,
                                              std::invoke_result<F&>>::type;
template <class R>
using result_or_nothing = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

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
class captured {
 public:
  using value = std::remove_reference_t<T>;
  explicit captured(value& from) noexcept : at_(std::addressof(from)) {}
  value& get() noexcept { return *at_; }

 private:
  value* at_;
};
template <class T>
  requires(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T> &&
           sizeof(T) <= 2 * sizeof(void*))
class captured<T> {
 public:
  explicit captured(const T& from) noexcept : copy_(from) {}
  T& get() noexcept { return copy_; }

 private:
  T copy_;
};

template <class F, class G>
using fork_results = std::pair<result_or_nothing<result_of<F>>, result_or_nothing<result_of<G>>>;

/// Reports a wrong function readably, before the compiler's own errors.
template <class F>
constexpr bool can_be_forked() {
  static_assert(std::invocable<F&> || std::invocable<F&, context&>,
                "fork2, parallel_invoke and submit take functions of no arguments, or of a muster::context; bind their "
                "arguments in "
                "lambdas");
  if constexpr (std::invocable<F&> || std::invocable<F&, context&>) {
    using result = result_of<F>;
    static_assert(!std::is_reference_v<result>,
                  "the function given to fork2 or submit returns a reference: return a pointer or a value");
    static_assert(
        std::is_void_v<result> || std::is_move_constructible_v<result>,
        "the function given to fork2 or submit returns a type that cannot be moved: return a std::unique_ptr to it");
  }
  return true;
}

/// Forks from a worker, in the way of the engine that the program is compiled with; see barrier/join.hpp.
template <class F, class G>
fork_results<F, G> fork_on(worker& self, F&& f, G&& g);
/// Runs a function in the default pool, on a thread that is in none; see pool.hpp.
template <class F>
MUSTER_COLD result_of<F> run_outside_pool(F&& function);

}  // namespace detail

/// A function's place in a pool. Forking through it avoids looking up the thread's worker. pool::run, fork2 and
/// parallel_invoke pass one to functions that take it. It is valid for that call and the calls made in it. Pass it by
/// value.
class context {
 public:
  explicit context(detail::worker& self) noexcept : self_(&self) {}

  /// As muster::fork2.
  template <class F, class G>
  MUSTER_HOT auto fork2(F&& f, G&& g) {
    static_assert(detail::can_be_forked<F>() && detail::can_be_forked<G>());
    if constexpr (debug_checks)
      MUSTER_CHECK(
          self_ == detail::worker::current(),
          "context: used on another thread than the one that received it; let the function of each fork take its own");
    return detail::fork_on(*self_, std::forward<F>(f), std::forward<G>(g));
  }

 private:
  detail::worker* self_;
};

namespace detail {

/// Calls f, with a context if it takes one.
template <class F>
MUSTER_HOT result_of<F> call_as(worker& self, F& f) {
  if constexpr (std::invocable<F&, context&>) {
    context here(self);
    return f(here);
  } else {
    return f();
  }
}

template <class F>
MUSTER_HOT result_or_nothing<result_of<F>> call_branch(worker& self, F& f) {
  if constexpr (std::is_void_v<result_of<F>>) {
    call_as(self, f);
    return {};
  } else {
    return call_as(self, f);
  }
}

template <class F, class G>
MUSTER_COLD fork_results<F, G> fork_outside(captured<F> f, captured<G> g) {
  return run_outside_pool([&] { return fork_on(*worker::current(), f.get(), g.get()); });
}

template <class G>
struct second_branch : task {
  using result = result_or_nothing<result_of<G>>;
  explicit second_branch(std::remove_reference_t<G>& g) noexcept : function(g) {}

  static completion_count* run_stolen(task& r) noexcept {
    auto& here = static_cast<second_branch&>(r);
    try {
      here.value.construct(call_branch(*worker::current(), here.function.get()));
    } catch (...) {
      here.error() = capture_exception();
    }
    return nullptr;
  }
  result take() {
    const std::exception_ptr thrown = std::exchange(error(), nullptr);
    joined();
    if (thrown != nullptr) std::rethrow_exception(thrown);
    struct ended {
      manual_lifetime<result>& value;
      ~ended() { value.destroy(); }
    };
    const ended last{value};
    return std::move(value.value);
  }
  void drop() noexcept {
    if (error() == nullptr) value.destroy();
    joined();
  }

  manual_lifetime<result> value;  // only if stolen; a small one fits into the free half of the record's last word
  captured<G> function;
};

/// Ends a fork whose first half has thrown.
template <class G>
struct unfinished_fork {
  worker& self;
  second_branch<G>& second;
  bool finished = false;
  MUSTER_HOT ~unfinished_fork() {
    if (!finished) [[unlikely]]
      abandon(self, second);
  }
  MUSTER_COLD static void abandon(worker& self, second_branch<G>& second) noexcept {
    if (self.forks.pushed().pop(second) || self.forks.pushed().take_back(second)) return;
    self.await(second);
    second.drop();
  }
};

/// The second half's result, after pop() has returned false.
template <class G>
MUSTER_COLD typename second_branch<G>::result finish_fork(worker& self, second_branch<G>& second) {
  if (self.forks.pushed().take_back(second)) return call_branch(self, second.function.get());
  self.await(second);
  return second.take();
}

template <class F, class G>
MUSTER_HOT fork_results<F, G> fork_on_watermark(worker& self, F&& f, G&& g) {
  second_branch<G> second(g);
  self.forks.pushed().push(second, &second_branch<G>::run_stolen);
  unfinished_fork<G> guard{self, second};
  auto first = call_branch(self, f);
  guard.finished = true;
  if (self.forks.pushed().pop(second)) [[likely]]
    return {std::move(first), call_branch(self, g)};
  return {std::move(first), finish_fork(self, second)};
}

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
