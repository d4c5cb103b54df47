// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// muster_scheduler.hpp: parlaylib's algorithms on a pool of muster. Copy it beside your program.
//
// Choose     include it before every other header of parlaylib, in every source file; or compile all of them with
//            `-include muster_scheduler.hpp`. Leave PARLAY_TBB and the like undefined. A program with two schedulers
//            violates the one-definition rule.
// Workers    PARLAY_NUM_THREADS of them, or as many as the process can run at once. As in parlaylib's own scheduler,
//            each thread that calls parlaylib from outside has workers of its own, is number 0 of them, and ends them
//            when it ends. So a thread of another pool would create a pool, too: call parlaylib outside of such pools.
// par_do     is fork2. A worker that waits executes only parts of what it waits for, so a lock may be held across every
//            call; the parameter `conservative`, which asks for that, changes nothing.
// Exceptions propagate to the caller, as those of fork2 and parallel_for.
// How        parlaylib has no place for a scheduler of a user: it selects a header of its own by a macro. This file
//            selects the sequential one, and defines that header's include guard. Tested with parlaylib 2.3.3; if a
//            later version renames the guard, the compiler reports that these functions are defined twice.
#pragma once

#if defined(PARLAY_PARALLEL_H_)
#error "muster_scheduler.hpp must be included before every header of parlaylib"
#endif
#if defined(PARLAY_CILKPLUS) || defined(PARLAY_OPENCILK) || defined(PARLAY_OPENMP) || defined(PARLAY_TBB)
#error "another scheduler of parlaylib is selected; with muster_scheduler.hpp define none of PARLAY_TBB and the like"
#endif

#include <muster/fork.hpp>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#if !defined(PARLAY_SEQUENTIAL)
#define PARLAY_SEQUENTIAL
#endif
#define PARLAY_INTERNAL_SCHEDULER_PLUGINS_SEQUENTIAL_H_  // ours replace the functions of that header
#include <parlay/parallel.h>

namespace muster_parlay {

/// Throws std::invalid_argument if the variable is no number of workers.
inline unsigned workers_by_default() {
  const char* const wanted = std::getenv("PARLAY_NUM_THREADS");
  if (wanted == nullptr) return muster::available_parallelism();
  char* end = nullptr;
  const long many = std::strtol(wanted, &end, 10);
  if (end == wanted || *end != '\0' || many < 1 || many > 960)
    throw std::invalid_argument("PARLAY_NUM_THREADS is '" + std::string(wanted) + "'; it must be from 1 to 960");
  return static_cast<unsigned>(many);
}

/// The workers of one thread, which creates and ends it.
class scheduler {
 public:
  explicit scheduler(unsigned workers)
      : pool_({.workers = workers, .on_start = [this](unsigned) { of_thread() = this; }}), outer_(of_thread()) {
    of_thread() = this;
  }
  ~scheduler() { of_thread() = outer_; }
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// That of the calling thread, which is one of its workers, or its creator, or gets one.
  static scheduler& current() {
    if (scheduler* const one = of_thread()) return *one;
    static thread_local scheduler own(workers_by_default());
    return own;
  }

  std::size_t workers() const noexcept { return pool_.workers(); }
  /// The creator is 0, inside and outside. No other thread enters the pool, so its index there is the last one.
  std::size_t worker_id() const noexcept {
    const auto index = pool_.worker_index();
    return index.has_value() ? (*index + 1) % pool_.workers() : 0;
  }
  template <class F>
  void run(F&& function) {
    pool_.run(function);
  }

 private:
  static scheduler*& of_thread() noexcept {
    static thread_local scheduler* one = nullptr;
    return one;
  }

  muster::pool pool_;
  scheduler* const outer_;
};

}  // namespace muster_parlay

namespace parlay {

inline std::size_t num_workers() { return muster_parlay::scheduler::current().workers(); }
inline std::size_t worker_id() { return muster_parlay::scheduler::current().worker_id(); }

template <class F>
inline void parallel_for(std::size_t start, std::size_t end, F&& f, long granularity, bool) {
  static_assert(std::is_invocable_v<F&, std::size_t>);
  const auto grain = static_cast<std::size_t>(granularity < 0 ? 0 : granularity);
  if (end <= start) return;
  if (end - start == 1 || end - start <= grain) {
    for (std::size_t i = start; i < end; ++i) f(i);
    return;
  }
  muster_parlay::scheduler::current().run(
      [&] { muster::parallel_for(start, end, [&f](std::size_t i) { f(i); }, {.grain = grain}); });
}

template <class Lf, class Rf>
inline void par_do(Lf&& left, Rf&& right, bool) {
  static_assert(std::is_invocable_v<Lf&&> && std::is_invocable_v<Rf&&>);
  muster_parlay::scheduler::current().run(
      [&] { muster::fork2([&] { std::forward<Lf>(left)(); }, [&] { std::forward<Rf>(right)(); }); });
}

/// Calls f() with workers of its own, which end with it.
template <class F>
void execute_with_scheduler(unsigned int workers, F&& f) {
  muster_parlay::scheduler own(workers);
  own.run([&] { std::invoke(std::forward<F>(f)); });
}

}  // namespace parlay
