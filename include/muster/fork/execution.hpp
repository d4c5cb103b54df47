// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// execution.hpp: pool::scheduler(), by which the pool is a scheduler of P2300 (std::execution): schedule() is a sender
// that completes on a thread of the pool.
//
// Names      a library of senders has tags, such as sender_t. They are the members of a structure, the argument of
//            scheduler<Names>(): see member_names, which needs no such library, because the functions are members.
// Order      as pool::submit: what is started and what is submitted begins in the order in which the pool got it.
// Thread     one of the pool's, or one inside run() that waits; it may fork. start() returns without waiting.
// Completes  once: set_value(), or set_stopped() if a stop was requested before its turn, or the pool has ended or is
//            ending, or start() is called in a child process. There are no errors.
// Pool ends  what has not begun completes with set_stopped() on the thread that ends the pool. The scheduler, and its
//            senders, refer to the pool; they must not be used afterwards.
// Memory     in the operation state.
// Cost       start(): as pool::submit without the allocation; on a thread outside the pool, two further turns of the
//            pool's lock.
// Libraries  a library whose operation has been started stays in memory.
// Source     P2300R10, with member functions in place of tag_invoke (P2855).
#pragma once

#include <muster/base/detail/shared_object.hpp>  // pin_once
#include <muster/fork/detail/injector.hpp>       // injected
#include <muster/fork/detail/scheduler.hpp>      // inject_from_anywhere
#include <muster/fork/pool.hpp>                  // pool

#include <utility>  // std::forward, std::move

namespace muster::inline MUSTER_ABI {

/// Names for code that calls the members itself, and the pattern for those of a library. A receiver has set_value() and
/// set_stopped(), and may have get_stop_token().
struct member_names {
  /// The tag of schedulers.
  struct scheduler_t {};
  /// The tag of senders.
  struct sender_t {};
  /// The tag of operations.
  struct operation_state_t {};
  /// Completes an operation that has had its turn.
  struct set_value_t {};
  /// Completes an operation that will have none.
  struct set_stopped_t {};
  /// How a sender may complete.
  template <class...>
  struct completion_signatures {};
  /// Asks a sender where it completes.
  template <class>
  struct get_completion_scheduler_t {};

  /// True if the receiver's stop token says so.
  template <class Receiver>
  static bool stop_requested(const Receiver& of) noexcept {
    if constexpr (requires { of.get_stop_token(); }) return of.get_stop_token().stop_requested();
    else return false;
  }
  /// Calls the receiver's function.
  template <class Receiver>
  static void set_value(Receiver&& to) noexcept {
    std::forward<Receiver>(to).set_value();
  }
  /// Calls the receiver's function.
  template <class Receiver>
  static void set_stopped(Receiver&& to) noexcept {
    std::forward<Receiver>(to).set_stopped();
  }
};

/// A pool, as a scheduler of P2300. Those of the same pool are equal.
template <class Names>
class pool_scheduler {
 public:
  /// Says that it is one.
  using scheduler_concept = typename Names::scheduler_t;

  /// An operation between start() and its completion; it must live until then.
  template <class Receiver>
  class operation final : private detail::injected {
   public:
    /// Says that it is one.
    using operation_state_concept = typename Names::operation_state_t;

    operation(detail::pool_core& in, Receiver&& to)
        : injected(&run, &drop, &nothing_waits_for_it), pool_(in), to_(std::move(to)) {
      // The code that completes it is in the library that has made this.
      pin_once<operation>(&run);
    }
    /// Gives the operation to the pool, once.
    void start() noexcept {
      if (!pool_.is_ours() || Names::stop_requested(to_) ||
          !detail::inject_from_anywhere(pool_.injected_functions, *this))
        Names::set_stopped(std::move(to_));
    }

   private:
    /// As in schedule.hpp: the operation may end before its execution does.
    static constexpr char nothing_waits_for_it = 0;

    static void run(injected& of) noexcept {
      auto& here = static_cast<operation&>(of);
      if (Names::stop_requested(here.to_)) Names::set_stopped(std::move(here.to_));
      else Names::set_value(std::move(here.to_));
    }
    static void drop(injected& of) noexcept { Names::set_stopped(std::move(static_cast<operation&>(of).to_)); }

    detail::pool_core& pool_;
    Receiver to_;
  };

  /// Completes on a thread of the pool.
  class sender {
   public:
    /// Says that it is one.
    using sender_concept = typename Names::sender_t;
    /// set_value() or set_stopped(), both without arguments.
    using completion_signatures =
        typename Names::template completion_signatures<typename Names::set_value_t(), typename Names::set_stopped_t()>;

    /// Answers questions about the sender.
    struct env {
      /// Where it completes.
      pool_scheduler query(
          typename Names::template get_completion_scheduler_t<typename Names::set_value_t>) const noexcept {
        return of;
      }
      pool_scheduler of;  ///< the answer
    };

    /// Makes an operation; start() begins it.
    template <class Receiver>
    operation<Receiver> connect(Receiver to) const {
      return {*of_.pool_, std::move(to)};
    }
    /// The answers about this sender.
    env get_env() const noexcept { return {of_}; }

   private:
    friend pool_scheduler;
    explicit sender(pool_scheduler of) noexcept : of_(of) {}
    pool_scheduler of_;
  };

  /// Returns a sender that completes on a thread of the pool.
  sender schedule() const noexcept { return sender(*this); }
  /// True if the pool is the same.
  bool operator==(const pool_scheduler&) const noexcept = default;

 private:
  friend pool;
  explicit pool_scheduler(detail::pool_core& of) noexcept : pool_(&of) {}
  detail::pool_core* pool_;
};

template <class Names>
pool_scheduler<Names> pool::scheduler() noexcept {
  return pool_scheduler<Names>(core_);
}

}  // namespace muster::inline MUSTER_ABI
