// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// task.hpp: a task that any worker may execute: the second half of a fork, or a queued async; the theft that executes
// it; and the count of a scope's asyncs. steal_list.hpp describes how a record is offered and taken.
#pragma once

#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/fork/detail/parking.hpp>          // parker

#include <cstdint>    // std::uint64_t
#include <exception>  // std::exception_ptr

namespace muster::inline MUSTER_ABI::detail {

/// Counts the queued asyncs of a scope that have not ended; the scope's owner can sleep until all have.
class completion_count {
 public:
  /// `place`: the owner's; it must outlive the count.
  explicit completion_count(parker& place) noexcept : place_(place) {}
  completion_count(const completion_count&) = delete;
  completion_count& operator=(const completion_count&) = delete;

  /// Called by the owner, or by an async that has not ended.
  void begin() noexcept { open_.fetch_add(1, std::memory_order_relaxed); }
  /// The caller must not access the scope afterwards.
  void end() noexcept {
    parker& place = place_;
    // (4) acq_rel: pairs with (5), (6), and with itself: the last call has seen the effects of all others.
    if (open_.fetch_sub(1, std::memory_order_acq_rel) == awaited + 1) place.unpark();
  }
  /// For the owner.
  bool all_ended() const noexcept {
    // (5) acquire: pairs with (4).
    return open_.load(std::memory_order_acquire) == 0;
  }
  /// For the owner, once, or again after withdraw(). Returns true if it may sleep until end() gives its place a token;
  /// false if all have ended already.
  bool may_sleep() noexcept {
    // (6) acquire: pairs with (4).
    return open_.fetch_add(awaited, std::memory_order_acquire) != 0;
  }
  /// For the owner, after may_sleep() has returned true and before it has the token. Returns true if no token will
  /// come; false if all have ended and a token comes. Relaxed: taking that token acquires their effects.
  bool withdraw() noexcept { return open_.fetch_sub(awaited, std::memory_order_relaxed) != awaited; }
  /// For the owner, after all have ended and it has taken its token: it may sleep again later. Relaxed: no other thread
  /// uses the count now.
  void begin_anew() noexcept { open_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t awaited = std::uint64_t{1} << 63U;
  parker& place_;
  sync::atomic<std::uint64_t> open_{0};  // plus `awaited` once the owner sleeps
};

/// A record that a worker has taken and executes; on that worker's stack. It is part of the theft in which it was
/// forked or its scope was opened. So thefts form a tree, in which none ends before its descendants.
struct theft {
  const void* of = nullptr;       // the fork's record, or the scope; only for comparison
  const theft* around = nullptr;  // the theft that this is part of, or null
  unsigned level = 0;             // one more than that of `around`
  const theft* outer = nullptr;   // the previous unfinished theft of the same worker
  std::uint64_t floor = 0;        // forks of the worker that are deeper are part of this

  /// True if this is `what`, at that level (or any), or part of it. The search is bounded and may miss a distant
  /// ancestor.
  bool is_part_of(const void* what, unsigned its_level) const noexcept {
    const theft* at = this;
    const auto is_below = [&] { return its_level == any_level ? at->of != what : at->level > its_level; };
    for (unsigned steps = 64; at != nullptr && is_below() && steps > 0; --steps) at = at->around;
    return at != nullptr && at->of == what;
  }
  static constexpr unsigned any_level = ~0U;
};

/// A scope that waits for the asyncs started in it.
struct scope_node {
  const theft* around = nullptr;  // the theft in which it was opened, or null
};

/// The second half of a fork, until it is joined; it is in the frame that forks. Or a queued async, elsewhere.
class task {
 public:
  /// Executes the record. Returns the count of its scope, and then the record may not exist any more; or null for the
  /// half of a fork, whose owner waits for done().
  using runner = completion_count* (*)(task&) noexcept;

  task() noexcept = default;
  task(const task&) = delete;
  task& operator=(const task&) = delete;

  /// For the thief. It wakes the waiting owner here, in its own code, and not in the runner: that is in the library
  /// that forks, which may be unloaded as soon as the owner continues.
  void run() noexcept {
    if (completion_count* const scope = own_.read_ref().value.run(*this)) return scope->end();
    done();
  }
  /// Its depth in the owner's list; records forked within it are deeper.
  std::uint64_t depth() const noexcept { return own_.read_ref().value.depth; }
  /// The scope it was offered for. Only under the lock, in steal()'s predicate.
  const scope_node* group() const noexcept { return shared_.read_ref().value.group; }
  /// The exception of the second half, stored by run().
  std::exception_ptr& error() noexcept { return error_.write_ref().value; }
  /// The thief's number. For the owner, once take_back() has returned false.
  unsigned thief() const noexcept { return shared_.read_ref().value.thief; }
  /// The caller must not access the record afterwards: its owner continues.
  void done() noexcept {
    // (2) acq_rel: pairs with (1), (3).
    if (state_.value.exchange(finished, std::memory_order_acq_rel) == awaited) shared_.read_ref().value.owner->unpark();
  }

  /// For the owner: true if the thief has called done().
  bool is_done() const noexcept {
    // (1) acquire: pairs with (2). The owner sees the thief's writes.
    return state_.value.load(std::memory_order_acquire) == finished;
  }
  /// For the owner, when it has finished with the record.
  void joined() noexcept { error_.write_ref().destroy(); }
  /// For the owner: returns true if it may sleep until done() gives `place` a token; false if the record is done
  /// already.
  bool may_sleep(parker& place) noexcept {
    shared_.write_ref().value.owner = &place;
    std::uint32_t state = taken;
    // (3) release, or acquire if it is done already: pairs with (2).
    return state_.value.compare_exchange_strong(state, awaited, std::memory_order_release, std::memory_order_acquire);
  }
  /// For the owner, after may_sleep() has returned true and before it has the token: returns true if no token will
  /// come; false if the record is done and one comes. Relaxed: if it is done, taking the token acquires the thief's
  /// writes.
  bool withdraw() noexcept {
    std::uint32_t state = awaited;
    return state_.value.compare_exchange_strong(state, taken, std::memory_order_relaxed);
  }

 private:
  friend class steal_list;
  friend class watermark_engine;
  template <class>
  friend class barrier_engine;

  task* older() const noexcept { return own_.read_ref().value.older; }

  struct links {
    task* older;
    runner run;
    std::uint64_t depth;  // one more than that of `older`
  };
  struct published {
    task* older = nullptr;  // among the offered records
    union {
      task* newer = nullptr;
      parker* owner;  // of a taken record; set before its owner stores `awaited`
    };
    const scope_node* group = nullptr;  // not null: not the half of a fork, and in no list of the owner's
    unsigned thief = 0;
  };
  static constexpr std::uint32_t offered = 0, taken = 1, awaited = 2, finished = 3;

  sync::cell<manual_lifetime<links>> own_;  // written before another thread can see the record
  // Only in records that have been published:
  sync::cell<manual_lifetime<published>> shared_;          // changed under the lock while the record is offered
  sync::cell<manual_lifetime<std::exception_ptr>> error_;  // the thief's, then the owner's
  manual_lifetime<sync::atomic<std::uint32_t>>
      state_;  // offered to taken under the lock; last, so that half a word stays free
};

}  // namespace muster::inline MUSTER_ABI::detail
