// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// steal_list.hpp: the tasks that one worker offers to thieves, oldest first, and the word by which thieves request more
// of them. Both engines offer through such a list; how they find what to offer is theirs.
//
// Requests   a thief that finds nothing to take raises the owner's watermark above everything. The owner polls that
//            word in each fork, publishes tasks, and lowers the watermark again: to the depth of the newest fork that
//            other threads know, or to 0 if its engine does not compare depths.
// Offers     an offered task is in the list until a thief takes it or its owner takes it back. Under a lock, which is
//            held for a few instructions, or during a walk over the owner's forks. A thief that finds it taken gives
//            up.
// Leapfrogs  thefts are known to the list of the worker that executes them, so that a worker that waits for a stolen
//            task takes only parts of it, from any worker.
// Killed     a thread that stops while it holds the lock blocks the owner when it next publishes or takes back.
#pragma once

#include <muster/base/arch.hpp>            // cycles, isolation_size
#include <muster/base/detail/native.hpp>   // native::atomic
#include <muster/base/sync.hpp>            // sync::atomic
#include <muster/fork/detail/parking.hpp>  // idle_workers, spin_lock
#include <muster/fork/detail/task.hpp>     // task, theft

#include <cstdint>  // std::uint64_t
#include <utility>  // std::as_const

namespace muster::inline MUSTER_ABI {

/// How many of its forks a worker offers at a request: the older half; all; or only the oldest, and then it waits until
/// a thief has taken it, for at most some microseconds.
enum class steal_share { half, all, one };

namespace detail {

/// The counts of one worker. The fast path, without a request, counts nothing. Not visible to the model checker: the
/// counts order nothing, and times would make every execution different.
class steal_counts {
 public:
  using count = native::atomic<std::uint64_t>;
  count thefts{0}, answers{0}, offered{0}, returns{0}, publishing{0}, returning{0}, waiting{0}, taking{0};

  /// Called by one thread at a time.
  static void add(count& to, std::uint64_t more) noexcept {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
};

/// Adds the cycles from its construction to its destruction.
class timed {
 public:
  explicit timed(steal_counts::count& to) noexcept : to_(to), since_(cycles()) {}
  ~timed() { steal_counts::add(to_, cycles() - since_); }
  timed(const timed&) = delete;
  timed& operator=(const timed&) = delete;

 private:
  steal_counts::count& to_;
  const std::uint64_t since_;
};

/// How a worker keeps its forks.
struct engine_options {
  bool always = false;           // every fork is published immediately, for tests
  bool force_watermark = false;  // forks are pushed and popped even if they could be found on the stack
  steal_share share = steal_share::half;

  /// The number of forks to offer, out of `many`.
  unsigned share_of(unsigned many) const noexcept {
    if (share == steal_share::one && !always) return many == 0 ? 0 : 1;
    return share == steal_share::all ? many : many - many / 2;
  }
};

class alignas(isolation_size) steal_list {
 public:
  /// The value of the watermark while a thief requests work.
  static constexpr std::uint64_t requested = ~std::uint64_t{0};

  /// `asleep`: the workers that may steal.
  steal_list(idle_workers& asleep, const engine_options& options) noexcept : idle_(asleep), options_(options) {
    clear_request(0);
  }
  steal_list(const steal_list&) = delete;
  steal_list& operator=(const steal_list&) = delete;

  // --- The owner.

  /// True if a thief requests work. Loops, which can fork at any turn, poll this too.
  MUSTER_HOT bool work_requested() const noexcept { return watermark_.load(std::memory_order_relaxed) == requested; }
  /// True if no other thread knows a fork of this depth, and none is requested.
  MUSTER_HOT bool is_private(std::uint64_t depth) const noexcept {
    // (1) acquire: pairs with (2). A thief that walked over the record has finished with it.
    return depth > watermark_.load(std::memory_order_acquire);
  }
  /// The watermark, for engines that poll or raise it themselves.
  sync::atomic<std::uint64_t>& poll_word() noexcept { return watermark_; }
  const sync::atomic<std::uint64_t>& poll_word() const noexcept { return watermark_; }
  /// The number of tasks offered.
  unsigned offered() const noexcept { return offers_.load(std::memory_order_relaxed); }
  const engine_options& options() const noexcept { return options_; }
  /// Wakes a thief, if one sleeps; after clear_request().
  void wake_thief() noexcept {
    if (idle_.anyone()) idle_.wake_one();
  }
  /// With steal_share::one, the owner waits until the thief has taken the fork.
  void wait_for_theft() const noexcept {
    constexpr std::uint64_t patience = 50'000;  // cycles; the thief may have found other work
    if (options_.share != steal_share::one || options_.always) return;
    for (const std::uint64_t since = cycles(); offers() && cycles() - since < patience;) sync::relax();
  }

  steal_counts counts;  // the owner's

  // --- The owner, under the lock; or a thread that publishes for it.

  bool try_lock() noexcept { return lock_.try_lock(); }
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

  /// Prepares a record for append(): the half of a fork, or an async of the scope `group`. `newer` is the next one to
  /// be appended, or null.
  static void prepare(task& r, const scope_node* group, task* newer) noexcept {
    r.shared_.write_ref().construct();
    task::published& at = r.shared_.write_ref().value;
    at.group = group;
    at.newer = newer;
    if (newer != nullptr) newer->shared_.write_ref().value.older = &r;
    r.state_.construct(task::offered);
  }
  /// Offers `many` prepared records, which are linked from the oldest to the newest.
  void append(task& oldest, task& newest, unsigned many) noexcept {
    oldest.shared_.write_ref().value.older = newest_;
    (newest_ == nullptr ? oldest_ : newest_->shared_.write_ref().value.newer) = &oldest;
    newest_ = &newest;
    offers_.store(offers_.load(std::memory_order_relaxed) + many, std::memory_order_relaxed);
  }
  /// Returns true if no thief has taken the record; then it is offered no longer.
  bool take_back(task& r) noexcept {
    const bool mine = is_offered(r);
    if (mine) unlink(r);
    return mine;
  }
  /// Lowers the watermark, unless there is a new request.
  void clear_request(std::uint64_t watermark) noexcept {
    // (2) release: pairs with (1).
    watermark_.store(watermark, std::memory_order_release);
    // (3) full_fence: pairs with parking.hpp (5). A sleeper announces itself, then requests work of all workers: either
    // it does so after the store above, or the check below finds it announced.
    sync::full_fence();
    if (idle_.anyone() || options_.always) watermark_.store(requested, std::memory_order_relaxed);
  }

  // --- Thieves.

  /// True if there may be something to steal.
  bool offers() const noexcept { return offered() != 0; }
  /// Makes the owner publish tasks at its next fork or join. Loops also call it for their own worker.
  void request_work() noexcept {
    if (!work_requested()) watermark_.store(requested, std::memory_order_relaxed);
  }
  /// Takes the oldest offered task for which wanted(record) is true; wanted is called under the lock. Fills `noted`;
  /// the thief runs the record. Returns null if there is none, or another thread holds the lock.
  template <class Wanted>
  task* steal(unsigned thief, theft& noted, Wanted wanted) noexcept {
    if (!offers() || !lock_.try_lock()) return nullptr;
    task* r = oldest_;
    while (r != nullptr && !wanted(std::as_const(*r))) r = r->shared_.read_ref().value.newer;
    if (r != nullptr) {
      unlink(*r);
      give(*r, thief, noted);
    }
    lock_.unlock();
    return r;
  }

  // --- Leapfrogging. A worker that waits for a fork or for a scope takes only parts of it, from any worker.

  /// For the owner: its forks deeper than `depth` are, until leave(), part of `now`, which it has taken and not begun.
  void enter(theft& now, std::uint64_t depth) noexcept {
    now.floor = depth;
    lock_.lock();
    now.outer = newest_theft_.read_ref();
    newest_theft_.write_ref() = &now;
    lock_.unlock();
  }
  void leave(const theft& now) noexcept {
    lock_.lock();
    newest_theft_.write_ref() = now.outer;
    lock_.unlock();
  }
  /// The same for an owner without forks, and without the lock. A thief that looks for the theft around a fork holds
  /// the lock, and the fork is in the list: it was pushed after enter_alone(), and is joined before leave_alone().
  void enter_alone(theft& now) noexcept {
    now.floor = 0;
    now.outer = nullptr;
    newest_theft_.write_ref() = &now;
  }
  void leave_alone() noexcept { newest_theft_.write_ref() = nullptr; }
  /// For the owner: the innermost theft that it executes, or null.
  const theft* newest_theft() const noexcept { return newest_theft_.read_ref(); }
  /// For the owner: the level of thefts that are part of newest_theft().
  unsigned level() const noexcept { return newest_theft() == nullptr ? 0 : newest_theft()->level + 1; }
  /// As steal(), but takes only parts of a stolen fork or of a scope; `level` is that of the fork's theft, or of thefts
  /// from the scope.
  task* steal_part_of(const void* what, unsigned level, unsigned thief, theft& noted) noexcept {
    const theft* last = nullptr;
    bool is_part = false;  // the answer for `last`
    return steal(thief, noted, [&](const task& r) {
      if (r.group() == what) return true;
      // This theft and those around it have not ended: `r` is part of them, and can be joined only under this lock.
      const theft* const around = theft_around(r);
      if (around != last) {
        last = around;
        is_part = around != nullptr && around->is_part_of(what, level);
      }
      return is_part;
    });
  }

  /// Asserts that `forks` halves of forks are offered, and else only asyncs. Called only by the owner, while no thread
  /// steals.
  void check(unsigned forks) const {
    unsigned others = 0;
    for (const task* r = oldest_; r != nullptr; r = r->shared_.read_ref().value.newer) others += r->group() != nullptr;
    MUSTER_CHECK(forks + others == offered(), "something that is offered is lost");
  }
  static bool is_offered(const task& r) noexcept {
    return r.state_.value.load(std::memory_order_relaxed) == task::offered;
  }

 private:
  void unlink(task& r) noexcept {
    const task::published& at = r.shared_.read_ref().value;
    (at.older == nullptr ? oldest_ : at.older->shared_.write_ref().value.newer) = at.newer;
    (at.newer == nullptr ? newest_ : at.newer->shared_.write_ref().value.older) = at.older;
    offers_.store(offers_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  /// The theft that the record is part of, or null.
  const theft* theft_around(const task& r) const noexcept {
    if (r.group() != nullptr) return r.group()->around;  // the async may outlive the theft that started it
    const theft* at = newest_theft();
    while (at != nullptr && at->floor >= r.depth()) at = at->outer;
    return at;
  }
  void give(task& r, unsigned thief, theft& noted) noexcept {
    noted.around = theft_around(r);
    noted.level = noted.around == nullptr ? 0 : noted.around->level + 1;
    noted.of = r.group();
    r.shared_.write_ref().value.thief = thief;
    if (r.group() == nullptr) {
      noted.of = &r;
      r.error_.write_ref().construct();
    }
    // Relaxed: the owner reads it under the lock.
    r.state_.value.store(task::taken, std::memory_order_relaxed);
  }

  // The watermark: the depth of the owner's newest fork that other threads know, stored under the lock; or `requested`,
  // which any thread may store at any time: it only makes the owner take the slow path.
  sync::atomic<std::uint64_t> watermark_{0};
  idle_workers& idle_;
  const engine_options options_;
  // Everything below is changed under the lock.
  alignas(isolation_size) spin_lock lock_;
  sync::atomic<unsigned> offers_{0};  // the length of the list, from oldest_ to newest_
  task* oldest_ = nullptr;
  task* newest_ = nullptr;
  sync::cell<const theft*> newest_theft_{nullptr};  // the owner's innermost; changed by the owner
};

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
