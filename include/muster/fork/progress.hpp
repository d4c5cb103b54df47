// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// progress.hpp: how far a loop is. It counts the turns that are done, and calls a function now and then.
//
// Called     by any worker of the loop, when it has executed some turns and at least `every` are done since the last
//            call; and at the loop's end by its caller, unless the last call had the same number. Never by two workers
//            at once: while one is in the function, the others continue, and a later call has the larger number.
// Numbers    only grow. If the loop ends without an exception, the last call has all turns: of the range, or, after a
//            stop, of the executed ones.
// Exceptions of the function are as those of the turn before it: the loop stops and rethrows the leftmost.
// Loops      that use the same object one after the other, or at once, count together.
// Cost       one atomic addition for a piece of a loop, which takes some microseconds. A loop without it reads one word
//            for each piece, the same one that says whether it can be stopped.
#pragma once

#include <muster/base/config.hpp>          // MUSTER_ABI
#include <muster/base/sync.hpp>            // sync::atomic
#include <muster/fork/detail/parking.hpp>  // spin_lock

#include <cstddef>     // std::size_t
#include <functional>  // std::function
#include <mutex>       // std::unique_lock
#include <stdexcept>   // std::invalid_argument
#include <utility>     // std::move

namespace muster::inline MUSTER_ABI {

/// Counts the turns that loops have done, for loop_options::progress, and calls a function every so many.
class loop_progress {
 public:
  /// Calls report(done) when `every` further turns are done.
  loop_progress(std::size_t every, std::function<void(std::size_t done)> report)
      : every_(every), report_(std::move(report)) {
    if (every == 0) throw std::invalid_argument("loop_progress: it reports every 0 turns; ask for at least 1");
    if (report_ == nullptr) throw std::invalid_argument("loop_progress: the function that it should call is empty");
  }
  loop_progress(const loop_progress&) = delete;
  loop_progress& operator=(const loop_progress&) = delete;

  /// The number of turns that are done. Any thread may call this at any time.
  std::size_t done() const noexcept { return done_.load(std::memory_order_relaxed); }

  /// For loops: some turns are done.
  void count(std::size_t turns) {
    const std::size_t now = done_.fetch_add(turns, std::memory_order_relaxed) + turns;
    if (now >= reported_.load(std::memory_order_relaxed) + every_) report(every_);
  }
  /// For loops: no worker executes turns any more.
  void end() { report(1); }

 private:
  void report(std::size_t least) {
    const std::unique_lock only(lock_, std::try_to_lock);
    if (!only.owns_lock()) return;
    const std::size_t now = done();
    if (now - reported_.load(std::memory_order_relaxed) < least) return;
    reported_.store(now, std::memory_order_relaxed);
    report_(now);
  }

  const std::size_t every_;
  const std::function<void(std::size_t)> report_;
  sync::atomic<std::size_t> done_{0};
  sync::atomic<std::size_t> reported_{0};  // changed under the lock
  detail::spin_lock lock_;                 // the function is being called
};

}  // namespace muster::inline MUSTER_ABI
