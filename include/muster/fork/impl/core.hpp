// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// core.hpp: the state that the workers of a pool share, and the pool's threads.
//
// Workers    are created when a thread enters, and kept for reuse when it leaves.
// Stacks     a thread's stack is reserved, not touched: it uses memory as deep as the program calls. A thread that has
//            slept for a second returns it.
// fork(2)    the child has a copy of the pool without its threads. A pool records which process created it.
#pragma once

#include <muster/base/inside.hpp>          // inside
#include <muster/base/kernel_thread.hpp>   // kernel_thread
#include <muster/base/process.hpp>         // process_generation
#include <muster/base/stack_bounds.hpp>    // current_stack
#include <muster/base/stack_overflow.hpp>  // stack_overflow
#include <muster/fork/impl/worker.hpp>     // worker

#include <array>         // the workers
#include <cerrno>        // EAGAIN
#include <cstddef>       // std::size_t
#include <mutex>         // making workers
#include <stdexcept>     // std::length_error, std::logic_error
#include <system_error>  // std::system_error
#include <vector>        // free workers

namespace muster::inline MUSTER_ABI::detail {

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
  inline ~pool_core();

  /// Starts a worker thread. Throws std::system_error if the system cannot create one.
  inline void start();

  /// Returns a worker for the calling thread's sole use, or null if there are too many.
  inline worker* take();
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
      if (&at(i) != &one) at(i).forks.ask();
  }
  bool anybody_offers() const noexcept {
    for (unsigned i = 0; i < made(); ++i)
      if (at(i).forks.offers()) return true;
    return false;
  }

  // --- Substitutes, if the pool may have any. A worker that sleeps in a join lets another thread use its processor.
  // After it wakes there are more threads than workers, until a thread that looks for work retires.

  /// Returns true if another thread replaces the caller now; then call substitute_done(). Returns false if the pool has
  /// its maximum or the system cannot create more threads.
  inline bool add_substitute() noexcept;
  void substitute_done() noexcept { surplus_.fetch_add(1, std::memory_order_relaxed); }
  /// Called by a worker that looks for work. If there are too many threads, sleeps until it is needed and returns true.
  inline bool retire_surplus(worker& one) noexcept;

  const deque_options forks;  // how workers keep their forks
  sleepers asleep;
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
  std::vector<parking_place*> spare_;  // of retired threads
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

inline pool_core::~pool_core() {
  if (is_ours()) {
    // (3) release: pairs with work.hpp (2).
    over.store(true, std::memory_order_release);
    // (4) full_fence: pairs with sleepers.hpp (5). A worker that announces itself later sees that it is over.
    sync::full_fence();
    while (asleep.anyone()) asleep.wake_one();
    {
      const std::lock_guard lock(mutex_);
      for (parking_place* one : spare_) one->unpark();
    }
    for (kernel_thread& one : threads_) one.join();
  }
  for (unsigned i = 0; i < made(); ++i) delete &at(i);
}

inline worker* pool_core::take() {
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
  // (5) full_fence: pairs with sleepers.hpp (5). A worker that is about to sleep has not asked this one.
  sync::full_fence();
  if (asleep.anyone()) one->forks.ask();
  reenter_pool();
  return one;
}

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

inline void pool_core::start() {
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

inline bool pool_core::add_substitute() noexcept {
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

inline void worker::sleep_deeply() noexcept {
  if (place.park_until(clock::now() + std::chrono::seconds(1))) return;
  release_unused_stack();
  place.park();
}

inline bool pool_core::retire_surplus(worker& one) noexcept {
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

}  // namespace muster::inline MUSTER_ABI::detail
