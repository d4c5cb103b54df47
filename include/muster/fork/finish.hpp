// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// finish.hpp: a scope that starts any number of functions (asyncs) and ends when all of them have ended.
//
// Order      an async runs immediately, on this thread, unless other workers would find little to steal: then it is
//            queued for them. With one worker all run immediately, in the order of a serial program, except under
//            Depth.
// Depth      asyncs may start asyncs to any depth. Once nested asyncs use 64 KiB of the stack, further ones are queued
//            and run after the stack has unwound.
// Memory     an async that runs immediately allocates nothing. A thread has at most 8 queued asyncs, or 64 while other
//            workers request work, or about a thousand at the ends of deep chains. There is no limit once its stack is
//            nearly used up.
// Cost       an async that runs immediately: O(1), a few stores, and a step for each async of an inner scope that
//            surrounds the call. A queued one: an allocation and the worker's lock. finish, wait: O(1) besides the
//            asyncs.
// Nesting    asyncs may start asyncs, in the same scope or in scopes of their own.
// Exceptions all asyncs run, even if some throw. The scope then rethrows the leftmost exception: the first in the order
//            in which the body started the asyncs. An async counts together with all asyncs that it starts, and the
//            body's own exception comes after those of everything that the body had started. If another worker executes
//            the second half of a fork, the asyncs that this half starts count as started by the body at that time.
// Stopping   once a stop is requested, asyncs that have not begun are dropped.
// Waiting    the scope's end, and wait(), execute only its own asyncs, their forks, and the asyncs of scopes opened in
//            them.
// Source     Charles et al., "X10" (OOPSLA 2005), for finish and async. Running immediately or queueing: Guo et al.,
//            "Work-First and Help-First Scheduling Policies" (IPDPS 2009), here decided for each async.
#pragma once

#include <muster/base/detail/exception.hpp>   // capture_exception
#include <muster/base/detail/scope_exit.hpp>  // scope_exit
#include <muster/fork/detail/task.hpp>        // completion_count, task
#include <muster/fork/fork2.hpp>              // call_as, pool

#include <concepts>     // std::invocable
#include <cstdint>      // std::uint64_t
#include <exception>    // std::exception_ptr
#include <limits>       // std::numeric_limits
#include <memory>       // std::unique_ptr
#include <mutex>        // std::lock_guard
#include <new>          // std::nothrow
#include <optional>     // the body's result
#include <stop_token>   // std::stop_token
#include <type_traits>  // std::decay_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

class async_scope;

namespace detail {
template <class Body>
struct finished_body {  // a mistake, which finish() reports
  using result = void;
};
template <std::invocable<async_scope&> Body>
struct finished_body<Body> {
  using result = std::invoke_result_t<Body, async_scope&>;
};
template <class Body>
using finish_result = typename finished_body<Body&>::result;
}  // namespace detail

/// Calls body(scope), waits until all asyncs of the scope have ended, and returns the body's result.
template <class Body>
detail::finish_result<Body> finish(Body&& body, std::stop_token stop = {});

/// The scope that finish() passes to its body. Only the body and the scope's asyncs may use it.
class async_scope : detail::scope_node {
 public:
  async_scope(const async_scope&) = delete;
  async_scope& operator=(const async_scope&) = delete;

  /// Calls function(), or function(context&) if it takes one, now or later, here or on another worker. Objects that it
  /// captures by reference must live until the scope ends or wait() returns. finish() rethrows its exceptions.
  template <class F>
  void async(F&& function) {
    constexpr bool fits = std::invocable<F&> || std::invocable<F&, context&>;
    static_assert(fits,
                  "async takes a function of no arguments, or of a muster::context: bind its arguments in a lambda");
    if constexpr (fits) begin(std::forward<F>(function));
  }

  /// Waits until all asyncs started so far have ended; then the locals that they use may end. The body may call it any
  /// number of times. An async that calls it would wait for itself: the program ends with a message.
  void wait() noexcept {
    MUSTER_CHECK(detail::worker::current() == &owner_ && owner_.within == outside_,
                 "async_scope::wait: called by an async, or on another thread than that of finish(); only the body may "
                 "wait");
    await_all();
    open_.begin_anew();
  }

 private:
  template <class F>
  void begin(F&& function) {
    if (stop_.stop_requested()) return;
    detail::worker* const self = detail::worker::current();
    const detail::async_index index = place_of(self);
    if (self != nullptr && &self->pool == &owner_.pool && (self->should_queue() || self->is_deep())) [[unlikely]]
      if (keep(*self, index, std::forward<F>(function))) return;
    run(self, index, function);
  }

  template <class Body>
  friend detail::finish_result<Body> finish(Body&& body, std::stop_token stop);

  static constexpr detail::async_index no_error{std::numeric_limits<std::uint64_t>::max(), 0};

  async_scope(detail::worker& owner, std::stop_token stop) noexcept
      : scope_node{owner.forks.tasks().newest_theft()}, owner_(owner), outside_(owner.within), stop_(std::move(stop)) {}

  /// The index of the async that this call is part of, or a new one.
  detail::async_index place_of(const detail::worker* self) noexcept {
    if (self != nullptr)
      for (const detail::running_async* at = self->within; at != nullptr && at != outside_; at = at->outer)
        if (at->scope == this) return at->index;
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    if (self != &owner_) return {begun, elsewhere_.fetch_add(1, std::memory_order_relaxed) + 1};
    begun_.store(begun + 1, std::memory_order_relaxed);
    return {begun + 1, 0};
  }
  /// Waits for all asyncs. Must not run in an exception handler: asyncs that run there could not catch an exception of
  /// another language. Returns the index of the body's own exception; asyncs started later have larger ones.
  detail::async_index end_body() noexcept {
    const std::uint64_t own = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(own, std::memory_order_relaxed);
    await_all();
    return {own, 0};
  }

  template <class F>
  void run(detail::worker* self, detail::async_index index, F& function) noexcept {
    const detail::running_async here{this, index, self == nullptr ? nullptr : self->within};
    if (self != nullptr) self->within = &here;
    try {
      if (self != nullptr) {
        static_cast<void>(detail::call_as(*self, function));
      } else if constexpr (std::invocable<F&, context&>) {
        static_cast<void>(pool::shared().run(function));
      } else {
        static_cast<void>(function());  // needs no pool, and so cannot fail to enter one
      }
    } catch (...) {
      keep_error(index, detail::capture_exception());
    }
    if (self != nullptr) self->within = here.outer;
  }

  template <class F>
  struct kept : detail::task {
    kept(async_scope& of, detail::async_index at, F&& f) : scope(of), index(at), function(std::forward<F>(f)) {}
    static detail::completion_count* run_taken(task& r) noexcept {
      const std::unique_ptr<kept> here(&static_cast<kept&>(r));
      async_scope& scope = here->scope;
      if (!scope.stop_.stop_requested()) scope.run(detail::worker::current(), here->index, here->function);
      return &scope.open_;
    }
    async_scope& scope;
    const detail::async_index index;
    std::decay_t<F> function;
  };

  /// Returns false when there is no memory.
  template <class F>
  MUSTER_COLD bool keep(detail::worker& self, detail::async_index index, F&& function) {
    auto* const one = new (std::nothrow) kept<F>(*this, index, std::forward<F>(function));
    if (one == nullptr) return false;
    open_.begin();
    self.forks.offer(*one, &kept<F>::run_taken, *this);
    return true;
  }

  void keep_error(detail::async_index index, std::exception_ptr error) noexcept {
    const std::lock_guard lock(lock_);
    if (index >= error_index_) return;
    error_index_ = index;
    std::swap(error_, error);  // the old exception, perhaps of a user's type, is destroyed after the lock is released
  }

  void await_all() noexcept {
    if (!open_.all_ended()) owner_.await(*this, open_);
  }

  detail::worker& owner_;
  const detail::running_async* const outside_;
  const std::stop_token stop_;
  sync::atomic<std::uint64_t> begun_{0};         // asyncs that the body started; written by its thread
  sync::atomic<std::uint64_t> elsewhere_{0};     // started on other threads, outside any async of this scope
  detail::completion_count open_{owner_.place};  // queued asyncs
  detail::spin_lock lock_;
  detail::async_index error_index_ = no_error;  // under the lock
  std::exception_ptr error_;
};

template <class Body>
detail::finish_result<Body> finish(Body&& body, std::stop_token stop) {
  using result = detail::finish_result<Body>;
  constexpr bool fits = std::invocable<Body&, async_scope&>;
  static_assert(fits, "finish takes a function of a muster::async_scope&, with which it begins asyncs");
  if constexpr (fits) {
    detail::worker* const self = detail::worker::current();
    if (self == nullptr) return pool::shared().run([&] { return finish(body, stop); });
    async_scope scope(*self, std::move(stop));
    const std::uintptr_t outer_floor = self->allow_depth();
    const detail::scope_exit restored([&]() noexcept { self->floor = outer_floor; });
    std::optional<detail::result_or_nothing<result>> value;
    detail::async_index end{};
    try {
      const detail::scope_exit ended([&]() noexcept { end = scope.end_body(); });
      if constexpr (std::is_void_v<result>) {
        body(scope);
      } else {
        value.emplace(body(scope));
      }
    } catch (...) {
      if (std::current_exception() == nullptr)
        throw;  // not a C++ exception: the thread is cancelled, or the exception is of another language
      scope.keep_error(end, std::current_exception());
    }
    if (scope.error_ != nullptr) std::rethrow_exception(std::exchange(scope.error_, nullptr));
    if constexpr (!std::is_void_v<result>) return std::move(*value);
  }
}

}  // namespace muster::inline MUSTER_ABI
