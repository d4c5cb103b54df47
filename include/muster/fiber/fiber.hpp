// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fiber.hpp: user-level threads. Like std::jthread, but switched by the program: a fiber runs until it yields, joins or
// ends, and a yield costs a few nanoseconds (fiber/switch).
//
// Order      the fibers of a thread take turns in a ring; see carrier.hpp.
// Progress   a fiber that never yields stops the others of its thread; the fibers of other threads do not notice.
// Exceptions an exception that leaves a fiber is rethrown by join(). Yielding inside a catch block is allowed.
// Memory     a stack of 256 KiB from a pool; only its touched pages use memory. Nothing else is allocated. Memory alone
//            limits the number of fibers, on Linux 6.13 and later (stack.hpp).
// Cost       yield: O(1), without a system call or a read-modify-write. While fibers wait in operations of the library,
//            every 16th yield asks each of them: O(waiting); every yield, if no other fiber can run. Creating: O(1) and
//            a stack, see stack.hpp. join: O(1), and a step for each fiber in a chain of joins that it extends.
// Errors     the constructor throws std::invalid_argument, std::system_error, std::bad_alloc, and exceptions from the
//            copy of the function. Joining or destroying a fiber on another thread than its own ends the program with a
//            message.
// Use it     where a thread has many short waits in which it can do other work, above all to fill the batches of a
//            combining object. Not for blocking system calls, which stop all fibers of the thread.
#pragma once

#include <muster/fiber/detail/carrier.hpp>  // carrier
#include <muster/fiber/stack.hpp>           // stack_options
#include <muster/fiber/this_fiber.hpp>      // this_fiber

#include <concepts>      // std::same_as
#include <functional>    // std::invoke
#include <memory>        // std::construct_at
#include <system_error>  // std::system_error
#include <tuple>         // the arguments
#include <type_traits>   // std::decay_t
#include <utility>       // std::exchange

namespace muster::inline MUSTER_ABI {

class fiber {
 public:
  /// An object without a fiber.
  fiber() noexcept = default;
  /// Creates a fiber of the calling thread that will call `function` with `arguments`, all of them copied or moved. It
  /// first runs after all other fibers that can run.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, fiber> && !std::same_as<std::remove_cvref_t<F>, stack_options> &&
             std::invocable<std::decay_t<F>, std::decay_t<Args>...>)
  explicit fiber(F&& function, Args&&... arguments)
      : fiber(stack_options{}, std::forward<F>(function), std::forward<Args>(arguments)...) {}
  template <class F, class... Args>
    requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
  fiber(const stack_options& stack, F&& function, Args&&... arguments);

  fiber(fiber&& other) noexcept : home_(other.home_), record_(std::exchange(other.record_, nullptr)) {}
  /// Joins the fiber that this object held, like the destructor.
  fiber& operator=(fiber&& other) noexcept {
    if (this != &other) {
      end();
      home_ = other.home_;
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  /// Joins. If an exception has left the fiber, the program ends with a message, because the exception would be lost.
  ~fiber() { end(); }

  /// Returns true if there is a fiber that has not been joined.
  bool joinable() const noexcept { return record_ != nullptr; }
  /// Returns true if there is a fiber and its function has ended, so that join() returns at once.
  bool done() const noexcept { return record_ != nullptr && record_->done; }
  /// Runs the other fibers until this one is done, and rethrows the exception that left it. Throws std::system_error if
  /// there is no fiber.
  void join();

 private:
  template <class F, class... Args>
  struct with_body;

  std::exception_ptr await();
  void end() noexcept;

  detail::carrier* home_ = nullptr;
  detail::fiber_record* record_ = nullptr;
};

template <class F, class... Args>
struct fiber::with_body final : detail::fiber_record {
  template <class... From>
  explicit with_body(const stack_memory& on, From&&... from) : fiber_record(on), call(std::forward<From>(from)...) {}
  void run() override {
    std::apply([](F& f, Args&... args) { std::invoke(std::move(f), std::move(args)...); }, call);
  }
  std::tuple<F, Args...> call;
};

template <class F, class... Args>
  requires std::invocable<std::decay_t<F>, std::decay_t<Args>...>
fiber::fiber(const stack_options& stack, F&& function, Args&&... arguments) : home_(&detail::carrier::own()) {
  using record = with_body<std::decay_t<F>, std::decay_t<Args>...>;
  static_assert(sizeof(record) < stack_pool::least_size / 2,
                "fiber: the function and its arguments do not fit on the fiber's stack; pass a pointer to them");
  const stack_memory memory = stack_pool::take_own(stack);
  record* made = nullptr;
  try {
    constexpr std::uintptr_t alignment = alignof(record) < line_size ? line_size : alignof(record);
    char* at = memory.top - sizeof(record);
    at -= reinterpret_cast<std::uintptr_t>(at) % alignment;
    made = std::construct_at(reinterpret_cast<record*>(at), memory, std::forward<F>(function),
                             std::forward<Args>(arguments)...);
    home_->add(*made);
  } catch (...) {
    if (made != nullptr) std::destroy_at(made);
    stack_pool::give_back_own(memory);
    throw;
  }
  record_ = made;
}

inline std::exception_ptr fiber::await() {
  MUSTER_CHECK(home_ == &detail::carrier::own(),
               "fiber: joined or destroyed on another thread than its own; join it on the thread that created it");
  home_->await(*record_);
  record_->observed.end();
  const stack_memory memory = record_->stack;
  std::exception_ptr error = std::move(record_->error);
  std::destroy_at(std::exchange(record_, nullptr));
  stack_pool::give_back_own(memory);
  return error;
}

inline void fiber::join() {
  if (record_ == nullptr)
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "fiber::join: there is no fiber; test joinable() first");
  if (const std::exception_ptr error = await()) std::rethrow_exception(error);
}

inline void fiber::end() noexcept {
  if (record_ == nullptr) return;
  MUSTER_CHECK(await() == nullptr, "fiber: ended with an exception that was never retrieved; call join()");
}

}  // namespace muster::inline MUSTER_ABI
