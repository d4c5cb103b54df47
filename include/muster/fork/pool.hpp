// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pool.hpp: a pool of worker threads that execute forked functions.
//
// Workers    by default as many as the process can run at once. The thread that calls run() is one of them. There are
//            fewer if the system cannot create enough threads.
// Threads    at most as many as there are workers, threads that call run(), and pool_options::substitutes together. A
//            substitute replaces a worker that sleeps in a join.
// Idle       a worker without work sleeps after a millisecond. Only new work wakes it.
// Nesting    run() directly within run() of the same pool is a plain call. Several threads may call run() at once; each
//            becomes a worker. Pools are independent of each other.
// Parts      part(n) is a pool without threads of its own, in which at most n of this pool's workers work at a time.
// Fibers     a fiber may call run(); its forks are joined on its own stack. While it waits in a join, the other fibers
//            of its thread run.
// fork(2)    a child process has none of the pool's threads: run() throws std::logic_error there; make a new pool.
//            A child forked inside run() may execute code that does not fork, until it calls exec or _exit. If the
//            child joins a fork that a thread of its parent has stolen, it ends with a message.
// Observers  pool_options::on_start and on_end are called by the pool's own threads, inside the pool: they may fork.
// Signals    fork_engine::barrier handles SIGURG and passes signals that it did not send to the previous handler. The
//            other engine does not use SIGURG.
// Cost       run(): O(1), a mutex and two read-modify-writes to enter, and as many to leave; directly within run(),
//            none. run_on_all(): O(threads); it wakes all of them. Construction: workers() − 1 threads; part(n): O(n),
//            no threads. worker_index(): O(1); statistics(): O(workers). Forks: see fork2.hpp.
// Errors     std::invalid_argument for a pool or part without workers, for more than 960 substitutes, and for stacks
//            below 64 KiB (on AArch64 128 KiB) or too small for thread-local data; std::runtime_error for an engine
//            that is not possible here; std::bad_alloc.
#pragma once

#include <muster/base/detail/exception.hpp>      // capture_exception
#include <muster/base/detail/process.hpp>        // process_generation
#include <muster/base/detail/shared_object.hpp>  // pin_shared_object
#include <muster/base/parallelism.hpp>           // available_parallelism
#include <muster/fork/detail/barrier/join.hpp>   // barrier_hooks
#include <muster/fork/detail/call.hpp>           // call_as
#include <muster/fork/detail/injector.hpp>       // injected
#include <muster/fork/detail/scheduler.hpp>      // pool_core, worker

#include <algorithm>     // std::min
#include <concepts>      // std::integral
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint64_t
#include <exception>     // std::exception_ptr
#include <functional>    // pool_options
#include <optional>      // worker_index
#include <stdexcept>     // std::invalid_argument
#include <string>        // what is not possible
#include <system_error>  // no more threads
#include <type_traits>   // std::decay_t
#include <utility>       // std::in_range

namespace muster::inline MUSTER_ABI {

/// How workers find forks to steal. A program has the same results with each engine.
enum class fork_engine {
  automatic,  ///< barrier, if the program is compiled with MUSTER_FORK_BARRIER and the system allows it
  watermark,  ///< records on the stack, linked into a list
  barrier,    ///< a fork writes nothing: its return address is replaced when a thief requests work
};

/// Options of a pool.
struct pool_options {
  unsigned workers = available_parallelism();        ///< including the thread that calls run()
  std::size_t stack_bytes = std::size_t{256} << 20;  ///< of each thread; reserved, not touched
  bool publish_always = false;                       ///< every fork can be stolen immediately: slow, for tests
  /// How workers find the forks that they offer to thieves.
  fork_engine engine = fork_engine::automatic;
  steal_share share =
      steal_share::half;     ///< how much a worker offers at a request; the other values are for comparison
  unsigned substitutes = 0;  ///< extra threads that may replace workers that sleep in joins

  // These concern the pool's own threads, not the threads that call run().
  std::string name = {};  ///< names a thread by as much of this as fits, '-' and the worker's index
  bool pin = false;       ///< each thread is pinned to one processor, the next thread to the next processor
  std::function<void(unsigned index)> on_start = {};  ///< called by each when it begins; must not throw
  std::function<void(unsigned index)> on_end = {};    ///< called by each before it ends; must not throw
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

/// The exception of a function that was given to a pool and had not begun when the pool ended.
class broken_promise : public std::runtime_error {
 public:
  /// The message says that the pool has ended.
  broken_promise() : runtime_error("the pool has ended before it has begun this function") {}
};

template <class T>
class future;
template <class Names>
class pool_scheduler;
struct member_names;
namespace detail {
/// result_of<F>; or void if F cannot be called, which pool::run and others then report by a static_assert.
template <class F>
struct called_function {
  using result = void;
};
template <class F>
  requires(std::invocable<F&> || std::invocable<F&, context&>)
struct called_function<F> {
  using result = result_of<F>;
};
struct no_stop {};
/// Makes a coroutine continue in a pool, see schedule.hpp. no_stop: for a schedule() without a stop_token.
template <class Stop>
class schedule_operation;
template <class F>
using future_of = future<typename called_function<std::decay_t<F>>::result>;
}  // namespace detail

class pool {
 public:
  /// A pool with this many workers and otherwise the default options.
  template <std::integral Count>
  explicit pool(Count workers) : pool(pool_options{.workers = at_least_one(workers)}) {}
  explicit pool(const pool_options& options = {})
      : core_({.always = options.publish_always,
               .force_watermark = options.engine == fork_engine::watermark,
               .share = options.share},
              options.stack_bytes, options.substitutes,
              {.name = options.name, .pin = options.pin, .on_start = options.on_start, .on_end = options.on_end}) {
    if (options.engine == fork_engine::barrier)  // barrier_unavailable_reason() takes the signal
      if (const char* const why = barrier_unavailable_reason(); why != nullptr)
        throw std::runtime_error(std::string("pool_options::engine: barrier is not possible: ") + why);
    if (options.workers == 0) throw std::invalid_argument("pool_options::workers is 0; a pool needs at least one");
    if (options.stack_bytes < std::size_t{64} << 10U)
      throw std::invalid_argument("pool_options::stack_bytes is less than 64 KiB, which is too little for a thread");
    if (constexpr unsigned most = detail::pool_core::most_threads; options.substitutes > most)
      throw std::invalid_argument("pool_options::substitutes is " + std::to_string(options.substitutes) +
                                  "; it must be at most " + std::to_string(most) + ", the most threads of a pool");
    for (; workers_ < options.workers; ++workers_) try {
        core_.start();
      } catch (const std::system_error& error) {
        if (error.code() == std::errc::invalid_argument)
          throw std::invalid_argument(
              "pool_options::stack_bytes is too little for a thread: some systems need more than 64 KiB (128 on 64-bit "
              "Arm), and the program's thread-local data are on the stack as well; ask for more");
        break;  // fewer workers
      }
  }
  /// No thread may be inside run(), and no part may exist. Submitted functions that have not begun are dropped, and
  /// their promises broken.
  ~pool() = default;
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  /// A pool in which at most `workers` of this pool's workers work at a time; all of them if this pool has fewer. The
  /// part must end before this pool. Threads of this pool enter the part when there is work in it, and leave after a
  /// millisecond without work. A thread that calls run() of the part counts as one of its workers. Parts may be nested,
  /// and several may be in use at once.
  template <std::integral Count>
  [[nodiscard]] pool part(Count workers) {
    return {*this, at_least_one(workers)};
  }

  /// The number of workers. Smaller than pool_options::workers if the system could not create enough threads.
  unsigned workers() const noexcept { return workers_; }

  /// The calling thread's index among the pool's workers; nothing if it is not directly inside the pool. The indices of
  /// threads that are inside at the same time differ. Each is less than the sum of workers(),
  /// pool_options::substitutes, and the number of threads that are inside run() or wait for futures or groups at the
  /// same time. A thread of the pool keeps its index; other threads get one when they enter.
  std::optional<unsigned> worker_index() const noexcept {
    const detail::worker* const now = detail::worker::current();
    if (now == nullptr || &now->pool != &core_) return std::nullopt;
    return now->number;
  }

  /// The engine in use.
  fork_engine engine() const noexcept {
    return core_.forks.force_watermark || barrier_unavailable_reason() != nullptr ? fork_engine::watermark
                                                                                  : fork_engine::barrier;
  }
  /// The cost of stealing so far. Exact while no thread is inside run().
  pool_statistics statistics() const noexcept {
    pool_statistics sum;
    for (unsigned i = 0; i < core_.made(); ++i) add(sum, core_.at(i).forks.tasks().counts);
    return sum;
  }
  /// Returns null, or the reason why fork_engine::barrier is not possible in this process. The first call asks the
  /// system and, if it is possible, installs a handler for SIGURG.
  static const char* barrier_unavailable_reason() noexcept { return detail::worker::barrier_unavailable_reason(); }

  /// Makes this thread a worker of the pool and calls function(), or function(context&) if it takes one. Returns its
  /// result; its exceptions propagate.
  template <class F>
  typename detail::called_function<F>::result run(F&& function) {
    constexpr bool fits = std::invocable<F&> || std::invocable<F&, context&>;
    static_assert(
        fits, "pool::run takes a function of no arguments, or of a muster::context: bind its arguments in a lambda");
    core_.refuse_in_child();
    if (detail::worker* const now = detail::worker::current(); now != nullptr && &now->pool == &core_)
      if constexpr (fits) return detail::call_as(*now, function);
    const detail::entered_pool here(core_);
    if constexpr (fits) return detail::call_as(*here.self, function);
  }

  /// Calls function(index), or function(), once on each of the pool's threads, and once on this thread, which is a
  /// worker meanwhile. Returns when all calls have ended, and rethrows the first exception. The index is that of
  /// worker_index(). A busy thread calls the function as soon as its present work ends, before it takes other work.
  /// Throws std::logic_error inside the pool, where a busy thread could wait for the caller.
  template <class F>
  void run_on_all(F&& function) {
    constexpr bool fits = std::invocable<F&, unsigned> || std::invocable<F&>;
    static_assert(fits, "pool::run_on_all takes a function of a worker's index, an unsigned, or of no arguments");
    core_.refuse_in_child();
    if (core_.lender() != nullptr)
      throw std::logic_error(
          "pool::run_on_all: called for a part of a pool, which has no threads of its own; call it "
          "for the pool");
    // This also detects calls inside a run() of another pool, inside a part, and in a fiber that a thread of the pool
    // joins.
    if (worker_index().has_value() || core_.has_caller_inside())
      throw std::logic_error(
          "pool::run_on_all: called inside the pool, where a thread may wait for the caller and never answer; call it "
          "outside");
    if constexpr (fits) {
      call_on_all<std::remove_reference_t<F>> one(function);
      {
        const detail::entered_pool here(core_);
        core_.announce(one);
        one.end(one.run(*here.self));
      }
      core_.await(one);
      one.rethrow();
    }
  }

  /// Gives function to the pool, and returns the future of its result without waiting. Include muster/fork/future.hpp.
  template <class F>
  detail::future_of<F> submit(F&& function);

  /// For coroutines: `co_await pool.schedule();` continues on a thread of the pool. With a std::stop_token, co_await
  /// returns false if a stop was requested before. Include muster/fork/schedule.hpp.
  detail::schedule_operation<detail::no_stop> schedule() noexcept;
  template <class Stop>
  detail::schedule_operation<Stop> schedule(Stop stop) noexcept;

  /// Used by async_pop and async_push to resume a coroutine in the pool, see queue/async.hpp. Allocates nothing.
  template <class Operation>
  class resumption;

  /// The pool as a scheduler of P2300. Include muster/fork/execution.hpp.
  template <class Names = member_names>
  pool_scheduler<Names> scheduler() noexcept;

  /// The default pool, for forks outside any pool. Created at first use, and again in a child process; never destroyed.
  static pool& shared() {
    sync::atomic<pool*>& one = the_shared();
    // (1) acquire: pairs with (2).
    pool* now = one.load(std::memory_order_acquire);
    while (now == nullptr || !now->core_.is_ours()) {
      // (3) acquire: pairs with (4).
      const pool_options* const options = shared_options().load(std::memory_order_acquire);
      auto* const made = options == nullptr ? new pool : new pool(*options);
      pin_shared_object(reinterpret_cast<const void*>(&pool::shared));  // its threads never end
      // (2) acq_rel, or acquire if another thread was first: pairs with (1).
      if (one.compare_exchange_strong(now, made, std::memory_order_acq_rel, std::memory_order_acquire)) return *made;
      delete made;
    }
    return *now;
  }
  /// Chooses the options of the default pool. Call it once, before the first use of that pool; later it throws
  /// std::logic_error. Wrong options are reported by the first use.
  static void configure_shared(const pool_options& options) {
    if (the_shared().load(std::memory_order_relaxed) != nullptr)
      throw std::logic_error(
          "pool::configure_shared: the default pool exists already; configure it before the first fork outside a pool");
    const auto* const own = new pool_options(options);  // forever: a child process may need it again
    const pool_options* none = nullptr;
    // (4) release: pairs with (3).
    if (shared_options().compare_exchange_strong(none, own, std::memory_order_release, std::memory_order_relaxed))
      return;
    delete own;
    throw std::logic_error("pool::configure_shared: called a second time; one place of a program chooses the options");
  }

 private:
  template <class...>
  friend class pipeline;
  friend class task_graph;
  friend class task_group;

  template <class F>
  class call_on_all : public detail::announcement {
   public:
    explicit call_on_all(F& function) noexcept : announcement(&call_here), function_(function) {}

   private:
    static std::exception_ptr call_here(announcement& one, detail::worker& on) noexcept {
      try {
        F& function = static_cast<call_on_all&>(one).function_;
        if constexpr (std::invocable<F&, unsigned>) function(on.number);
        else function();
        return nullptr;
      } catch (...) {
        return detail::capture_exception();
      }
    }

    F& function_;
  };

  /// For part().
  pool(pool& of, unsigned workers)
      : core_((of.core_.refuse_in_child(), of.core_), std::min(workers, of.workers_)),
        workers_(std::min(workers, of.workers_)) {}

  template <class Count>
  static unsigned at_least_one(Count workers) {
    if (std::in_range<unsigned>(workers) && workers > 0) return static_cast<unsigned>(workers);
    throw std::invalid_argument("a pool of " + std::to_string(workers) +
                                " workers is not possible; ask for at least 1");
  }

  static sync::atomic<pool*>& the_shared() noexcept {
    static sync::atomic<pool*> one{nullptr};
    return one;
  }
  static sync::atomic<const pool_options*>& shared_options() noexcept {
    static sync::atomic<const pool_options*> options{nullptr};
    return options;
  }

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

/// If the pool has ended, co_await throws broken_promise. The coroutine then continues on the thread that ended the
/// pool, or, later, on the thread that would have given it to the pool.
template <class Operation>
class pool::resumption : private detail::injected {
 public:
  /// one.resume() is called on a thread of the pool, once after each submit().
  resumption(pool& in, Operation& one) noexcept : injected(&run, &drop, &nothing_waits_for_it), pool_(in), one_(one) {}
  ~resumption() {
    if (home_ != nullptr) home_->release();
  }

  /// Called while the pool exists, before anything can resume the operation.
  void prepare() noexcept {
    if (home_ != nullptr) return;
    // Keeps the shared library loaded that contains the code by which the coroutine is resumed.
    pin_once<resumption>(&run);
    home_ = &pool_.core_.injected_functions;
    home_->refer();
  }
  /// Returns false if the caller must resume the operation, because no thread of the pool will. After it returns true,
  /// the operation may no longer exist.
  bool submit() noexcept {
    if (home_->is_of(process_generation()) && detail::inject_from_anywhere(*home_, *this)) return true;
    broken_ = true;
    return false;
  }
  /// Returns true if the pool ended before it resumed the operation.
  bool is_broken() const noexcept { return broken_; }
  /// Throws broken_promise if is_broken().
  void rethrow() const {
    if (broken_) throw broken_promise();
  }

 private:
  /// Its address identifies the work of a resumed coroutine, see injected::of(). It is not the address of `this`,
  /// because the coroutine may end the frame that holds this object.
  static constexpr char nothing_waits_for_it = 0;

  static void run(injected& of) noexcept { static_cast<resumption&>(of).one_.resume(); }
  static void drop(injected& of) noexcept {
    auto& here = static_cast<resumption&>(of);
    here.broken_ = true;
    here.one_.resume();
  }

  pool& pool_;
  Operation& one_;
  detail::injector* home_ = nullptr;  // which outlives the pool
  bool broken_ = false;
};

/// Declared in call.hpp.
template <class F>
detail::result_of<F> detail::run_outside_pool(F&& function) {
  return pool::shared().run(function);
}

}  // namespace muster::inline MUSTER_ABI
