// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// schedule.hpp: pool::schedule(), by which a coroutine continues on a thread of the pool.
//
// Order      as pool::submit: coroutines and submitted functions continue in the order in which they were given to the
//            pool. The coroutine is always suspended, so it lets others go first, in the pool, too.
// Thread     one of the pool's, or one inside run() that waits. Until the coroutine is suspended again or ends, it may
//            fork. It need not stay in the pool: whatever resumes it next chooses the thread.
// Pool ends  a coroutine that has not continued by then does so on the thread that ends the pool, and co_await throws
//            broken_promise. If the pool is ending already, it is not suspended and throws. So it never hangs.
// Stopping   schedule(token) gives true; or false if a stop was requested before the coroutine has continued. It
//            continues at its turn all the same, or at once if the stop had been requested before.
// Exceptions of the coroutine's body are for its promise to keep. One that leaves coroutine_handle::resume() ends the
//            program.
// Destroyed  a suspended coroutine may be destroyed while it waits for its turn. If it is about to continue, that ends
//            the program with a message.
// Memory     in the coroutine's frame.
// Cost       as pool::submit without the allocation.
#pragma once

#include <muster/base/config.hpp>                // MUSTER_CHECK
#include <muster/base/detail/shared_object.hpp>  // pin_once
#include <muster/fork/detail/injector.hpp>       // injected
#include <muster/fork/detail/scheduler.hpp>      // pool_core, worker
#include <muster/fork/pool.hpp>                  // broken_promise, pool

#include <coroutine>    // std::coroutine_handle
#include <stop_token>   // std::stop_token
#include <type_traits>  // std::is_same_v
#include <utility>      // std::move

namespace muster::inline MUSTER_ABI {

/// The result of pool::schedule(): co_await it, once at a time.
template <class Stop>
class [[nodiscard]] detail::schedule_operation final : private injected {
  static constexpr bool stops = !std::is_same_v<Stop, no_stop>;
  static_assert(!stops || std::is_same_v<Stop, std::stop_token>, "pool::schedule takes a std::stop_token, or nothing");

 public:
  schedule_operation(pool_core& in, Stop stop) noexcept
      : injected(&run, &drop, &nothing_waits_for_it), pool_(in), stop_(std::move(stop)) {
    // The code that resumes the coroutine is in the library that has made this.
    pin_once<schedule_operation>(&run);
  }
  /// See above.
  ~schedule_operation() {
    if (waits_ && pool_.is_ours())
      MUSTER_CHECK(pool_.injected_functions.take(*this),
                   "pool::schedule: the coroutine is destroyed while it is about to continue; let it end");
  }

  /// Throws std::logic_error in a child process.
  bool await_ready() {
    pool_.refuse_in_child();
    return stop_requested();
  }
  bool await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    waits_ = true;
    if (inject_from_anywhere(pool_.injected_functions, *this)) return true;
    waits_ = false;
    broken_ = true;
    return false;
  }
  /// Returns nothing, or whether no stop was requested. Throws broken_promise.
  auto await_resume() const {
    if (broken_) throw broken_promise();
    if constexpr (stops) return !stop_requested();
  }

 private:
  /// Its address is what executes a coroutine that continues, see injected::of(). The frame may end before that does.
  static constexpr char nothing_waits_for_it = 0;

  bool stop_requested() const noexcept {
    if constexpr (stops) return stop_.stop_requested();
    else return false;
  }
  static void run(injected& of) noexcept { static_cast<schedule_operation&>(of).resume(); }
  static void drop(injected& of) noexcept {
    auto& here = static_cast<schedule_operation&>(of);
    here.broken_ = true;
    here.resume();
  }
  void resume() noexcept {
    waits_ = false;
    caller_.resume();
  }

  pool_core& pool_;
  [[no_unique_address]] const Stop stop_;
  std::coroutine_handle<> caller_;
  bool waits_ = false;  // the pool has it
  bool broken_ = false;
};

inline detail::schedule_operation<detail::no_stop> pool::schedule() noexcept { return {core_, {}}; }
template <class Stop>
detail::schedule_operation<Stop> pool::schedule(Stop stop) noexcept {
  return {core_, std::move(stop)};
}

}  // namespace muster::inline MUSTER_ABI
