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
// Workers    are created when a thread enters, and kept for reuse when it leaves.
// Stacks     a thread's stack is reserved, not touched: it uses memory as deep as the program calls. A thread that has
//            slept for a second returns it.
// fork(2)    the child has a copy of the pool without its threads. A pool records which process created it.
// Source     leapfrogging: Wagner and Calder, "Leapfrogging" (PPoPP 1993), which steals from the thief only.
//            Substitutes: Java's ForkJoinPool calls it compensation. The waiting thread keeps its stack, its
//            thread-local data and its locks; a parked stack that another thread resumes would lose the latter two.
#pragma once

#include <muster/base/inside.hpp>          // inside
#include <muster/base/kernel_thread.hpp>   // kernel_thread
#include <muster/base/process.hpp>         // process_generation
#include <muster/base/stack_bounds.hpp>    // current_stack
#include <muster/base/stack_overflow.hpp>  // stack_overflow
#include <muster/base/thread.hpp>          // own_place
#include <muster/base/time.hpp>            // how long it has looked
#include <muster/fork/detail/engine.hpp>   // deque
#include <muster/fork/detail/parking.hpp>  // idle_workers, parker
#include <muster/fork/detail/task.hpp>     // task, completion_count

#include <algorithm>     // std::min
#include <array>         // the workers
#include <cerrno>        // EAGAIN
#include <compare>       // async_index
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint64_t
#include <mutex>         // making workers
#include <stdexcept>     // std::length_error, std::logic_error
#include <system_error>  // std::system_error
#include <utility>       // std::exchange
#include <vector>        // free workers

namespace muster::inline MUSTER_ABI::detail {

class pool_core;

/// The position of an async in the order of its scope: the number that the scope's owner had started then, including
/// this one; and, if another thread started it, the number that other threads had started.
struct async_index {
  std::uint64_t by_owner;
  std::uint64_t by_others;
  friend auto operator<=>(const async_index&, const async_index&) = default;
};

/// An async that is being executed, and its scope; a list on the stack, innermost first.
struct async_place {
  const scope_node* scope;
  async_index index;
  const async_place* outer;
};

class worker {
 public:
  worker(pool_core& of, unsigned at, idle_workers& asleep, const deque_options& how) noexcept
      : forks(asleep, how), pool(of), number(at), dice_(at * 0x9e3779b97f4a7c15ULL + 1) {}

  /// Returns null, or the reason why forks cannot be found on the stack.
  static const char* no_barrier() noexcept { return deque::obstacle(); }
  /// Returns the calling thread's worker, or null. Each fiber has its own.
  static worker* current() noexcept { return static_cast<worker*>(real::own_place().worker); }

  /// True if a thief requests work of this worker, so that its next fork will be published.
  MUSTER_HOT bool work_requested() const noexcept { return forks.tasks().is_asked(); }
  /// Requests work of this worker. Called by thieves, and by its own loops.
  void request_work() noexcept { forks.tasks().ask(); }
  bool has_offers() const noexcept { return forks.tasks().offers(); }
  /// The number of workers that the pool has had so far.
  inline unsigned pool_size() const noexcept;

  /// Waits until the thief of `r` has finished it.
  MUSTER_COLD inline void await(task& r) noexcept;
  /// Waits until all asyncs of the scope have ended. Meanwhile executes asyncs offered for it, or for scopes within it.
  MUSTER_COLD inline void await(const scope_node& scope, completion_count& open) noexcept;
  /// True if an async should be queued rather than run immediately: another worker asks, or would find few. A queued
  /// async that this worker executes counts until it ends, so that the top of a recursion is queued.
  bool wants_stock() const noexcept;
  bool can_make_owners_answer() const noexcept;
  /// Lets nested asyncs run immediately for a further part of the stack, from here on. Returns the previous floor.
  MUSTER_HOT std::uintptr_t allow_depth() noexcept;
  /// True if the stack is so deep that an async should be queued rather than run immediately.
  MUSTER_HOT bool is_deep() noexcept {
    return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < floor && is_too_deep();
  }
  /// Looks for work until the pool ends.
  void work() noexcept;
  /// For a thread with nothing on its stack: sleeps until its place is given a token. After a second, returns the
  /// unused part of its stack to the system.
  void sleep_deeply() noexcept {
    if (place.park_until(clock::now() + std::chrono::seconds(1))) return;
    release_unused_stack();
    place.park();
  }

  deque forks;
  pool_core& pool;
  const unsigned number;
  parker place;
  const async_place* within = nullptr;
  std::uintptr_t floor = 0;         // an address in the stack: asyncs that run below it are deep
  std::uintptr_t lowest_floor = 0;  // three quarters of the stack are above it; 0 where the stack is not known

 private:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration first_nap = std::chrono::milliseconds(1), longest_nap = 8 * first_nap;

  MUSTER_COLD inline bool is_too_deep() noexcept;
  template <class Steal>
  bool execute(const deque& from, Steal steal) noexcept;
  template <class Steal>
  bool steal_and_execute(Steal steal) noexcept;
  /// Answers for a random worker, which may not answer itself. Returns true if it offers something now.
  bool answer_for_anybody() noexcept;
  bool sleep_in_join(clock::duration nap) noexcept;
  bool sleep(clock::duration nap) noexcept;
  unsigned roll(unsigned sides) noexcept {
    dice_ ^= dice_ << 13U;
    dice_ ^= dice_ >> 7U;
    dice_ ^= dice_ << 17U;
    return static_cast<unsigned>((dice_ >> 32U) * sides >> 32U);
  }

  std::uint64_t dice_;
  unsigned own_stock_ = 0;  // queued asyncs of its own that it is executing
};

class pool_core {
 public:
  static constexpr unsigned most_workers = 1024, most_threads = 960;  // the rest is for threads that call run()

  pool_core(const deque_options& how, std::size_t stack_bytes, unsigned substitutes) noexcept
      : forks(how), stack_bytes_(stack_bytes), most_substitutes_(substitutes) {
    sync::asymmetric_fences();  // the first call takes milliseconds if there are threads already
  }
  pool_core(const pool_core&) = delete;
  pool_core& operator=(const pool_core&) = delete;
  /// Ends the threads. No thread may be inside run().
  ~pool_core() {
    if (is_ours()) {
      // (3) release: pairs with (7).
      over.store(true, std::memory_order_release);
      // (4) full_fence: pairs with parking.hpp (5). A worker that announces itself later sees that it is over.
      sync::full_fence();
      while (asleep.anyone()) asleep.wake_one();
      {
        const std::lock_guard lock(mutex_);
        for (parker* one : spare_) one->unpark();
      }
      for (kernel_thread& one : threads_) one.join();
    }
    for (unsigned i = 0; i < made(); ++i) delete &at(i);
  }

  /// Starts a worker thread. Throws std::system_error if the system cannot create one.
  void start() {
    worker* const one = made() < most_threads ? take() : nullptr;
    if (one == nullptr) throw std::system_error(EAGAIN, std::generic_category(), "a pool has no more than 960 threads");
    try {
      const std::lock_guard lock(mutex_);
      threads_.reserve(threads_.size() + 1);
      threads_.emplace_back(stack_bytes_, inheritance_, run_, one);
    } catch (...) {
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
    const unsigned n = made();
    if (n == most_workers) return nullptr;
    free_.reserve(n + 1);   // so that give_back does not allocate
    spare_.reserve(n + 1);  // nor retire_surplus
    auto* const one = new worker(*this, n, asleep, forks);
    workers_[n] = one;
    // (1) release: pairs with (2). A thread that sees the number finds the worker.
    made_.store(n + 1, std::memory_order_release);
    // (5) full_fence: pairs with parking.hpp (5). A worker that is about to sleep has not asked this one.
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
  /// True if there are other workers than the caller's.
  bool has_others() const noexcept { return here_.load(std::memory_order_relaxed) > 1; }

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
          "a child process waits for a thread of its parent, which has taken half of a fork, or an async; a child that "
          "is cloned inside pool::run must not return to where these end: let it call exec, or _exit",
          __FILE__, __LINE__);
  }

  unsigned made() const noexcept {
    // (2) acquire: pairs with (1).
    return made_.load(std::memory_order_acquire);
  }
  worker& at(unsigned n) const noexcept { return *workers_[n]; }

  /// Asks all workers but `one`, the caller.
  void ask_others(const worker& one) noexcept {
    for (unsigned i = 0; i < made(); ++i)
      if (&at(i) != &one) at(i).request_work();
  }
  bool anybody_offers() const noexcept {
    for (unsigned i = 0; i < made(); ++i)
      if (at(i).has_offers()) return true;
    return false;
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
    if (surplus_.load(std::memory_order_relaxed) == 0) return false;
    {
      const std::lock_guard lock(mutex_);
      if (surplus_.load(std::memory_order_relaxed) == 0 || over.load(std::memory_order_relaxed)) return false;
      surplus_.fetch_sub(1, std::memory_order_relaxed);
      spare_.push_back(&one.place);
    }
    // It may have been woken for work that it has not taken, or its own records may still be offered.
    if (anybody_offers() && asleep.anyone()) asleep.wake_one();
    one.sleep_deeply();
    return true;
  }

  const deque_options forks;  // how workers keep their forks
  idle_workers asleep;
  sync::atomic<bool> over{false};

 private:
  static void* run_thread(void* as) noexcept;

  // The function of the library that creates the pool. Another library that starts a thread may be unloaded earlier.
  void* (*const run_)(void* as) noexcept = &run_thread;
  const std::size_t stack_bytes_;
  const unsigned most_substitutes_;  // threads that may be created beyond the pool's own
  const inheritance inheritance_;    // of the thread that creates the pool; all its threads get it
  const unsigned made_in_ = process_generation();
  std::mutex mutex_;
  std::vector<worker*> free_;
  std::vector<parker*> spare_;         // of retired threads
  unsigned substitutes_ = 0;           // created so far; under the lock
  sync::atomic<unsigned> surplus_{0};  // decreases only under the lock
  sync::atomic<unsigned> here_{0};     // workers whose thread exists and is not in another pool
  std::vector<kernel_thread> threads_;
  sync::atomic<unsigned> made_{0};
  std::array<worker*, most_workers> workers_{};
};

/// While it lives, the calling thread is a worker of the pool.
class entered_pool {
 public:
  explicit entered_pool(worker& as) : self(&as), outer_(real::own_place()), inside_(&as.pool) {
    self->forks.begin_on_stack(this);
    real::own_place() = {self, self->forks.mark()};
    const stack_bounds stack = current_stack();
    const auto lowest = reinterpret_cast<std::uintptr_t>(stack.lowest);
    self->lowest_floor = lowest + (reinterpret_cast<std::uintptr_t>(stack.end) - lowest) / 4;
    self->allow_depth();
  }
  explicit entered_pool(pool_core& core) : entered_pool(enter(core)) {
    runs_ = true;
    self->forks.runs(true);
  }
  ~entered_pool() {
    if (runs_) self->forks.runs(false);
    real::own_place() = outer_;
    if (worker* const outer = worker::current(); runs_ && outer != nullptr) {
      outer->forks.go_on();
      outer->pool.reenter_pool();
    }
    self->pool.give_back(*self);
  }
  entered_pool(const entered_pool&) = delete;
  entered_pool& operator=(const entered_pool&) = delete;

  worker* const self;

 private:
  static worker& enter(pool_core& core) {
    stack_overflow::watch();
    worker* const self = core.take();
    if (self == nullptr)
      throw std::length_error(
          "pool::run: the pool's 1024 places are taken, by its own threads and by calls of run(): let fewer be inside "
          "at once, or use several pools");
    if (worker* const outer = worker::current()) {
      outer->forks.pause();
      outer->pool.leave_pool();
    }
    return *self;
  }

  const real::pool_place outer_;
  bool runs_ = false;
  const inside inside_;  // makes fibers save and restore the place
};

inline void* pool_core::run_thread(void* as) noexcept {
  auto* const self = static_cast<worker*>(as);
  self->pool.inheritance_.take();
  stack_overflow::watch();
  stack_overflow::names() = []() noexcept -> const char* {
    return "that of a pool's thread; give it a larger one (pool_options::stack_bytes)";
  };
  const entered_pool here(*self);
  here.self->forks.begin_thread();
  here.self->work();
  return nullptr;
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

/// `steal` takes a record from `from` and notes it, or returns null.
template <class Steal>
bool worker::execute(const deque& from, Steal steal) noexcept {
  const std::uint64_t since = cycles();
  theft now;
  task* const r = steal(now);
  if (r == nullptr) return false;
  forks.tasks().enter(now, forks.depth());
  // This worker may just have been woken: there may be work for another sleeper.
  if (pool.asleep.anyone() && pool.anybody_offers()) pool.asleep.wake_one();
  const async_place* const here = std::exchange(within, nullptr);
  if (&from != &forks) {
    steal_counts::add(forks.tasks().counts.thefts, 1);
    steal_counts::add(forks.tasks().counts.taking, cycles() - since);
  }
  forks.runs(true);
  const std::uintptr_t outer_floor = allow_depth();
  r->run();
  floor = outer_floor;
  forks.runs(false);
  within = here;
  forks.tasks().leave(now);
  return true;
}

/// Tries all workers, beginning with a random one. `steal` takes from a deque, as in execute().
template <class Steal>
bool worker::steal_and_execute(Steal steal) noexcept {
  const unsigned many = pool.made();
  const unsigned first = roll(many);
  for (unsigned i = 0; i < many; ++i) {
    deque& victim = pool.at(first + i < many ? first + i : first + i - many).forks;
    if (victim.tasks().offers() && execute(victim, [&](theft& noted) { return steal(victim, noted); })) return true;
  }
  return false;
}

inline bool worker::answer_for_anybody() noexcept {
  if (!can_make_owners_answer()) return false;
  deque& victim = pool.at(roll(pool.made())).forks;
  if (&victim != &forks && victim.has_records()) victim.answer_for_owner();
  return victim.tasks().offers();
}

/// Sleeps until there is work, if no other worker has a record to steal. A worker that forks later sees that it is
/// asked. (Without asymmetric fences, one that forks at this moment may see that only at its next fork or join.) If a
/// worker may have unoffered records, because its stack cannot be walked now, sleeps for at most `nap` and returns
/// false unless it was woken.
inline bool worker::sleep(clock::duration nap) noexcept {
  pool.asleep.announce(place);
  pool.ask_others(*this);
  bool all = true;  // every record that could be stolen is offered
  if (can_make_owners_answer()) {
    // (6) heavy_fence: pairs with watermark.hpp (4). If we do not see a record, its worker sees that it is
    // asked. Without asymmetric fences, time replaces the fence: stores made before the last nap are visible.
    if (sync::asymmetric_fences()) sync::heavy_fence();
    else all = nap > first_nap;
    for (unsigned i = 0; i < pool.made(); ++i)
      if (i != number && pool.at(i).forks.has_records()) all = pool.at(i).forks.answer_for_owner() && all;
  }
  // (7) acquire: pairs with (3).
  const bool needed = pool.anybody_offers() || pool.over.load(std::memory_order_acquire);
  if (!needed && all) return sleep_deeply(), true;
  if (!needed && place.park_until(clock::now() + nap)) return true;
  pool.asleep.withdraw(place);
  return needed;
}

inline void worker::work() noexcept {
  using namespace std::chrono_literals;
  auto hungry_since = clock::now();
  auto asked = clock::time_point{};
  auto took_unanswered = hungry_since;
  auto interval = clock::duration::zero();
  clock::duration nap = first_nap;
  // (7)
  while (!pool.over.load(std::memory_order_acquire)) {
    if (pool.retire_surplus(*this)) {
      hungry_since = took_unanswered = clock::now();
      continue;
    }
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();  // fibers that a task has left behind
    const auto found = clock::now();
    const auto anything = [](const task&) { return true; };
    if (steal_and_execute([&](deque& of, theft& noted) { return of.tasks().steal(number, noted, anything); })) {
      hungry_since = took_unanswered = clock::now();
      nap = first_nap;
      // A task of less than a microsecond does not pay for the steal.
      interval = hungry_since - found < 1us ? std::min<clock::duration>(2 * interval + 2us, 100us) : 0us;
      asked = hungry_since;
      continue;
    }
    if (found - asked >= interval) {
      pool.ask_others(*this);
      asked = found;
      interval = std::max<clock::duration>(interval, 5us);
    }
    if (found - took_unanswered > 50us) {
      took_unanswered = found;
      if (answer_for_anybody()) continue;
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
    for (unsigned i = 0; i < 16; ++i) sync::relax();
  }
}

/// Sleeps until its place is given a token: for at most `nap`, to look for work again; or without limit if a substitute
/// replaces it. It needs none while other workers sleep. Returns true if it has the token.
inline bool worker::sleep_in_join(clock::duration nap) noexcept {
  if (forks.by_frames() || !sync::asymmetric_fences()) forks.publish_all();
  if (pool.asleep.anyone() || !pool.add_substitute()) return place.park_until(clock::now() + nap);
  place.park();
  pool.substitute_done();
  return true;
}

void worker::await(task& r) noexcept {
  const timed waiting(forks.tasks().counts.waiting);
  deque& thief = pool.at(r.thief()).forks;
  const auto steal = [&, level = forks.tasks().level()](deque& of, theft& noted) {
    return of.tasks().steal_part_of(&r, level, number, noted);
  };
  const auto steal_from_thief = [&](theft& noted) { return steal(thief, noted); };
  waiting_time waited;
  clock::duration nap = first_nap;
  for (unsigned looks = 0; !r.is_done(); ++looks) {
    if (execute(thief, steal_from_thief) || (looks % 16 == 15 && steal_and_execute(steal))) {
      waited = {};
      nap = first_nap;
      continue;
    }
    if (looks % 16 == 0) thief.tasks().ask();
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    pool.ask_others(*this);
    if (can_make_owners_answer()) thief.answer_for_owner();
    answer_for_anybody();
    if (execute(thief, steal_from_thief) || steal_and_execute(steal)) {
      waited = {};
      nap = first_nap;
    } else if (waited.is_too_long()) {
      if (!r.may_sleep(place) || sleep_in_join(nap)) return;
      if (!r.withdraw()) return place.park();
      nap = std::min(2 * nap, longest_nap);
    }
  }
}

void worker::await(const scope_node& scope, completion_count& open) noexcept {
  const auto steal = [&, level = forks.tasks().level()](deque& of, theft& noted) {
    return of.tasks().steal_part_of(&scope, level, number, noted);
  };
  const auto execute_some = [&] {
    ++own_stock_;
    const bool own = execute(forks, [&](theft& noted) { return steal(forks, noted); });
    --own_stock_;
    return own || steal_and_execute(steal);
  };
  waiting_time waited;
  clock::duration nap = first_nap;
  while (!open.all_ended()) {
    if (execute_some()) {
      waited = {};
      nap = first_nap;
      continue;
    }
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    pool.ask_others(*this);
    answer_for_anybody();
    if (execute_some()) {
      waited = {};
      nap = first_nap;
    } else if (waited.is_too_long()) {
      if (!open.may_sleep() || sleep_in_join(nap)) return;
      if (!open.withdraw()) return place.park();
      nap = std::min(2 * nap, longest_nap);
    }
  }
}

inline unsigned worker::pool_size() const noexcept { return pool.made(); }

/// By a signal, or with an asymmetric fence.
inline bool worker::can_make_owners_answer() const noexcept { return forks.by_frames() || sync::asymmetric_fences(); }

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

inline bool worker::wants_stock() const noexcept {
  constexpr unsigned little = 8, most = 64;
  if (forks.tasks().offered() + own_stock_ < little) return pool.has_others();
  return work_requested() && forks.tasks().offered() < most;
}

}  // namespace muster::inline MUSTER_ABI::detail
