// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// watermark.hpp: the forks of one thread: a deque in the frames of the functions that fork.
//
// A fork links a record into a list, and the join unlinks it: a few stores that other threads rarely read. A thief that
// finds nothing to take requests work by raising the thread's watermark above everything. The thread's next fork or
// join sees that, publishes the older half of its records, and lowers the watermark to the depth of the newest of them.
// No other thread has seen a record deeper than the watermark. So one compare at the join is both the yieldpoint, where
// a thread publishes, and the return barrier, where it learns that the next record may have been stolen. (Depths are
// counted. Addresses would need no count, but two forks whose functions are inlined are in one frame, in any order.)
//
// Order      the owner takes the newest record, thieves the oldest.
// Progress   without a request, a fork and a join take a few instructions, with no fence and no read-modify-write.
//            Otherwise they take a lock, which is held during a walk over the records.
// Killed     a thread that stops while it holds the lock blocks the owner at its next slow path.
// Memory     the records; nothing else.
// Source     Kumar, Blackburn, Grove, "Friendly Barriers" (VEE 2014) and Kumar, Frampton, Blackburn, Grove, Tardieu,
//            "Work-Stealing Without The Baggage" (OOPSLA 2012) for the return barrier and for requests; the watermark
//            is that of OpenJDK's stack watermark barriers (JEP 376). Publishing for an owner uses an asymmetric fence
//            (Dice, Huang, Yang, 2001).
#pragma once

#include <muster/base/arch.hpp>               // isolation_size
#include <muster/base/detail/native.hpp>      // native::worker_binding
#include <muster/base/sync.hpp>               // sync::atomic
#include <muster/fork/detail/steal_list.hpp>  // steal_list
#include <muster/fork/detail/task.hpp>        // task

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

/// The forks of one worker, used on one stack at a time. An engine by itself (engine.hpp), and where the other one
/// pushes what it cannot find on the stack.
class alignas(isolation_size) watermark_engine {
 public:
  /// `asleep`: the workers that may steal.
  explicit watermark_engine(idle_workers& asleep, const engine_options& options = {}) noexcept
      : tasks_(asleep, options) {
    bottom_.own_.write_ref().value = {nullptr, nullptr, 0};
  }
  watermark_engine(const watermark_engine&) = delete;
  watermark_engine& operator=(const watermark_engine&) = delete;

  steal_list& tasks() noexcept { return tasks_; }
  const steal_list& tasks() const noexcept { return tasks_; }
  watermark_engine& pushed() noexcept { return *this; }

  // --- The owner. It pops every record that it pushed, in reverse order. If pop() returns false, take_back() decides.

  MUSTER_HOT void push(task& r, task::runner run) noexcept {
    task* const older = head_.load(std::memory_order_relaxed);
    r.own_.write_ref().value = {older, run, older->depth() + 1};
    // (1) release: pairs with (2). A thread that publishes for the owner finds the record initialized.
    head_.store(&r, std::memory_order_release);
    // (4) light_fence: pairs with (5), scheduler.hpp (6). A thread that requests work and then looks finds the record,
    // or we see the request.
    sync::light_fence();
    if (tasks_.work_requested()) [[unlikely]]
      publish();
  }
  /// Returns true if no other thread can see the record; then the caller executes its second half.
  MUSTER_HOT bool pop(task& r) noexcept {
    // (3) release: pairs with (2). The remaining records were pushed before.
    head_.store(r.older(), std::memory_order_release);
    // (4)
    sync::light_fence();
    return tasks_.is_private(r.depth());
  }
  /// After pop() has returned false. Returns true if the caller may execute the second half after all. Otherwise a
  /// thief has it: wait until it is done, and call joined().
  MUSTER_COLD bool take_back(task& r) noexcept {
    const timed returning(tasks_.counts.returning);
    tasks_.lock();
    unsigned published = 0;
    bool mine = is_private(&r);
    if (mine) {
      published = publish_share();
    } else {
      mine = tasks_.take_back(r);
      // The next older record is not private either: it was published before this one.
      bar_ = r.older();
      steal_counts::add(tasks_.counts.returns, 1);
    }
    tasks_.clear_request(bar_->depth());
    tasks_.unlock();
    if (published != 0) tasks_.wake_thief();
    return mine;
  }

  /// Offers an async of the scope `group`. It is executed once and never joined.
  MUSTER_COLD void offer(task& r, task::runner run, const scope_node& group) noexcept {
    task* const newest = head_.load(std::memory_order_relaxed);
    r.own_.write_ref().value = {newest, run, newest->depth() + 1};
    tasks_.lock();
    publish_share();  // they are older
    steal_list::prepare(r, &group, nullptr);
    tasks_.append(r, r, 1);
    tasks_.clear_request(bar_->depth());
    tasks_.unlock();
    tasks_.wake_thief();
  }
  /// For the owner, before it sleeps: publishes everything.
  MUSTER_COLD void publish_all() noexcept {
    tasks_.lock();
    while (publish_share() != 0) {
    }
    tasks_.clear_request(bar_->depth());
    tasks_.unlock();
    if (tasks_.offers()) tasks_.wake_thief();
  }

  // --- Thieves.

  /// True if the owner has records, or had some a moment ago.
  bool may_have_more() const noexcept { return head_.load(std::memory_order_relaxed) != &bottom_; }
  /// Publishes for an owner that does not. Requires sync::asymmetric_fences(). Costs microseconds, and
  /// interrupts the process's other threads, unless there is nothing to publish. Returns true.
  MUSTER_COLD bool publish_for_owner() noexcept {
    tasks_.lock();
    if (head_.load(std::memory_order_relaxed) != bar_) {
      tasks_.poll_word().store(steal_list::requested, std::memory_order_relaxed);
      // (5) heavy_fence: pairs with (4). From here on the owner cannot join a record that we see without taking the
      // lock: either its pop() comes after the fence and reads `requested`, or we see the list without the record.
      sync::heavy_fence();
      publish_share();
      tasks_.clear_request(bar_->depth());
    }
    tasks_.unlock();
    return true;
  }

  /// Asserts the invariants. Called only by the owner, while no thread steals.
  void check() const {
    bool stolen_or_offered = false;
    unsigned many = 0;
    std::uint64_t last = steal_list::requested;
    for (const task* r = head_.load(std::memory_order_relaxed); r != &bottom_; r = r->older()) {
      MUSTER_CHECK(r->depth() < last, "a newer fork is joined after an older one");
      last = r->depth();
      stolen_or_offered = stolen_or_offered || r == bar_;
      if (stolen_or_offered) many += steal_list::is_offered(*r);
    }
    MUSTER_CHECK(stolen_or_offered == (bar_ != &bottom_), "the watermark stands at a fork that has been joined");
    tasks_.check(many);
  }

  // --- The rest of what an engine has: this one is possible everywhere, and needs to know nothing of its thread.

  static constexpr const char* unavailable_reason() noexcept {
    return "it is not compiled in: define MUSTER_FORK_BARRIER, and compile without sanitizers, for Linux on x86-64 "
           "with glibc 2.35 or later (older ones, and musl, lack _dl_find_object)";
  }
  static constexpr bool uses_stack_scan() noexcept { return false; }
  static constexpr const void* poll_word() noexcept { return &native::worker_binding::no_poll_word; }
  void begin(const void*) noexcept {}
  void begin_thread() noexcept {}
  void set_running(bool) noexcept {}
  void suspend() noexcept {}
  void resume() noexcept {}
  /// For the owner: the depth of the newest record; later ones are deeper.
  std::uint64_t depth() const noexcept { return head_.load(std::memory_order_relaxed)->depth(); }

 private:
  // Under the lock. bar_ may have left the list already, between the owner's pop() and take_back().
  bool is_private(const task* r) const noexcept { return r->depth() > bar_->depth(); }
  /// Called in a fork of which a thief requests work.
  MUSTER_COLD void publish() noexcept {
    const timed publishing(tasks_.counts.publishing);
    tasks_.lock();
    const unsigned published = publish_share();
    tasks_.clear_request(bar_->depth());
    tasks_.unlock();
    steal_counts::add(tasks_.counts.answers, 1);
    steal_counts::add(tasks_.counts.offered, published);
    if (published != 0) tasks_.wake_thief();
    tasks_.wait_for_theft();
  }
  /// Under the lock. Publishes the older half of the private records, or the share in the options. Returns their
  /// number.
  unsigned publish_share() noexcept {
    unsigned many = 0;
    // (2) acquire: pairs with (1), (3). Read once: when a thief publishes for the owner, it may still push or pop a
    // record.
    task* first = head_.load(std::memory_order_acquire);
    for (task* r = first; is_private(r); r = r->older()) ++many;
    if (many == 0) return 0;
    const unsigned share = tasks_.options().share_of(many);
    for (unsigned kept = many - share; kept > 0; --kept) first = first->older();
    task* oldest = nullptr;
    for (task* r = first; is_private(r); r = r->older()) {
      steal_list::prepare(*r, nullptr, oldest);
      oldest = r;
    }
    tasks_.append(*oldest, *first, share);
    bar_ = first;
    return share;
  }

  steal_list tasks_;
  // The list of all unjoined records, newest first: private ones, then, from bar_ on, published or stolen ones. Written
  // by the owner.
  sync::atomic<task*> head_{&bottom_};
  task* bar_ = &bottom_;  // the newest record that is not private; changed under the lock of tasks_
  task bottom_;           // a sentinel, older than all others
};

}  // namespace muster::inline MUSTER_ABI::detail
