// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pool.hpp: the threads that execute what programs fork.
//
// Workers    as many as the process can run at once, or as many as asked for; the thread that calls run() is one of
//            them. When the system has no more threads to give, there are fewer.
// Threads    no more than the workers and the threads that call run(); and pool_options::substitutes, which take the
//            places of workers that sleep in joins.
// Idle       workers without work sleep after a millisecond, and are woken by work only.
// Nesting    run() directly within run() of the same pool is a call. Several threads may run() at once: each takes
//            part. Several pools are independent.
// Fibers     a fiber may run(); what it forks is joined on its own stack. While it waits in a join, the other fibers of
//            its thread run.
// fork(2)    a child process has none of the pool's threads: run() throws std::logic_error there; make a new pool.
//            A child that is cloned inside run() may execute what forks nothing, until it calls exec or _exit. When it
//            joins what a thread of its parent has taken, it is ended with a message.
// Signals    fork_engine::barrier uses SIGURG, and gives those that it has not sent to who has handled it before. The
//            other engine leaves it alone.
// Errors     std::invalid_argument for no workers, for more than 960 substitutes, or for stacks below 64 KiB, or too
//            small for thread-local data;
//            std::runtime_error for an engine that is not possible here; std::bad_alloc.
#pragma once

#include <muster/base/library.hpp>                    // keep_library_of
#include <muster/base/parallelism.hpp>                // available_parallelism
#include <muster/fork/engine/barrier/frame_work.hpp>  // came_to_barrier
#include <muster/fork/impl/work.hpp>                  // pool_core, worker

#include <concepts>      // std::invocable
#include <cstddef>       // std::size_t
#include <stdexcept>     // std::invalid_argument
#include <string>        // what is not possible
#include <system_error>  // no more threads
#include <type_traits>   // std::invoke_result_t
#include <utility>       // std::forward
#include <variant>       // std::monostate

namespace muster::inline MUSTER_ABI {

class context;

namespace detail {

/// What F returns, when it is called with a context& if it takes one.
template <class F>
using result_of = typename std::conditional_t<std::invocable<F&, context&>, std::invoke_result<F&, context&>,
                                              std::invoke_result<F&>>::type;
template <class R>
using result_or_nothing = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

}  // namespace detail

/// How forks are found by those who look for work. The same program gives the same results with each.
enum class fork_engine {
  automatic,  ///< barrier, where the program has been compiled with MUSTER_FORK_BARRIER and the system allows it
  watermark,  ///< records on the stack, linked into a list
  barrier,    ///< nothing is written at a fork: its return address is replaced when somebody asks
};

struct pool_options {
  unsigned workers = available_parallelism();        ///< that execute at once, with the thread that calls run()
  std::size_t stack_bytes = std::size_t{256} << 20;  ///< of each thread; reserved, not filled
  bool publish_always = false;                       ///< every fork can be stolen at once: slow, for tests
  fork_engine engine = fork_engine::automatic;
  steal_share share = steal_share::half;  ///< what a worker offers that is asked; others are for comparison
  unsigned substitutes = 0;               ///< further threads that may take the places of workers that sleep in joins
};

class pool {
 public:
  explicit pool(const pool_options& options = {})
      : core_({.always = options.publish_always,
               .apart = options.engine == fork_engine::watermark,
               .share = options.share},
              options.stack_bytes, options.substitutes) {
    if (options.engine == fork_engine::barrier)  // no_barrier() takes the signal
      if (const char* const why = no_barrier(); why != nullptr)
        throw std::runtime_error(std::string("pool_options::engine: barrier is not possible: ") + why);
    if (options.workers == 0) throw std::invalid_argument("pool_options::workers is 0; a pool needs at least one");
    if (options.stack_bytes < std::size_t{64} << 10U)
      throw std::invalid_argument("pool_options::stack_bytes is less than 64 KiB, which is too little for a thread");
    if (constexpr unsigned most = detail::pool_core::most_threads; options.substitutes > most)
      throw std::invalid_argument("pool_options::substitutes is " + std::to_string(options.substitutes) +
                                  "; a pool has at most " + std::to_string(most) + " threads: ask for no more");
    for (; workers_ < options.workers; ++workers_) try {
        core_.start();
      } catch (const std::system_error& error) {
        if (error.code() == std::errc::invalid_argument)
          throw std::invalid_argument(
              "pool_options::stack_bytes is too little for a thread of this program: its thread-local data lie on the "
              "stack as well; ask for more");
        break;  // fewer workers
      }
  }
  /// No thread may be inside run().
  ~pool() = default;
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  /// That execute at once. Fewer than asked for when the system has no more threads.
  unsigned workers() const noexcept { return workers_; }

  /// The one that is used.
  fork_engine engine() const noexcept {
    return core_.forks.apart || no_barrier() != nullptr ? fork_engine::watermark : fork_engine::barrier;
  }
  /// What stealing has cost so far. Exact while nobody is inside run().
  pool_statistics statistics() const noexcept {
    pool_statistics sum;
    for (unsigned i = 0; i < core_.made(); ++i) core_.at(i).forks.counts.add_to(sum);
    return sum;
  }
  /// Null, or why fork_engine::barrier is not possible in this process. The first call asks the system, and handles
  /// SIGURG from then on if it is possible.
  static const char* no_barrier() noexcept { return detail::worker::no_barrier(); }

  /// Calls function() on this thread, as a worker of the pool, and returns its result or throws what it throws. If the
  /// function takes a context&, it is given one.
  template <class F>
  detail::result_of<F> run(F&& function);

  /// The pool of those who fork outside of any: made at the first use, again in a child process, and never destroyed.
  static pool& shared() {
    static sync::atomic<pool*> one{nullptr};
    // (1) acquire: pairs with (2).
    pool* now = one.load(std::memory_order_acquire);
    while (now == nullptr || !now->core_.is_ours()) {
      auto* const made = new pool;
      keep_library_of(reinterpret_cast<const void*>(&pool::shared));  // its threads do not end
      // (2) acq_rel, or acquire when another was faster: pairs with (1).
      if (one.compare_exchange_strong(now, made, std::memory_order_acq_rel, std::memory_order_acquire)) return *made;
      delete made;
    }
    return *now;
  }

 private:
  detail::pool_core core_;
  unsigned workers_ = 1;
};

}  // namespace muster::inline MUSTER_ABI
