// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// finish.hpp: a scope in which any number of functions is begun, and which ends when all of them have ended.
//
// Order      an async runs at once, on this thread, unless others would find little to take: then it is kept for them.
//            With one worker all run at once, in the order of a serial program, but for the next point.
// Depth      asyncs may begin asyncs to any depth. Where they run within each other for 64 KiB of the stack, the next
//            are kept, and executed where the stack is free again.
// Memory     an async that runs at once needs none. Of those that are kept, a thread has mostly eight, 64 when others
//            ask, and a thousand at the ends of deep chains; more where the stack is used up.
// Nesting    asyncs may begin asyncs, of the same scope or of scopes of their own.
// Exceptions all asyncs are executed, whatever the others throw. The scope then rethrows one exception, the leftmost:
//            that of the async which the body has begun first (or of those that this one has begun), or the body's own
//            when all that was begun before has ended well. What the second half of a fork begins counts as begun by
//            the body, at that time, when another worker executes that half. Of those that one async has begun, any.
// Stopping   when a stop is requested, asyncs that have not begun are dropped.
// Waiting    the scope's end, and wait(), execute its own asyncs, what these have forked, and those of scopes opened in
//            them; nothing else.
// Source     Charles et al., "X10" (OOPSLA 2005), for finish and async. Running at once or keeping: Guo et al.,
//            "Work-First and Help-First Scheduling Policies" (IPDPS 2009), here decided anew each time.
#pragma once

#include <muster/base/caught.hpp>           // caught
#include <muster/base/finally.hpp>          // finally
#include <muster/fork/fork2.hpp>            // call_as, pool
#include <muster/fork/impl/open_count.hpp>  // open_count

#include <concepts>     // std::invocable
#include <cstdint>      // std::uint64_t
#include <exception>    // std::exception_ptr
#include <limits>       // std::numeric_limits
#include <memory>       // std::unique_ptr
#include <mutex>        // std::lock_guard
#include <new>          // std::nothrow
#include <optional>     // what the body returns
#include <stop_token>   // std::stop_token
#include <type_traits>  // std::decay_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

class async_scope;

/// Calls body(scope), and returns what it returns when all asyncs of the scope have ended.
template <class Body>
std::invoke_result_t<Body&, async_scope&> finish(Body&& body, std::stop_token stop = {});

/// What finish() gives its body. Asyncs may use it until they end; others may not.
class async_scope : detail::scope_link {
 public:
  async_scope(const async_scope&) = delete;
  async_scope& operator=(const async_scope&) = delete;

  /// Calls function() now or later, here or on another worker. What it captures by reference must live until the scope
  /// ends, or until wait() has returned. If it takes a context, it is given one. finish() rethrows what it throws.
  template <class F>
  void async(F&& function) {
    constexpr bool fits = std::invocable<F&> || std::invocable<F&, context&>;
    static_assert(fits,
                  "async takes a function of no arguments, or of a muster::context: bind its arguments in a lambda");
    if constexpr (fits) begin(std::forward<F>(function));
  }

  /// Returns when all that has been begun so far has ended; then the locals that it uses may end. For the body, any
  /// number of times; an async that calls it ends the program with a message, as it would wait for itself.
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
    if (self != nullptr && &self->pool == &owner_.pool && (self->wants_stock() || self->is_deep())) [[unlikely]]
      if (keep(*self, index, std::forward<F>(function))) return;
    run(self, index, function);
  }

  template <class Body>
  friend std::invoke_result_t<Body&, async_scope&> finish(Body&& body, std::stop_token stop);

  static constexpr detail::async_index nobody{std::numeric_limits<std::uint64_t>::max(), 0};

  async_scope(detail::worker& owner, std::stop_token stop) noexcept
      : scope_link{owner.forks.newest_theft()}, owner_(owner), outside_(owner.within), stop_(std::move(stop)) {}

  /// The async that this call is part of, or a new number.
  detail::async_index place_of(const detail::worker* self) noexcept {
    if (self != nullptr)
      for (const detail::async_place* at = self->within; at != nullptr && at != outside_; at = at->outer)
        if (at->scope == this) return at->index;
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    if (self != &owner_) return {begun, elsewhere_.fetch_add(1, std::memory_order_relaxed) + 1};
    begun_.store(begun + 1, std::memory_order_relaxed);
    return {begun + 1, 0};
  }
  /// Waits for all, and not within a handler: there no exception of another language may be caught by what is executed
  /// meanwhile. Returns which the body's own exception would be; what begins later is later.
  detail::async_index end_body() noexcept {
    const std::uint64_t own = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(own, std::memory_order_relaxed);
    await_all();
    return {own, 0};
  }

  template <class F>
  void run(detail::worker* self, detail::async_index index, F& function) noexcept {
    const detail::async_place here{this, index, self == nullptr ? nullptr : self->within};
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
      keep_error(index, detail::caught());
    }
    if (self != nullptr) self->within = here.outer;
  }

  template <class F>
  struct kept : detail::fork_record {
    kept(async_scope& of, detail::async_index at, F&& f) : scope(of), index(at), function(std::forward<F>(f)) {}
    static detail::open_count* run_taken(fork_record& r) noexcept {
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
    error_.swap(error);  // what was there ends when the lock has been released: it may be a user's type
  }

  void await_all() noexcept {
    if (!open_.all_ended()) owner_.await(*this, open_);
  }

  detail::worker& owner_;
  const detail::async_place* const outside_;
  const std::stop_token stop_;
  sync::atomic<std::uint64_t> begun_{0};      // by the body; written by its thread
  sync::atomic<std::uint64_t> elsewhere_{0};  // by others, but for those that are part of an async
  detail::open_count open_{owner_.place};     // of those that are kept
  detail::short_lock lock_;
  detail::async_index error_index_ = nobody;  // under the lock
  std::exception_ptr error_;
};

template <class Body>
std::invoke_result_t<Body&, async_scope&> finish(Body&& body, std::stop_token stop) {
  using result = std::invoke_result_t<Body&, async_scope&>;
  detail::worker* const self = detail::worker::current();
  if (self == nullptr) return pool::shared().run([&] { return finish(body, stop); });
  async_scope scope(*self, std::move(stop));
  const std::uintptr_t outer_floor = self->allow_depth();
  const detail::finally restored([&]() noexcept { self->floor = outer_floor; });
  std::optional<detail::result_or_nothing<result>> value;
  detail::async_index end{};
  try {
    const detail::finally ended([&]() noexcept { end = scope.end_body(); });
    if constexpr (std::is_void_v<result>) {
      body(scope);
    } else {
      value.emplace(body(scope));
    }
  } catch (...) {
    if (std::current_exception() == nullptr)
      throw;  // no exception of C++: the thread ends, or it is another language's
    scope.keep_error(end, std::current_exception());
  }
  if (scope.error_ != nullptr) std::rethrow_exception(std::exchange(scope.error_, nullptr));
  if constexpr (!std::is_void_v<result>) return std::move(*value);
}

}  // namespace muster::inline MUSTER_ABI
