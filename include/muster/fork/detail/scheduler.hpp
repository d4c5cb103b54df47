// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scheduler.hpp: the workers of a pool: how they look for work, and how they wait for stolen work; what they share, and
// the pool's threads.
//
// Looking    a worker without work takes offered tasks and requests more; it requests less often when tasks are too
//            small to pay for the steal. After fifty microseconds without an answer it publishes for an owner; after a
//            millisecond it sleeps.
// Waiting    a worker that waits for a stolen half, or for a scope, executes only parts of it (leapfrogging), from its
//            thief or from workers that stole parts of it. So it never runs anything that could wait for a lock that it
//            holds. After a fifth of a millisecond without such work it sleeps, and checks again after 1, 2, 4, 8, 8,
//            ... ms. If the pool may have substitutes, another thread replaces it, and it sleeps until its wait is
//            over.
// Injected   a worker without work also takes functions that were given to the pool from anywhere. From the first of
//            them on, the pool has one thread more, the standby. It is a worker while no thread is inside run();
//            otherwise it leaves the forks to the others and only executes injected functions that no idle worker
//            takes.
// Restraint  an idle worker leaves functions and nodes of graphs to other threads as long as those are faster without
//            it, see restraint.hpp.
// Announced  each thread of the pool executes an announcement once, when it next looks for work, before it takes
//            anything else. Announcements wake all threads, retired ones included.
// Parts      a part of a pool has no threads of its own, but places for those of the pool, its lender. A worker that
//            wakes a sleeper there gives the lender a function that enters the part and looks for work in it. After a
//            millisecond without work the function ends, and the place is vacant again. So threads that wait for
//            something of the lender execute nothing of the part, and a part's threads nothing of the lender.
// Workers    are created when a thread enters, and kept for reuse when it leaves.
// Stacks     a thread's stack is reserved, not touched: it uses memory as deep as the program calls. A thread that has
//            slept for a second returns it.
// fork(2)    the child has a copy of the pool without its threads. A pool records which process created it.
// Source     leapfrogging: Wagner and Calder, "Leapfrogging" (PPoPP 1993), which steals from the thief only.
//            Substitutes: Java's ForkJoinPool calls it compensation. The waiting thread keeps its stack, its
//            thread-local data and its locks; a parked stack that another thread resumes would lose the latter two.
#pragma once

#include <muster/base/detail/os_thread.hpp>       // os_thread
#include <muster/base/detail/process.hpp>         // process_generation
#include <muster/base/detail/reentrancy.hpp>      // reentrancy_scope
#include <muster/base/detail/shared_object.hpp>   // pin_once
#include <muster/base/detail/stack_bounds.hpp>    // current_stack
#include <muster/base/detail/stack_overflow.hpp>  // stack_overflow
#include <muster/base/detail/thread_state.hpp>    // worker_slot
#include <muster/base/detail/time.hpp>            // how long it has looked
#include <muster/base/parallelism.hpp>            // pin_this_thread
#include <muster/fork/detail/engine.hpp>          // selected_engine
#include <muster/fork/detail/group_count.hpp>     // group_count
#include <muster/fork/detail/injector.hpp>        // injector
#include <muster/fork/detail/parking.hpp>         // idle_workers, parker
#include <muster/fork/detail/restraint.hpp>       // restraint
#include <muster/fork/detail/task.hpp>            // task, completion_count
#include <muster/fork/detail/trace.hpp>           // traced

#include <algorithm>     // std::min
#include <array>         // the workers
#include <cerrno>        // EAGAIN
#include <compare>       // async_index
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint64_t
#include <exception>     // std::exception_ptr
#include <functional>    // thread_life
#include <memory>        // std::unique_ptr
#include <mutex>         // making workers
#include <stdexcept>     // std::length_error, std::logic_error
#include <string>        // thread_life
#include <system_error>  // std::system_error
#include <utility>       // std::exchange, std::move
#include <vector>        // free workers

namespace muster::inline MUSTER_ABI::detail {

class pool_core;
class worker;

/// How the threads of a pool begin and end. The functions get the worker's index.
struct thread_life {
  std::string name;  // empty: that of the thread that creates them
  bool pin = false;
  std::function<void(unsigned)> on_start, on_end;  // may be empty
};

/// The position of an async in the order of its scope: the number that the scope's owner had started then, including
/// this one; and, if another thread started it, the number that other threads had started.
struct async_index {
  std::uint64_t by_owner;
  std::uint64_t by_others;
  friend auto operator<=>(const async_index&, const async_index&) = default;
};

/// An async that is being executed, and its scope; a list on the stack, innermost first.
struct running_async {
  const scope_node* scope;
  async_index index;
  const running_async* outer;
};

/// A function that each thread of a pool calls once.
class announcement {
 public:
  /// Returns the exception that the function has thrown, or null.
  using action = std::exception_ptr (*)(announcement&, worker&) noexcept;
  explicit announcement(action to_run) noexcept : run_(to_run) {}
  announcement(const announcement&) = delete;
  announcement& operator=(const announcement&) = delete;

  std::exception_ptr run(worker& on) noexcept { return run_(*this, on); }
  /// The announcement may not exist afterwards. Called in the code of the thread, since the library of the function may
  /// be unloaded then.
  void end(std::exception_ptr error) noexcept { open_.end(std::move(error)); }
  /// Rethrows the first exception, when all calls have ended.
  void rethrow() {
    if (const std::exception_ptr thrown = open_.take_error(); thrown != nullptr) std::rethrow_exception(thrown);
  }

 private:
  friend class pool_core;
  const action run_;
  group_count open_;          // calls that have not ended
  std::uint64_t number_ = 0;  // under the pool's lock, as everything below
  announcement* next_ = nullptr;
};

/// In a part of a pool, a place for a thread that the pool lends. A token for the vacant place becomes a function that
/// is given to the pool.
class lent_place final : public parker, private injected {
 public:
  lent_place(pool_core& part, bool as_standby) noexcept
      : parker(&summon), injected(&enter, &drop), is_standby(as_standby), part_(part) {}
  /// Gives the function to the lender. `behind`: after the others that wait.
  inline void invite(bool behind) noexcept;
  /// Takes it back. Returns false if it is not there, or a thread has taken it.
  inline bool withdraw() noexcept;

  const bool is_standby;

 private:
  static void summon(parker& place) noexcept { static_cast<lent_place&>(place).invite(false); }
  static inline void enter(injected& of) noexcept;
  static inline void drop(injected& of) noexcept;

  pool_core& part_;
};

class worker {
 public:
  worker(pool_core& of, unsigned at, idle_workers& asleep, const engine_options& how) noexcept
      : forks(asleep, how), pool(of), number(at), dice_(at * 0x9e3779b97f4a7c15ULL + 1) {}

  /// Returns null, or the reason why forks cannot be found on the stack.
  static const char* barrier_unavailable_reason() noexcept { return selected_engine::unavailable_reason(); }
  /// Returns the calling thread's worker, or null. Each fiber has its own.
  static worker* current() noexcept { return static_cast<worker*>(native::worker_slot().worker); }

  /// True if a thief requests work of this worker, so that its next fork will be published.
  MUSTER_HOT bool work_requested() const noexcept { return forks.tasks().work_requested(); }
  /// Requests work of this worker. Called by thieves, and by its own loops.
  void request_work() noexcept { forks.tasks().request_work(); }
  bool has_offers() const noexcept { return forks.tasks().offers(); }
  /// True about once in so many calls.
  bool is_one_of(unsigned many) noexcept { return roll(many) == 0; }
  /// The number of workers that the pool has had so far.
  inline unsigned pool_size() const noexcept;

  /// Waits until the thief of `r` has finished it.
  MUSTER_COLD inline void await(task& r) noexcept;
  /// Waits until all asyncs of the scope have ended. Meanwhile executes asyncs offered for it, or for scopes within it.
  MUSTER_COLD inline void await(const scope_node& scope, completion_count& open) noexcept;
  /// Waits until target.is_over(). Meanwhile calls target.execute_some(this), which returns true if it has executed
  /// something, and executes parts of the injected function target.executed(). Sleeps in target.sleep(deadline), which
  /// may return early.
  template <class Target>
  void await_injected(Target& target);
  /// Executes a function that the caller has taken from the pool's injector.
  void execute_injected(injected& one) noexcept;
  /// How many functions an injected function may execute that it takes itself.
  unsigned most_further() const noexcept { return restraint_.is_on() ? 0 : 63; }
  /// It has executed so many.
  void count_further(unsigned functions) noexcept { further_ += functions; }
  /// It is about to execute a node of a graph that it has not taken.
  void count_node() noexcept { nodes_.store(nodes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  std::size_t nodes() const noexcept { return nodes_.load(std::memory_order_relaxed); }
  /// True if an async should be queued rather than run immediately: another worker requests work, or would find little.
  /// A queued async that this worker executes counts until it ends, so that the top of a recursion is queued.
  bool should_queue() const noexcept;
  bool can_publish_for_owners() const noexcept;
  /// Lets nested asyncs run immediately for a further part of the stack, from here on. Returns the previous floor.
  MUSTER_HOT std::uintptr_t allow_depth() noexcept;
  /// True if the stack is so deep that an async should be queued rather than run immediately.
  MUSTER_HOT bool is_deep() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < floor && is_too_deep();
  }
  /// Looks for work until the pool ends; or, as a thread that another pool lends, until it leaves its place.
  void work() noexcept;
  /// The same for a thread that is another pool's worker `as`, in the place at which it has come.
  inline void work_at(lent_place& at, const worker* as) noexcept;
  /// Where it waits for work.
  parker& bed() noexcept;
  /// For a thread with nothing on its stack: sleeps until its place is given a token. After a second, returns the
  /// unused part of its stack to the system. A lent thread leaves instead, or takes the token.
  void sleep_deeply() noexcept {
    if (lent_ != nullptr) {
      has_left_ = lent_->leave();
      return;
    }
    const traced slice(trace, slice_kind::sleep);
    if (place.park_until(clock::now() + std::chrono::seconds(1))) return;
    release_unused_stack();
    place.park();
  }

  /// For the standby, before it sleeps: true if injected functions have come since it was last asked, but it has
  /// executed none, or the others are faster.
  bool is_needlessly_awake(std::size_t operations) noexcept {
    const bool for_nothing = (!has_executed_ || restraint_.is_on()) && operations != operations_ && lent_ == nullptr;
    has_executed_ = false;
    operations_ = operations;
    return for_nothing;
  }
  void nap() noexcept {
    const traced slice(trace, slice_kind::sleep);
    place.park_until(clock::now() + first_nap);
  }

  selected_engine forks;
  pool_core& pool;
  const unsigned number;
  bool is_standby = false;
  bool has_own_thread = false;  // one of the pool's
  bool is_alone = false;        // nothing that it has begun can have forks: it only looks for work, or waits as a guest
  std::uint64_t heard = 0;      // of a thread of the pool: the number of the last announcement that it has executed
  parker place;
  const running_async* within = nullptr;
  std::uintptr_t floor = 0;         // an address in the stack: asyncs that run below it are deep
  std::uintptr_t lowest_floor = 0;  // three quarters of the stack are above it; 0 where the stack is not known
  trace_track* trace = nullptr;     // null unless the program is traced

 private:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration first_nap = std::chrono::milliseconds(1), longest_nap = 8 * first_nap;

  MUSTER_COLD inline bool is_too_deep() noexcept;
  template <class Steal>
  bool execute(const worker& from, Steal steal) noexcept;
  template <class Run>
  void execute_as(theft& now, Run run) noexcept;
  bool execute_next_injected() noexcept;
  /// The same for a worker that looks for work, since this time.
  bool execute_next_injected(clock::time_point since) noexcept;
  std::size_t done_by_others() const noexcept;
  void execute_announced() noexcept;
  template <class Steal>
  bool steal_and_execute(Steal steal) noexcept;
  /// Publishes for a random worker, which may not do so itself. Returns true if it offers something now.
  bool publish_for_any_owner() noexcept;
  template <class Sleep>
  bool sleep_in_join(clock::duration nap, Sleep sleep) noexcept;
  /// For a task or a scope that gives the token when it ends. Returns true if it has ended.
  template <class Awaited>
  bool sleep_in_join_until_ended(clock::duration nap, Awaited& it) noexcept {
    if (sleep_in_join(nap, [this](deadline until) noexcept { return place.park_until(until); })) return true;
    if (it.withdraw()) return false;
    place.park();
    return true;
  }
  template <class IsOver, class ExecuteSome, class Sleep>
  void await_by(IsOver is_over, ExecuteSome execute_some, Sleep sleep);
  bool sleep(clock::duration nap) noexcept;
  inline bool is_called_back() const noexcept;
  unsigned roll(unsigned sides) noexcept {
    dice_ ^= dice_ << 13U;
    dice_ ^= dice_ >> 7U;
    dice_ ^= dice_ << 17U;
    return static_cast<unsigned>((dice_ >> 32U) * sides >> 32U);
  }

  std::uint64_t dice_;
  sync::atomic<std::size_t> nodes_{0};  // of graphs, that it has executed and not taken
  restraint restraint_;                 // towards injected functions
  std::size_t operations_ = 0;          // of the pool's injector, when the standby was about to sleep
  bool has_executed_ = false;           // since then
  unsigned further_ = 0;                // injected functions that it has executed within others
  unsigned running_queued_ = 0;         // queued asyncs of its own that it is executing
  lent_place* lent_ = nullptr;          // of a lent thread: its place, and what it is in the lender
  const worker* host_ = nullptr;
  bool has_left_ = false;  // the place: another thread may be there
};
inline parker& worker::bed() noexcept { return lent_ != nullptr ? static_cast<parker&>(*lent_) : place; }

class pool_core {
 public:
  static constexpr unsigned most_workers = 1024, most_threads = 960;  // the rest is for threads that call run()

  pool_core(const engine_options& how, std::size_t stack_bytes, unsigned substitutes, thread_life life)
      : forks(how),
        injected_functions(*new injector(this, made_in_)),
        stack_bytes_(stack_bytes),
        most_substitutes_(substitutes),
        life_(std::move(life)),
        trace_(pool_trace::make(life_.name).release()) {
    sync::asymmetric_fences();  // the first call takes milliseconds if there are threads already
  }
  /// A part of another pool, with at most `workers` of its threads.
  pool_core(pool_core& lender, unsigned workers)
      : forks(lender.forks),
        injected_functions(*new injector(this, made_in_)),
        stack_bytes_(lender.stack_bytes_),
        most_substitutes_(0),
        trace_(pool_trace::make(lender.life_.name.empty() ? "part" : lender.life_.name + " (part)").release()),
        lender_(&lender) {
    // The code that lent threads execute is in the library that makes the part.
    pin_once<pool_core>(run_);
    places_.reserve(workers);
    while (places_.size() < workers)
      places_.push_back(std::make_unique<lent_place>(*this, places_.size() + 1 == workers));
    for (const auto& one : places_)
      if (!one->is_standby) asleep.announce(*one);
    standby_place_ = places_.back().get();
    has_standby_.store(true, std::memory_order_relaxed);
    standby_sleeps_.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(lender.mutex_);
    lender.parts_.push_back(this);
  }
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;
  /// Drops the injected functions that no thread has taken, and ends the threads. No thread may be inside run().
  ~pool_core() {
    MUSTER_CHECK(
        worker::current() == nullptr || &worker::current()->pool != this,
        "pool::~pool: called by a thread inside the pool, which would wait for itself; end it on another thread");
    if (is_ours()) {
      MUSTER_CHECK(parts_.empty(),
                   "pool::~pool: a part of the pool still exists, and would be without threads; end the parts first");
      injected_functions.close();
      while (injected* const one = injected_functions.take()) one->drop();
      // (3) release: pairs with (7).
      over.store(true, std::memory_order_release);
      // (4) full_fence: pairs with (10) and parking.hpp (5). A worker that announces itself later sees that it is over.
      sync::full_fence();
      if (lender_ != nullptr) end_part();
      while (asleep.anyone()) asleep.wake_one();
      wake_standby();
      {
        const std::lock_guard lock(mutex_);
        for (parker* one : spare_) one->unpark();
        if (standby_place_ != nullptr && lender_ == nullptr) standby_place_->unpark();  // it may nap
      }
      for (os_thread& one : threads_) one.join();
      injected_functions.await_guests();
      delete trace_;  // writes it; a child must not, and leaves it behind
    }
    for (unsigned i = 0; i < made(); ++i) delete &at(i);
    injected_functions.release_by_pool();
  }

  /// Gives a function to the pool. Returns false if the pool is ending. `needed`: as below; `refers`: as in put().
  bool inject(injected& one, injected_group* group = nullptr, bool nested = false, bool needed = true,
              bool refers = false) noexcept {
    sleepers seen;
    if (!injected_functions.put(one, group, nested, refers, [&] { seen = who_sleeps(); })) return false;
    wake_for_injected(seen, needed);
    return true;
  }
  /// The same for a function that the caller, a thread inside the pool, executes later if no other worker does. So the
  /// standby is neither created nor woken while it is superfluous.
  bool share(injected& one, injected_group& group) noexcept { return inject(one, &group, true, false); }
  /// The same for several. One worker is woken, which wakes the next.
  bool share(injected_chain& those) noexcept {
    sleepers seen;
    if (!injected_functions.put(those, [&] { seen = who_sleeps(); })) return false;
    wake_for_injected(seen, false);
    return true;
  }
  /// The threads that a function may need that is given to the pool. For the look() of injector::put().
  struct sleepers {
    bool a_worker, the_standby, no_standby;
  };
  sleepers who_sleeps() const noexcept {
    return {asleep.anyone(), standby_sleeps_.load(std::memory_order_relaxed),
            !has_standby_.load(std::memory_order_relaxed)};
  }
  /// Called after an injected function has been given to the pool, which has not ended yet. `needed`: the standby must
  /// execute it if there is no other idle worker.
  inline void wake_for_injected(const sleepers& seen, bool needed = true) noexcept;
  /// True if a thread may sleep that executes injected functions.
  bool may_wake() const noexcept { return asleep.anyone() || standby_sleeps_.load(std::memory_order_relaxed); }
  /// Announces a function to all threads that the pool has now. The caller, which is none of them, calls it as well.
  void announce(announcement& one) noexcept {
    {
      const std::lock_guard lock(mutex_);
      one.number_ = announced_.load(std::memory_order_relaxed) + 1;
      announcement** end = &announcements_;
      while (*end != nullptr) end = &(*end)->next_;
      *end = &one;
      for (std::size_t calls = threads_.size() + 1; calls > 0; --calls) one.open_.begin();
      announced_.store(one.number_, std::memory_order_relaxed);
      for (; !spare_.empty(); spare_.pop_back()) {
        spare_.back()->unpark();
        surplus_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    // (11) full_fence: pairs with (10) and parking.hpp (5). A thread that is about to sleep sees the number, or we see
    // the sleeper.
    sync::full_fence();
    while (asleep.anyone()) asleep.wake_one();
    wake_standby();
  }
  /// Waits until all calls of it have ended.
  void await(announcement& one) noexcept {
    while (!one.open_.is_over()) one.open_.sleep(no_deadline, [] { return false; });
    const std::lock_guard lock(mutex_);
    announcement** at = &announcements_;
    while (*at != &one) at = &(*at)->next_;
    *at = one.next_;
  }
  /// True if there are announcements that a thread of the pool has not executed. Relaxed: the lock orders the rest.
  bool has_announced(const worker& to) const noexcept { return announced_.load(std::memory_order_relaxed) != to.heard; }
  /// Returns the next one for a thread of the pool, or null.
  announcement* next_announced(worker& to) noexcept {
    const std::lock_guard lock(mutex_);
    announcement* one = announcements_;
    while (one != nullptr && one->number_ <= to.heard) one = one->next_;
    to.heard = one != nullptr ? one->number_ : announced_.load(std::memory_order_relaxed);
    return one;
  }

  /// Called by a worker that has taken something: there may be more.
  void wake_another() noexcept {
    if (!anybody_offers()) return;
    if (asleep.anyone()) asleep.wake_one();
    else if (injected_functions.has_any()) wake_standby();
  }
  /// True for the standby while other threads are inside run().
  bool is_superfluous(const worker& one) const noexcept { return one.is_standby && has_callers(); }
  /// The superfluous standby sleeps until there is an injected function. If it has been woken and another thread was
  /// faster, it naps instead, until functions come less often: so the threads that give them need not wake it.
  void stand_by(worker& one) noexcept {
    wake_another();  // it may have been woken for what it leaves to others
    const std::size_t operations = injected_functions.operations();
    if (one.is_needlessly_awake(operations)) return one.nap();
    if (!standby_is_needed() && !has_announced(one)) return one.sleep_deeply();
    if (!standby_sleeps_.exchange(false, std::memory_order_relaxed)) one.bed().park();
  }
  /// Returns true if the standby slept.
  bool wake_standby() noexcept {
    // (9) acquire: pairs with (8).
    const bool slept =
        standby_sleeps_.load(std::memory_order_relaxed) && standby_sleeps_.exchange(false, std::memory_order_acquire);
    if (slept) standby_place_->unpark();
    return slept;
  }
  /// A thread enters or leaves run().
  void count_caller(bool enters) noexcept { callers_.fetch_add(enters ? 1U : ~0U, std::memory_order_relaxed); }

  // --- A part of a pool.

  /// Null if it is no part.
  pool_core* lender() const noexcept { return lender_; }
  /// True if the calling thread is inside the pool or a part of it, with other pools or joined fibers in between, too.
  bool has_caller_inside() noexcept {
    if (reentrancy_scope::is_in(this)) return true;
    const std::lock_guard lock(mutex_);
    return std::any_of(parts_.begin(), parts_.end(), [](pool_core* one) { return one->has_caller_inside(); });
  }
  /// Gives the lender a function that brings one of its threads. Otherwise one that is there already may do.
  void invite(lent_place& to, injected& one, bool behind) noexcept {
    lent_.begin();
    const bool nested = !to.is_standby && !behind;
    if (over.load(std::memory_order_relaxed) || !lender_->inject(one, nullptr, nested, to.is_standby))
      lent_.end(nullptr);
  }
  /// True if functions wait that were given to the lender.
  bool lender_has_any() const noexcept { return lender_->injected_functions.has_any(); }
  /// Takes the function back. Returns false if a thread has taken it, or it is not there.
  bool withdraw(injected& one) noexcept {
    const bool taken = lender_->injected_functions.take(one);
    if (taken) lent_.end(nullptr);
    return taken;
  }
  /// A thread has left the part, or has not come.
  void end_visit() noexcept { lent_.end(nullptr); }
  /// A thread that cannot enter leaves its place to others, and is called again for functions that wait.
  void refuse(lent_place& place) noexcept {
    while (!place.leave()) {  // it will be called again for what the token was given for
    }
    if (!place.is_standby) {
      asleep.announce(place);
      for (unsigned i = 0; i < made(); ++i) at(i).request_work();
    } else if (standby_is_needed()) {
      sync::nap();  // whatever it cannot enter for may have changed by then
      wake_standby();
    }
  }

  /// Starts a worker thread. Throws std::system_error if the system cannot create one.
  void start(bool as_standby = false) {
    worker* const one = made() < most_threads ? take() : nullptr;
    if (one == nullptr)
      throw std::system_error(EAGAIN, std::generic_category(),
                              "pool: it already has 960 threads, the most that it can have");
    try {
      const std::lock_guard lock(mutex_);
      if (over.load(std::memory_order_relaxed)) throw std::system_error(EAGAIN, std::generic_category());
      threads_.reserve(threads_.size() + 1);
      one->is_standby = as_standby;
      one->heard = announced_.load(std::memory_order_relaxed);
      one->has_own_thread = true;
      if (as_standby) standby_place_ = &one->place;
      threads_.emplace_back(stack_bytes_, attributes_, run_, one);
    } catch (...) {
      one->is_standby = one->has_own_thread = false;
      give_back(*one);
      throw;
    }
  }

  /// Returns a worker for the calling thread's sole use, or null if there are too many.
  worker* take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      worker* const one = free_.back();
      free_.pop_back();
      reenter_pool();
      return one;
    }
    if (worker* const kept = injected_functions.take_kept()) {
      reenter_pool();
      return kept;
    }
    const unsigned n = made();
    if (n == most_workers) return nullptr;
    free_.reserve(n + 1);   // so that give_back does not allocate
    spare_.reserve(n + 1);  // nor retire_surplus
    auto* const one = new worker(*this, n, asleep, forks);
    if (trace_ != nullptr) one->trace = trace_->add_track(n);
    workers_[n] = one;
    // (1) release: pairs with (2). A thread that sees the number finds the worker.
    made_.store(n + 1, std::memory_order_release);
    // (5) full_fence: pairs with parking.hpp (5). A worker that is about to sleep has requested no work of this one.
    sync::full_fence();
    if (asleep.anyone()) one->request_work();
    reenter_pool();
    return one;
  }
  void give_back(worker& one) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(&one);
    leave_pool();
  }
  /// A worker's thread is in another pool, until reenter_pool().
  void leave_pool() noexcept { here_.fetch_sub(1, std::memory_order_relaxed); }
  void reenter_pool() noexcept { here_.fetch_add(1, std::memory_order_relaxed); }
  /// True if there are other workers than the caller's, or threads that can be lent.
  bool has_others() const noexcept {
    return here_.load(std::memory_order_relaxed) + (injected_functions.has_visitor() ? 1 : 0) > 1 || places_.size() > 1;
  }
  /// Keeps a worker for later guests, if there is one and this is no part of a pool.
  void keep_for_guests() noexcept {
    if (lender_ != nullptr) return;
    const std::lock_guard lock(mutex_);
    if (!free_.empty() && injected_functions.keep(*free_.back())) free_.pop_back();
  }
  /// True in the process that created the pool.
  bool is_ours() const noexcept { return made_in_ == process_generation(); }
  void refuse_in_child() const {
    if (!is_ours())
      throw std::logic_error(
          "pool::run: the pool's threads are in the parent of this process; make a pool in the child");
  }
  /// Called by a worker that waits for a thief. In a child process the thief does not exist: ends the process with a
  /// message.
  void end_child_that_waits() const noexcept {
    if (!is_ours())
      fail_check(
          "fork2: a child process joins a fork or an async that a thread of its parent executes, so the join would "
          "never end; a process forked inside pool::run must call exec or _exit before it returns to a join",
          __FILE__, __LINE__);
  }

  unsigned made() const noexcept {
    // (2) acquire: pairs with (1).
    return made_.load(std::memory_order_acquire);
  }
  worker& at(unsigned n) const noexcept { return *workers_[n]; }

  /// Requests work of all workers but `one`, the caller.
  void request_from_others(const worker& one) noexcept {
    for (unsigned i = 0; i < made(); ++i)
      if (&at(i) != &one) at(i).request_work();
  }
  bool anybody_offers() const noexcept {
    for (unsigned i = 0; i < made(); ++i)
      if (at(i).has_offers()) return true;
    return injected_functions.has_any();
  }

  // --- Substitutes, if the pool may have any. A worker that sleeps in a join lets another thread use its processor.
  // After it wakes there are more threads than workers, until a thread that looks for work retires.

  /// Returns true if another thread replaces the caller now; then call substitute_done(). Returns false if the pool has
  /// its maximum or the system cannot create more threads.
  bool add_substitute() noexcept {
    if (most_substitutes_ == 0) return false;
    {
      const std::lock_guard lock(mutex_);
      if (surplus_.load(std::memory_order_relaxed) != 0) {
        surplus_.fetch_sub(1, std::memory_order_relaxed);
        return true;
      }
      if (!spare_.empty()) {
        spare_.back()->unpark();
        spare_.pop_back();
        return true;
      }
      if (substitutes_ == most_substitutes_) return false;
      ++substitutes_;
    }
    try {
      start();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      --substitutes_;
      return false;
    }
    return true;
  }
  void substitute_done() noexcept { surplus_.fetch_add(1, std::memory_order_relaxed); }
  /// Called by a worker that looks for work. If there are too many threads, sleeps until it is needed and returns true.
  bool retire_surplus(worker& one) noexcept {
    if (surplus_.load(std::memory_order_relaxed) == 0 || one.is_standby) return false;
    {
      const std::lock_guard lock(mutex_);
      if (surplus_.load(std::memory_order_relaxed) == 0 || over.load(std::memory_order_relaxed)) return false;
      if (has_announced(one)) return false;
      surplus_.fetch_sub(1, std::memory_order_relaxed);
      spare_.push_back(&one.place);
    }
    // It may have been woken for work that it has not taken, or its own records may still be offered.
    if (anybody_offers() && asleep.anyone()) asleep.wake_one();
    one.sleep_deeply();
    return true;
  }

  const unsigned made_in_ = process_generation();
  const engine_options forks;  // how workers keep their forks
  idle_workers asleep;
  sync::atomic<bool> over{false};
  injector& injected_functions;  // futures refer to it as well

 private:
  inline void start_standby() noexcept;
  /// True if threads are inside run(), or a guest executes something.
  bool has_callers() const noexcept {
    return callers_.load(std::memory_order_relaxed) != 0 || injected_functions.has_visitor();
  }

  static void* run_thread(void* as) noexcept;
  /// The standby is about to sleep. Returns true if it is needed, and must look again or be woken.
  bool standby_is_needed() noexcept {
    // (8) release: pairs with (9).
    standby_sleeps_.store(true, std::memory_order_release);
    // (10) full_fence: pairs with (4), (11).
    sync::full_fence();
    return injected_functions.has_any_for_sleeper() || over.load(std::memory_order_relaxed);
  }
  /// Waits until all lent threads have left, and none can come.
  void end_part() noexcept {
    injected_functions.await_guests();
    for (const auto& one : places_) one->unpark();
    while (!lent_.is_over()) {
      for (const auto& one : places_) one->withdraw();
      lent_.sleep(std::chrono::steady_clock::now() + std::chrono::milliseconds(1), [] { return false; });
    }
    const std::lock_guard lock(lender_->mutex_);
    std::erase(lender_->parts_, this);
  }

  // The function of the library that creates the pool. Another library that starts a thread may be unloaded earlier.
  void* (*const run_)(void* as) noexcept = &run_thread;
  const std::size_t stack_bytes_;
  const unsigned most_substitutes_;  // threads that may be created beyond the pool's own
  const thread_life life_;
  pool_trace* const trace_;             // null unless the program is traced
  const thread_attributes attributes_;  // of the thread that creates the pool; all its threads get it
  std::mutex mutex_;
  std::vector<worker*> free_;
  std::vector<parker*> spare_;                // of retired threads
  announcement* announcements_ = nullptr;     // not ended, oldest first; under the lock
  sync::atomic<std::uint64_t> announced_{0};  // the number of the last one; changed under the lock
  unsigned substitutes_ = 0;                  // created so far; under the lock
  sync::atomic<unsigned> surplus_{0};         // decreases only under the lock
  parker* standby_place_ = nullptr;
  sync::atomic<bool> has_standby_{false};  // it has been created, or cannot be
  sync::atomic<bool> standby_sleeps_{false};
  sync::atomic<unsigned> callers_{0};  // threads inside run()
  sync::atomic<unsigned> here_{0};     // workers whose thread exists and is not in another pool
  std::vector<os_thread> threads_;
  pool_core* const lender_ = nullptr;  // of a part
  std::vector<std::unique_ptr<lent_place>> places_;
  group_count lent_;               // threads of the lender that are here, or called
  std::vector<pool_core*> parts_;  // of a pool; under the lock
  sync::atomic<unsigned> made_{0};
  std::array<worker*, most_workers> workers_{};
};

/// While it lives, the calling thread is a worker of the pool.
class entered_pool {
 public:
  explicit entered_pool(worker& as, pool_core* is_in = nullptr)
      : self(&as), outer_(native::worker_slot()), is_in_(is_in), inside_(&as.pool) {
    self->forks.begin(this);
    native::worker_slot() = {self, self->forks.poll_word()};
    const stack_bounds stack = current_stack();
    const auto lowest = reinterpret_cast<std::uintptr_t>(stack.lowest);
    self->lowest_floor = lowest + (reinterpret_cast<std::uintptr_t>(stack.end) - lowest) / 4;
    self->allow_depth();
  }
  /// As a thread that calls run(); or as one that another pool lends.
  explicit entered_pool(pool_core& core, bool calls = true) : entered_pool(enter(core), lender_of_caller(core)) {
    visits_ = true;
    if (!calls) return;
    runs_ = true;
    running_.begin(self->trace, slice_kind::run);
    count(true);
    self->forks.set_running(true);
  }
  /// As a thread that is the worker since injector::visit(), and was no other.
  struct guest {};
  entered_pool(worker& as, guest) : entered_pool(as) {
    stack_overflow::watch();
    is_guest_ = true;
    self->is_alone = true;
    running_.begin(self->trace, slice_kind::run);
    self->forks.set_running(true);
  }
  ~entered_pool() {
    self->is_alone = false;
    running_.end();
    if (is_guest_) self->forks.set_running(false);
    if (runs_) {
      self->forks.set_running(false);
      count(false);
    }
    native::worker_slot() = outer_;
    if (worker* const outer = worker::current(); visits_ && outer != nullptr) {
      outer->forks.resume();
      outer->pool.reenter_pool();
    }
    if (!is_guest_) self->pool.give_back(*self);
  }
  entered_pool(const entered_pool&) = delete;
  entered_pool& operator=(const entered_pool&) = delete;

  worker* const self;

 private:
  /// The first of the pool's lenders that the caller is inside of already, or null.
  static pool_core* lender_of_caller(const pool_core& core) noexcept {
    pool_core* one = core.lender();
    while (one != nullptr && !one->has_caller_inside()) one = one->lender();
    return one;
  }
  void count(bool enters) noexcept {
    for (pool_core* one = &self->pool; one != is_in_; one = one->lender()) one->count_caller(enters);
  }
  static worker& enter(pool_core& core) {
    stack_overflow::watch();
    worker* const self = core.take();
    if (self == nullptr)
      throw std::length_error(
          "pool::run: all 1024 places of the pool are taken, by its own threads and by threads inside run(); let fewer "
          "threads call run() at once, or use several pools");
    if (worker* const outer = worker::current()) {
      outer->forks.suspend();
      outer->pool.leave_pool();
    }
    return *self;
  }

  const native::worker_binding outer_;
  pool_core* const is_in_;  // of the lenders
  bool visits_ = false;     // it is not a thread of the pool
  bool runs_ = false;       // a caller of run()
  bool is_guest_ = false;
  traced running_;                 // if it runs
  const reentrancy_scope inside_;  // makes fibers save and restore the place
};

inline void* pool_core::run_thread(void* as) noexcept {
  auto* const self = static_cast<worker*>(as);
  self->pool.attributes_.take();
  stack_overflow::watch();
  stack_overflow::names() = []() noexcept -> const char* {
    return "that of a pool's thread; give it a larger one (pool_options::stack_bytes)";
  };
  const thread_life& life = self->pool.life_;
  if (!life.name.empty()) name_this_thread(life.name, self->number);
  if (life.pin) pin_this_thread(self->number + 1);  // the first processor is for the thread that calls run()
  const entered_pool here(*self);
  here.self->forks.begin_thread();
  if (life.on_start) life.on_start(self->number);
  here.self->work();
  if (life.on_end) life.on_end(self->number);
  return nullptr;
}

inline void lent_place::invite(bool behind) noexcept { part_.invite(*this, *this, behind); }
inline bool lent_place::withdraw() noexcept { return part_.withdraw(*this); }
inline void lent_place::drop(injected& of) noexcept { static_cast<lent_place&>(of).part_.end_visit(); }
inline void lent_place::enter(injected& of) noexcept {
  auto& place = static_cast<lent_place&>(of);
  pool_core& part = place.part_;
  place.park();  // the token
  const worker* const host = worker::current();
  try {
    const entered_pool here(part, false);
    here.self->work_at(place, host);
  } catch (const std::exception&) {
    part.refuse(place);
  }
  part.end_visit();
}

inline void worker::work_at(lent_place& at, const worker* as) noexcept {
  lent_ = &at;
  host_ = as;
  is_standby = at.is_standby;
  has_left_ = false;
  work();
  lent_ = nullptr;
  host_ = nullptr;
  is_standby = false;
}

/// True if the thread has to execute an announcement in a pool that lends it.
inline bool worker::is_called_back() const noexcept {
  for (const worker* one = host_; one != nullptr; one = one->host_)
    if (one->has_own_thread && one->pool.has_announced(*one)) return true;
  return false;
}

/// The spinning of a join, in which the thread's other fibers run. Waking takes 50 to 100 microseconds on a machine
/// whose processors sleep or are shared, and a substitute must be woken first; so a join spins about as long.
class waiting_time {
 public:
  /// Waits briefly. Returns true from time to time, first after 50 microseconds.
  bool is_long() noexcept {
    using namespace std::chrono_literals;
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();
    else
      for (unsigned i = 0; i < 8; ++i) sync::relax();
    if (++looks_ % 8 != 0) return false;
    const auto waited = clock::now() - since_;
    if (waited > 50us) sync::yield();
    if (waited < next_) return false;
    next_ += 50us;
    return true;
  }
  bool is_too_long() const noexcept { return next_ > std::chrono::microseconds(200); }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point since_ = clock::now();
  clock::duration next_ = std::chrono::microseconds(50);
  unsigned looks_ = 0;
};

inline void pool_core::wake_for_injected(const sleepers& seen, bool needed) noexcept {
  if (needed && seen.no_standby) [[unlikely]]
    start_standby();
  if (((needed && !seen.a_worker) || !has_callers()) && seen.the_standby && wake_standby()) return;
  // The sleeper that we saw may have found a fork meanwhile, without seeing the function: then the standby must.
  if (seen.a_worker && !asleep.wake_one() && needed) wake_standby();
}

/// If the pool has no thread at all, and the system cannot create one, the caller executes the functions.
inline void pool_core::start_standby() noexcept {
  if (has_standby_.exchange(true, std::memory_order_relaxed)) return;
  try {
    start(true);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (threads_.size() > substitutes_) return;
    }
    has_standby_.store(false, std::memory_order_relaxed);
    // We find the functions of threads that have relied on this one.
    if (!injected_functions.has_any_for_sleeper()) return;
    try {
      if (worker* const now = worker::current(); now != nullptr && &now->pool == this) {
        while (injected* const one = injected_functions.take()) now->execute_injected(*one);
      } else {
        const entered_pool here(*this);
        here.self->is_alone = true;
        while (injected* const one = injected_functions.take()) here.self->execute_injected(*one);
      }
    } catch (...) {
      return;  // there is no place left: threads that wait for the functions execute them
    }
  }
}

/// `steal` takes a record from `from` and notes it, or returns null.
template <class Steal>
bool worker::execute(const worker& from, Steal steal) noexcept {
  const std::uint64_t since = cycles();
  theft now;
  task* const r = steal(now);
  if (r == nullptr) return false;
  execute_as(now, [&] {
    if (&from != this) {
      steal_counts::add(forks.tasks().counts.thefts, 1);
      steal_counts::add(forks.tasks().counts.taking, cycles() - since);
    }
    const traced slice(trace,
                       now.of == r     ? slice_kind::stolen_fork
                       : &from != this ? slice_kind::stolen_async
                                       : slice_kind::queued_async,
                       from.number);
    r->run();
  });
  return true;
}

/// `run` executes what this worker has taken, as the theft `now`.
template <class Run>
void worker::execute_as(theft& now, Run run) noexcept {
  const bool alone = std::exchange(is_alone, false);
  if (alone) forks.tasks().enter_alone(now);
  else forks.tasks().enter(now, forks.depth());
  // This worker may just have been woken: there may be work for another sleeper.
  if (pool.may_wake()) pool.wake_another();
  const running_async* const here = std::exchange(within, nullptr);
  forks.set_running(true);
  const std::uintptr_t outer_floor = allow_depth();
  run();
  floor = outer_floor;
  forks.set_running(false);
  within = here;
  if (alone) forks.tasks().leave_alone();
  else forks.tasks().leave(now);
  is_alone = alone;
}

inline void worker::execute_injected(injected& one) noexcept {
  theft now{.of = one.of(), .around = forks.tasks().newest_theft(), .level = forks.tasks().level()};
  execute_as(now, [&] {
    const traced slice(trace, slice_kind::task);
    one.run();
  });
}

inline bool worker::execute_next_injected() noexcept {
  injected* const one = pool.injected_functions.take();
  if (one != nullptr) execute_injected(*one);
  return one != nullptr;
}

inline bool worker::execute_next_injected(clock::time_point since) noexcept {
  further_ = 0;
  if (!execute_next_injected()) return false;
  has_executed_ = true;
  const clock::duration time = clock::now() - since;
  restraint_.executed(time, time / (further_ + 1), [this] { return done_by_others(); });
  return true;
}

inline void worker::execute_announced() noexcept {
  while (announcement* const one = pool.next_announced(*this)) {
    theft now{.of = one};
    std::exception_ptr error;
    execute_as(now, [&] {
      const traced slice(trace, slice_kind::call);
      error = one->run(*this);
    });
    one->end(std::move(error));
  }
}

/// Tries all workers, beginning with a random one. `steal` takes from an engine, as in execute().
template <class Steal>
bool worker::steal_and_execute(Steal steal) noexcept {
  const unsigned many = pool.made();
  const unsigned first = roll(many);
  for (unsigned i = 0; i < many; ++i) {
    worker& victim = pool.at(first + i < many ? first + i : first + i - many);
    if (victim.has_offers() && execute(victim, [&](theft& noted) { return steal(victim.forks, noted); })) return true;
  }
  return false;
}

inline bool worker::publish_for_any_owner() noexcept {
  if (!can_publish_for_owners()) return false;
  selected_engine& victim = pool.at(roll(pool.made())).forks;
  if (&victim != &forks && victim.may_have_more()) victim.publish_for_owner();
  return victim.tasks().offers();
}

/// Sleeps until there is work, if no other worker has a record to steal. A worker that forks later sees the
/// request. (Without asymmetric fences, one that forks at this moment may see that only at its next fork or join.) If a
/// worker may have unoffered records, because its stack cannot be walked now, sleeps for at most `nap` and returns
/// false unless it was woken.
inline bool worker::sleep(clock::duration nap) noexcept {
  pool.asleep.announce(bed());
  pool.request_from_others(*this);
  bool all = true;  // every record that could be stolen is offered
  if (can_publish_for_owners()) {
    // (6) heavy_fence: pairs with watermark.hpp (4). If we do not see a record, its worker sees the request.
    // Without asymmetric fences, time replaces the fence: stores made before the last nap are visible.
    if (sync::asymmetric_fences()) sync::heavy_fence();
    else all = nap > first_nap;
    for (unsigned i = 0; i < pool.made(); ++i)
      if (i != number && pool.at(i).forks.may_have_more()) all = pool.at(i).forks.publish_for_owner() && all;
  }
  // (7) acquire: pairs with (3).
  const bool needed = pool.injected_functions.has_any_for_sleeper() || pool.anybody_offers() ||
                      pool.has_announced(*this) || pool.over.load(std::memory_order_acquire);
  if (!needed && all) return sleep_deeply(), true;
  if (!needed) {
    const traced slice(trace, slice_kind::sleep);
    if (bed().park_until(clock::now() + nap)) return true;
  }
  pool.asleep.withdraw(bed());
  return needed;
}

inline void worker::work() noexcept {
  using namespace std::chrono_literals;
  auto hungry_since = clock::now();
  const auto came = hungry_since;
  auto requested_at = clock::time_point{};
  auto took_unanswered = hungry_since;
  auto interval = clock::duration::zero();
  clock::duration nap = first_nap;
  is_alone = true;
  // (7)
  while (!has_left_ && !pool.over.load(std::memory_order_acquire)) {
    if (host_ != nullptr) [[unlikely]] {
      // Functions of the lender wait for at most so long, however much there is in the part.
      const bool waited_for = hungry_since - came > 10ms && pool.lender_has_any();
      if (waited_for || is_called_back()) {
        lent_->unpark();  // so that it comes back
        return lent_->invite(waited_for);
      }
    }
    if (pool.has_announced(*this)) [[unlikely]]
      execute_announced();
    if (pool.retire_surplus(*this)) {
      hungry_since = took_unanswered = clock::now();
      continue;
    }
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();  // fibers that a task has left behind
    const auto found = clock::now();
    const bool injected_first = pool.injected_functions.has_any() && roll(2) == 0;  // neither starves
    if (pool.is_superfluous(*this) || injected_first) {
      if (execute_next_injected(found)) {
        hungry_since = took_unanswered = clock::now();
        nap = first_nap;
        continue;
      }
      if (pool.is_superfluous(*this)) {
        pool.stand_by(*this);
        hungry_since = took_unanswered = clock::now();
        continue;
      }
    }
    const auto anything = [](const task&) { return true; };
    if (steal_and_execute(
            [&](selected_engine& of, theft& noted) { return of.tasks().steal(number, noted, anything); })) {
      hungry_since = took_unanswered = clock::now();
      nap = first_nap;
      // A task of less than a microsecond does not pay for the steal.
      interval = hungry_since - found < 1us ? std::min<clock::duration>(2 * interval + 2us, 100us) : 0us;
      requested_at = hungry_since;
      continue;
    }
    if (!injected_first && execute_next_injected(found)) {
      hungry_since = took_unanswered = clock::now();
      nap = first_nap;
      continue;
    }
    if (found - requested_at >= interval) {
      pool.request_from_others(*this);
      requested_at = found;
      interval = std::max<clock::duration>(interval, 5us);
    }
    if (found - took_unanswered > 50us) {
      took_unanswered = found;
      if (publish_for_any_owner()) continue;
    }
    if (found - hungry_since > 1ms) {
      if (sleep(nap)) {
        nap = first_nap;
        hungry_since = took_unanswered = clock::now();
      } else {
        nap = std::min(2 * nap, longest_nap);
      }
      continue;
    }
    if (found - hungry_since > 20us) sync::yield();
    if (restraint_.stays_away([this] { return done_by_others(); })) continue;
    for (unsigned i = 0; i < 16; ++i) sync::relax();
  }
}

/// Sleeps until its place is given a token: for at most `nap`, to look for work again; or without limit if a substitute
/// replaces it. It needs none while other workers sleep. Returns true if it has the token.
template <class Sleep>
bool worker::sleep_in_join(clock::duration nap, Sleep sleep) noexcept {
  if (forks.uses_stack_scan() || !sync::asymmetric_fences()) forks.publish_all();
  const traced slice(trace, slice_kind::sleep);
  if (pool.asleep.anyone() || !pool.add_substitute()) return sleep(clock::now() + nap);
  sleep(no_deadline);
  pool.substitute_done();
  return true;
}

/// Waits until is_over(), or sleep(nap) returns true. Meanwhile calls execute_some(thoroughly), which returns true if
/// it has executed something.
template <class IsOver, class ExecuteSome, class Sleep>
void worker::await_by(IsOver is_over, ExecuteSome execute_some, Sleep sleep) {
  const traced slice(trace, slice_kind::join);
  waiting_time waited;
  clock::duration nap = first_nap;
  while (!is_over()) {
    if (execute_some(false)) {
      waited = {};
      nap = first_nap;
      continue;
    }
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    pool.request_from_others(*this);
    publish_for_any_owner();
    if (execute_some(true)) {
      waited = {};
      nap = first_nap;
    } else if (waited.is_too_long()) {
      if (sleep(nap)) return;
      nap = std::min(2 * nap, longest_nap);
    }
  }
}

void worker::await(task& r) noexcept {
  const timed waiting(forks.tasks().counts.waiting);
  worker& thief = pool.at(r.thief());
  const auto steal = [&, level = forks.tasks().level()](selected_engine& of, theft& noted) {
    return of.tasks().steal_part_of(&r, level, number, noted);
  };
  const auto steal_from_thief = [&](theft& noted) { return steal(thief.forks, noted); };
  unsigned looks = 0;
  const auto execute_some = [&](bool thoroughly) {
    if (thoroughly) {
      if (can_publish_for_owners()) thief.forks.publish_for_owner();
      return execute(thief, steal_from_thief) || steal_and_execute(steal);
    }
    const unsigned turn = looks++ % 16;
    if (execute(thief, steal_from_thief) || (turn == 15 && steal_and_execute(steal))) return true;
    if (turn == 0) thief.request_work();
    return false;
  };
  await_by([&] { return r.is_done(); }, execute_some,
           [&](clock::duration nap) { return !r.may_sleep(place) || sleep_in_join_until_ended(nap, r); });
}

void worker::await(const scope_node& scope, completion_count& open) noexcept {
  const auto steal = [&, level = forks.tasks().level()](selected_engine& of, theft& noted) {
    return of.tasks().steal_part_of(&scope, level, number, noted);
  };
  const auto execute_some = [&](bool) {
    ++running_queued_;
    const bool own = execute(*this, [&](theft& noted) { return steal(forks, noted); });
    --running_queued_;
    return own || steal_and_execute(steal);
  };
  await_by([&] { return open.all_ended(); }, execute_some,
           [&](clock::duration nap) { return !open.may_sleep() || sleep_in_join_until_ended(nap, open); });
}

template <class Target>
void worker::await_injected(Target& target) {
  const auto steal = [&](selected_engine& of, theft& noted) {
    return of.tasks().steal_part_of(target.executed(), theft::any_level, number, noted);
  };
  await_by([&] { return target.is_over(); },
           [&](bool) { return target.execute_some(this) || steal_and_execute(steal); },
           [&](clock::duration nap) {
             sleep_in_join(nap, [&](deadline until) noexcept { return target.sleep(until), true; });
             return false;
           });
}

/// While this worker executes nothing: a count of the functions that others give and take, and of the nodes.
inline std::size_t worker::done_by_others() const noexcept {
  std::size_t done = pool.injected_functions.operations();
  for (unsigned i = 0; i < pool.made(); ++i) done += pool.at(i).nodes();
  return done;
}

inline unsigned worker::pool_size() const noexcept { return pool.made(); }

/// By a signal, or with an asymmetric fence.
inline bool worker::can_publish_for_owners() const noexcept {
  return forks.uses_stack_scan() || sync::asymmetric_fences();
}

inline std::uintptr_t worker::allow_depth() noexcept {
  constexpr std::uintptr_t room = std::uintptr_t{64} << 10U;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return std::exchange(floor, here > lowest_floor + room ? here - room : lowest_floor);
}

/// Called below the floor. Limits the number of queued asyncs, so that a body that starts very many needs little
/// memory; near the end of the stack there is no limit.
bool worker::is_too_deep() noexcept {
  constexpr unsigned many = 1024;
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < lowest_floor || forks.tasks().offered() < many;
}

inline bool worker::should_queue() const noexcept {
  constexpr unsigned little = 8, most = 64;
  if (forks.tasks().offered() + running_queued_ < little) return pool.has_others();
  return work_requested() && forks.tasks().offered() < most;
}

/// Gives a function to the pool of `home`, which may end as soon as it has it. Returns false if the pool is ending, or
/// has ended: then the caller has a reference to `home`.
inline bool inject_from_anywhere(injector& home, injected& one) noexcept {
  if (const worker* const self = worker::current(); self != nullptr && &self->pool.injected_functions == &home)
    return self->pool.inject(one);
  pool_core* const pool = home.enter();
  if (pool == nullptr) return false;
  home.refer();  // the end of the pool waits for leave(), and no longer
  const bool given = pool->inject(one);
  home.leave();
  home.release();
  return given;
}

}  // namespace muster::inline MUSTER_ABI::detail
