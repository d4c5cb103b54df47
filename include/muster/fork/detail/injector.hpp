// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// injector.hpp: the functions that were given to a pool rather than forked, until a thread takes them.
//
// Order      functions from outside are taken oldest first. Nested ones, which the pool's own functions give, are
//            taken before them, newest first, so that a tree of tasks needs little memory. In every eighth turn the
//            oldest from outside has precedence, and in another one the oldest nested one is taken, so that none
//            starves. A thread that needs a certain function, or one of a group, takes it from the middle.
// Closing    the pool's end refuses further functions and drops the rest. The injector itself lives as long
//            as something refers to it, because futures outlive pools.
// Guests     a thread outside the pool that wants to use it enters as a guest; the pool's end waits for its guests. One
//            worker is kept for a guest that executes a function that it waits for: it takes both in one turn of the
//            lock, and gives the worker back without it. The pool's end looks for this guest from time to time.
// Progress   every operation takes a lock for a few instructions.
// Killed     a thread that stops while it holds the lock blocks the others.
#pragma once

#include <muster/base/sync.hpp>            // sync::atomic, sync::cell
#include <muster/fork/detail/parking.hpp>  // parker, spin_lock

#include <cstddef>  // std::size_t
#include <mutex>    // std::lock_guard
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI::detail {

class pool_core;
class worker;
class injected;

/// The functions of a group that no thread has taken.
class injected_group {
 public:
  /// A hint, unless the caller has executed a full fence.
  bool has_any() const noexcept { return newest_.load(std::memory_order_relaxed) != nullptr; }

 private:
  friend class injector;
  sync::atomic<injected*> newest_{nullptr};  // changed under the injector's lock
};

/// A function that was given to a pool. One of the two functions is called, once: run() by a thread that has taken it,
/// or drop() when the pool ends before. Afterwards it may not exist any more.
class injected {
 public:
  using action = void (*)(injected&) noexcept;
  /// `of`: what a thread waits for that executes it, or parts of it; or null: the function itself.
  injected(action to_run, action to_drop, const void* of = nullptr) noexcept
      : run_(to_run), drop_(to_drop), of_(of == nullptr ? this : of) {}
  injected(const injected&) = delete;
  injected& operator=(const injected&) = delete;

  void run() noexcept { run_(*this); }
  void drop() noexcept { drop_(*this); }
  const void* of() const noexcept { return of_; }
  /// A hint: false if a thread has taken it, or it has not been given yet.
  bool is_queued() const noexcept { return queued_.load(std::memory_order_relaxed); }

 private:
  friend class injector;
  friend class injected_chain;
  struct links {
    injected* older = nullptr;
    injected* newer = nullptr;
  };
  const action run_, drop_;
  const void* const of_;
  sync::atomic<bool> queued_{false};  // changed under the lock, as everything below
  sync::cell<links> all_, in_group_;
  sync::cell<injected_group*> group_{nullptr};
  sync::cell<bool> nested_{false};
};

/// Functions of a group that a function of the pool gives together. The lock is held only to link both ends.
class injected_chain {
 public:
  explicit injected_chain(injected_group& of) noexcept : group_(&of) {}

  /// Adds the newest, which no other thread knows. It can be taken as one of the group or of all, and not by itself.
  void append(injected& one) noexcept {
    one.nested_.write_ref() = true;
    one.group_.write_ref() = group_;
    one.all_.write_ref() = one.in_group_.write_ref() = {newest_, nullptr};
    if (newest_ != nullptr) newest_->all_.write_ref().newer = newest_->in_group_.write_ref().newer = &one;
    else oldest_ = &one;
    newest_ = &one;
    ++many_;
  }
  std::size_t size() const noexcept { return many_; }
  /// Calls each(function) from the oldest to the newest.
  template <class Each>
  void for_each(Each each) const {
    for (injected* one = oldest_; one != nullptr;) {
      injected* const newer = one->all_.read_ref().newer;
      each(*one);
      one = newer;
    }
  }

 private:
  friend class injector;
  injected_group* group_;
  injected* oldest_ = nullptr;
  injected* newest_ = nullptr;
  std::size_t many_ = 0;
};

class injector {
 public:
  /// With the pool's reference.
  explicit injector(pool_core* of, unsigned process) noexcept : pool_(of), process_(process) {}
  injector(const injector&) = delete;
  injector& operator=(const injector&) = delete;

  void refer() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    // (1) acq_rel: alone, because it pairs with itself: the last one has seen the effects of all others.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// For the pool's end, after await_guests(). Also counts the references that put() has given.
  void release_by_pool() noexcept {
    lock_.lock();
    const std::size_t share = of_pool - given_.read_ref() + taken_back_.read_ref();
    lock_.unlock();
    if (references_.fetch_sub(share, std::memory_order_acq_rel) == share) delete this;  // (1)
  }

  /// True in the process with that number (process_generation()), which has created the pool. A child must not call
  /// anything else: a thread of the parent may hold the lock.
  bool is_of(unsigned process) const noexcept { return process_ == process; }

  struct looks_at_nothing {
    void operator()() const noexcept {}
  };
  /// Returns false if the pool is ending. `nested`: a function of the pool gives it. `refers`: the function's owner
  /// gets a reference, counted under the lock that is held anyway. look() is called while the lock is held: it sees
  /// what a thread has stored before its has_any_for_sleeper(), or that finds the function.
  template <class Look = looks_at_nothing>
  bool put(injected& one, injected_group* group = nullptr, bool nested = false, bool refers = false,
           Look look = {}) noexcept {
    const std::lock_guard lock(lock_);
    if (closed_.read_ref()) return false;
    if (refers) ++given_.write_ref();
    one.nested_.write_ref() = nested;
    one.group_.write_ref() = group;
    list& to = lists_[nested ? 1 : 0];
    one.all_.write_ref() = {to.newest.read_ref(), nullptr};
    (to.newest.read_ref() == nullptr ? to.oldest.write_ref() : to.newest.read_ref()->all_.write_ref().newer) = &one;
    to.newest.write_ref() = &one;
    if (group != nullptr) {
      injected* const older = group->newest_.load(std::memory_order_relaxed);
      one.in_group_.write_ref() = {older, nullptr};
      if (older != nullptr) older->in_group_.write_ref().newer = &one;
      group->newest_.store(&one, std::memory_order_relaxed);
    }
    one.queued_.store(true, std::memory_order_relaxed);
    count(1, 1);
    look();
    return true;
  }
  /// The same for several, at least one.
  template <class Look = looks_at_nothing>
  bool put(injected_chain& those, Look look = {}) noexcept {
    const std::lock_guard lock(lock_);
    if (closed_.read_ref()) return false;
    list& to = lists_[1];
    injected* const older = to.newest.read_ref();
    those.oldest_->all_.write_ref().older = older;
    (older == nullptr ? to.oldest.write_ref() : older->all_.write_ref().newer) = those.oldest_;
    to.newest.write_ref() = those.newest_;
    injected* const older_there = those.group_->newest_.load(std::memory_order_relaxed);
    those.oldest_->in_group_.write_ref().older = older_there;
    if (older_there != nullptr) older_there->in_group_.write_ref().newer = those.oldest_;
    those.group_->newest_.store(those.newest_, std::memory_order_relaxed);
    count(those.many_, those.many_);
    look();
    return true;
  }
  /// A hint, unless the caller has executed a full fence.
  bool has_any() const noexcept { return many_.load(std::memory_order_relaxed) != 0; }
  /// The same for a thread that has announced its sleep. If it finds nothing, the look() of each later put() sees that.
  bool has_any_for_sleeper() noexcept {
    const std::lock_guard lock(lock_);
    return has_any();
  }
  /// How many functions have been put, and how many taken, in total; it may wrap. A hint.
  std::size_t operations() const noexcept { return operations_.load(std::memory_order_relaxed); }
  /// Returns the next one, or null.
  injected* take() noexcept {
    if (!has_any()) return nullptr;
    const std::lock_guard lock(lock_);
    const unsigned turn = turn_.write_ref()++ % 8;
    injected* one = turn == 4 ? lists_[1].oldest.read_ref() : lists_[1].newest.read_ref();
    if (injected* const outer = lists_[0].oldest.read_ref(); outer != nullptr && (one == nullptr || turn == 0))
      one = outer;
    if (one != nullptr) unlink(*one);
    return one;
  }
  /// Returns the newest of the group, or null.
  injected* take_of(injected_group& group) noexcept {
    if (!group.has_any()) return nullptr;
    const std::lock_guard lock(lock_);
    injected* const one = group.newest_.load(std::memory_order_relaxed);
    if (one != nullptr) unlink(*one);
    return one;
  }
  /// Returns false if another thread has taken it.
  bool take(injected& one) noexcept {
    const std::lock_guard lock(lock_);
    const bool mine = one.is_queued();
    if (mine) unlink(one);
    return mine;
  }

  /// Returns the pool, which does not end before leave(); or null if it is ending.
  pool_core* enter() noexcept {
    const std::lock_guard lock(lock_);
    if (closed_.read_ref()) return nullptr;
    ++guests_.write_ref();
    return pool_;
  }
  void leave() noexcept {
    lock_.lock();
    const bool last = --guests_.write_ref() == 0 && closed_.read_ref();
    lock_.unlock();
    if (last) without_guests_.unpark();
  }
  /// For a guest that executes one function, in one turn of the lock: takes the function, enters, and takes the worker
  /// that is kept for guests, which the guest is until end_visit(). Returns null, with no effect, if one of that is not
  /// possible.
  worker* visit(injected& one) noexcept {
    const std::lock_guard lock(lock_);
    if (closed_.read_ref() || kept_.read_ref() == nullptr || has_visitor() || !one.is_queued()) return nullptr;
    unlink(one);
    visited_.store(true, std::memory_order_relaxed);
    return kept_.read_ref();
  }
  /// `releases`: also returns a reference that put() has given. The injector may not exist any more then.
  void end_visit(bool releases) noexcept {
    if (releases) taken_back_.write_ref() += 1;
    // (2) release: pairs with (3).
    visited_.store(false, std::memory_order_release);
  }
  /// True while a guest is the worker that is kept, and counted nowhere else. If not, the caller sees what it did.
  bool has_visitor() const noexcept {
    // (3) acquire: pairs with (2).
    return visited_.load(std::memory_order_acquire);
  }
  /// Keeps a worker for guests. Returns false if one is kept already.
  bool keep(worker& one) noexcept {
    const std::lock_guard lock(lock_);
    if (kept_.read_ref() != nullptr) return false;
    kept_.write_ref() = &one;
    return true;
  }
  /// Returns the worker that is kept, for another use; or null.
  worker* take_kept() noexcept {
    const std::lock_guard lock(lock_);
    return has_visitor() ? nullptr : std::exchange(kept_.write_ref(), nullptr);
  }
  /// For the pool's end: no function comes in any more. The rest can still be taken.
  void close() noexcept {
    const std::lock_guard lock(lock_);
    closed_.write_ref() = true;
  }
  /// After close(): waits until all guests have left.
  void await_guests() noexcept {
    for (;;) {
      lock_.lock();
      const bool none = guests_.read_ref() == 0;
      lock_.unlock();
      if (none) break;
      without_guests_.park();
    }
    // A visitor signals nothing after its last store. park_until() lets the other fibers of this thread run; the
    // visitor's function may wait for one of them.
    while (has_visitor()) without_guests_.park_until(deadline_clock::now() + std::chrono::milliseconds(1));
  }

 private:
  ~injector() = default;

  struct list {
    sync::cell<injected*> oldest{nullptr}, newest{nullptr};
  };

  void unlink(injected& one) noexcept {
    list& from = lists_[one.nested_.read_ref() ? 1 : 0];
    const auto [older, newer] = one.all_.read_ref();
    (older == nullptr ? from.oldest.write_ref() : older->all_.write_ref().newer) = newer;
    (newer == nullptr ? from.newest.write_ref() : newer->all_.write_ref().older) = older;
    if (injected_group* const group = one.group_.read_ref(); group != nullptr) {
      const auto [older_there, newer_there] = one.in_group_.read_ref();
      if (older_there != nullptr) older_there->in_group_.write_ref().newer = newer_there;
      if (newer_there != nullptr) newer_there->in_group_.write_ref().older = older_there;
      else group->newest_.store(older_there, std::memory_order_relaxed);
    }
    one.queued_.store(false, std::memory_order_relaxed);
    count(~std::size_t{0}, 1);
  }
  void count(std::size_t more, std::size_t operations) noexcept {
    many_.store(many_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    operations_.store(operations_.load(std::memory_order_relaxed) + operations, std::memory_order_relaxed);
  }

  pool_core* const pool_;
  const unsigned process_;
  // The pool's reference is so many, so that the ones given under the lock need not be among them until its end.
  static constexpr std::size_t of_pool = ~(~std::size_t{0} >> 1U);
  sync::atomic<std::size_t> references_{of_pool};
  spin_lock lock_;
  sync::atomic<std::size_t> many_{0};  // the length of both lists; changed under the lock, as everything below
  sync::atomic<std::size_t> operations_{0};
  list lists_[2];  // from outside, and nested
  sync::cell<unsigned> turn_{0U};
  sync::cell<bool> closed_{false};
  sync::cell<unsigned> guests_{0U};
  sync::cell<worker*> kept_{nullptr};                   // no thread is it but a visitor
  sync::cell<std::size_t> given_{std::size_t{0}};       // references
  sync::atomic<bool> visited_{false};                   // set under the lock, reset by the visitor
  sync::cell<std::size_t> taken_back_{std::size_t{0}};  // references; of the visitor
  parker without_guests_;
};

}  // namespace muster::inline MUSTER_ABI::detail
