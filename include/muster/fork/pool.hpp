// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pool.hpp: a pool of worker threads that execute forked functions.
//
// Workers    by default as many as the process can run at once. The thread that calls run() is one of them. There are
//            fewer if the system cannot create enough threads.
// Threads    at most the workers, the threads that call run(), and pool_options::substitutes, which replace workers
//            that sleep in joins.
// Idle       a worker without work sleeps after a millisecond. Only new work wakes it.
// Nesting    run() directly within run() of the same pool is a plain call. Several threads may call run() at once; each
//            becomes a worker. Pools are independent of each other.
// Fibers     a fiber may call run(); its forks are joined on its own stack. While it waits in a join, the other fibers
//            of its thread run.
// fork(2)    a child process has none of the pool's threads: run() throws std::logic_error there; make a new pool.
//            A child forked inside run() may execute code that does not fork, until it calls exec or _exit. If it joins
//            something that a thread of its parent has stolen, it ends with a message.
// Signals    fork_engine::barrier handles SIGURG and passes signals that it did not send to the previous handler. The
//            other engine does not use it.
// Errors     std::invalid_argument for no workers, for more than 960 substitutes, or for stacks below 64 KiB or too
//            small for thread-local data;
//            std::runtime_error for an engine that is not possible here; std::bad_alloc.
#pragma once

#include <muster/base/library.hpp>              // keep_library_of
#include <muster/base/parallelism.hpp>          // available_parallelism
#include <muster/fork/detail/barrier/join.hpp>  // barrier_hooks
#include <muster/fork/detail/call.hpp>          // call_as
#include <muster/fork/detail/scheduler.hpp>     // pool_core, worker

#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint64_t
#include <stdexcept>     // std::invalid_argument
#include <string>        // what is not possible
#include <system_error>  // no more threads
#include <utility>       // std::forward

namespace muster::inline MUSTER_ABI {

/// How workers find forks to steal. A program has the same results with each engine.
enum class fork_engine {
  automatic,  ///< barrier, if the program is compiled with MUSTER_FORK_BARRIER and the system allows it
  watermark,  ///< records on the stack, linked into a list
  barrier,    ///< a fork writes nothing: its return address is replaced when a thief asks
};

struct pool_options {
  unsigned workers = available_parallelism();        ///< including the thread that calls run()
  std::size_t stack_bytes = std::size_t{256} << 20;  ///< of each thread; reserved, not touched
  bool publish_always = false;                       ///< every fork can be stolen immediately: slow, for tests
  fork_engine engine = fork_engine::automatic;
  steal_share share = steal_share::half;  ///< how much a worker offers when asked; the other values are for comparison
  unsigned substitutes = 0;               ///< extra threads that may replace workers that sleep in joins
};

/// Counts of a pool since its creation. Cycles are those of the processor's time-stamp counter, as in muster::cycles().
struct pool_statistics {
  std::uint64_t thefts = 0;             ///< second halves of forks, and asyncs, that another worker took
  std::uint64_t answers = 0;            ///< times that workers answered a request
  std::uint64_t offered = 0;            ///< forks that these answers offered
  std::uint64_t returns = 0;            ///< joins of forks that had been offered
  std::uint64_t publishing_cycles = 0;  ///< owners' cycles for answering
  std::uint64_t returning_cycles = 0;   ///< owners' cycles for joining offered forks, without the waiting
  std::uint64_t waiting_cycles = 0;     ///< owners' cycles waiting for thieves, including work executed meanwhile
  std::uint64_t taking_cycles = 0;      ///< thieves' cycles from finding an offer to beginning to execute it
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

  /// The number of workers. Smaller than pool_options::workers if the system could not create enough threads.
  unsigned workers() const noexcept { return workers_; }

  /// The engine in use.
  fork_engine engine() const noexcept {
    return core_.forks.apart || no_barrier() != nullptr ? fork_engine::watermark : fork_engine::barrier;
  }
  /// The cost of stealing so far. Exact while no thread is inside run().
  pool_statistics statistics() const noexcept {
    pool_statistics sum;
    for (unsigned i = 0; i < core_.made(); ++i) add(sum, core_.at(i).forks.tasks().counts);
    return sum;
  }
  /// Returns null, or the reason why fork_engine::barrier is not possible in this process. The first call asks the
  /// system and, if it is possible, installs a handler for SIGURG.
  static const char* no_barrier() noexcept { return detail::worker::no_barrier(); }

  /// Makes this thread a worker of the pool and calls function(), or function(context&) if it takes one. Returns its
  /// result; its exceptions propagate.
  template <class F>
  detail::result_of<F> run(F&& function) {
    core_.refuse_in_child();
    if (detail::worker* const now = detail::worker::current(); now != nullptr && &now->pool == &core_)
      return detail::call_as(*now, function);
    const detail::entered_pool here(core_);
    return detail::call_as(*here.self, function);
  }

  /// The default pool, for forks outside any pool. Created at first use, and again in a child process; never destroyed.
  static pool& shared() {
    static sync::atomic<pool*> one{nullptr};
    // (1) acquire: pairs with (2).
    pool* now = one.load(std::memory_order_acquire);
    while (now == nullptr || !now->core_.is_ours()) {
      auto* const made = new pool;
      keep_library_of(reinterpret_cast<const void*>(&pool::shared));  // its threads never end
      // (2) acq_rel, or acquire if another thread was first: pairs with (1).
      if (one.compare_exchange_strong(now, made, std::memory_order_acq_rel, std::memory_order_acquire)) return *made;
      delete made;
    }
    return *now;
  }

 private:
  static void add(pool_statistics& sum, const detail::steal_counts& more) noexcept {
    sum.thefts += more.thefts.load(std::memory_order_relaxed);
    sum.answers += more.answers.load(std::memory_order_relaxed);
    sum.offered += more.offered.load(std::memory_order_relaxed);
    sum.returns += more.returns.load(std::memory_order_relaxed);
    sum.publishing_cycles += more.publishing.load(std::memory_order_relaxed);
    sum.returning_cycles += more.returning.load(std::memory_order_relaxed);
    sum.waiting_cycles += more.waiting.load(std::memory_order_relaxed);
    sum.taking_cycles += more.taking.load(std::memory_order_relaxed);
  }

  detail::pool_core core_;
  unsigned workers_ = 1;
};

/// Declared in call.hpp.
template <class F>
detail::result_of<F> detail::run_outside_pool(F&& function) {
  return pool::shared().run(function);
}

}  // namespace muster::inline MUSTER_ABI
