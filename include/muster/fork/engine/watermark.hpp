// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// watermark.hpp: the forks of one thread: a deque in the frames of the functions that fork.
//
// A fork links a record into a list, and the join unlinks it: a few stores that other threads rarely read. A thief that
// finds nothing to take asks, by raising the thread's watermark above everything. The thread's next fork or join sees
// that, publishes the older half of its records, and lowers the watermark to the depth of the newest of them. No other
// thread has seen a record deeper than the watermark. So one compare at the join is both the yieldpoint, where a thread
// answers, and the return barrier, where it learns that the next record may have been stolen. (Depths are counted.
// Addresses would need no count, but two forks whose functions are inlined are in one frame, in any order.)
//
// Order      the owner takes the newest record, thieves the oldest.
// Progress   without a request, a fork and a join take a few instructions, with no fence and no read-modify-write.
//            Otherwise they take a lock, which is held during a walk over the records.
// Killed     a thread that stops while it holds the lock blocks the owner at its next slow path.
// Memory     the records; nothing else.
// Source     Kumar, Blackburn, Grove, "Friendly Barriers" (VEE 2014) and Kumar, Frampton, Blackburn, Grove, Tardieu,
//            "Work-Stealing Without The Baggage" (OOPSLA 2012) for the return barrier and for asking; the watermark is
//            that of OpenJDK's stack watermark barriers (JEP 376). Publishing for an owner uses an asymmetric fence
//            (Dice, Huang, Yang, 2001).
#pragma once

#include <muster/base/arch.hpp>                // isolation_size
#include <muster/base/sync.hpp>                // sync::atomic
#include <muster/fork/engine/fork_record.hpp>  // fork_record
#include <muster/fork/impl/sleepers.hpp>       // sleepers, short_lock
#include <muster/fork/impl/stealing.hpp>       // deque_options, steal_counts

#include <cstdint>  // std::uint64_t
#include <utility>  // std::as_const

namespace muster::inline MUSTER_ABI::detail {

/// The deque of one worker, used on one stack at a time.
class alignas(isolation_size) fork_deque {
 public:
  /// `asleep`: the workers that may steal.
  explicit fork_deque(sleepers& asleep, const deque_options& options = {}) noexcept
      : sleepers_(asleep), options_(options) {
    bottom_.own_.ref().value = {nullptr, nullptr, 0};
    raise_mark();
  }
  fork_deque(const fork_deque&) = delete;
  fork_deque& operator=(const fork_deque&) = delete;

  // --- The owner. It pops every record that it pushed, in reverse order. If pop() returns false, take_back() decides.

  MUSTER_HOT void push(fork_record& r, fork_record::runner run) noexcept {
    fork_record* const older = head_.load(std::memory_order_relaxed);
    r.own_.ref().value = {older, run, older->depth() + 1};
    // (1) release: pairs with (2). A thread that publishes for the owner finds the record initialized.
    head_.store(&r, std::memory_order_release);
    // (4) light_fence: pairs with (5), impl/work.hpp (1). A thread that asks and then looks finds the record, or we see
    // that we are asked.
    sync::light_fence();
    if (mark_.load(std::memory_order_relaxed) == asked) [[unlikely]]
      answer();
  }

  /// Returns true if no other thread can see the record; then the caller executes its second half.
  MUSTER_HOT bool pop(fork_record& r) noexcept {
    // (3) release: pairs with (2). The remaining records were pushed before.
    head_.store(r.older(), std::memory_order_release);
    // (4)
    sync::light_fence();
    // (6) acquire: pairs with (7). A thief that walked over the record has finished with it.
    return r.depth() > mark_.load(std::memory_order_acquire);
  }
  /// After pop() has returned false. Returns true if the caller may execute the second half after all. Otherwise a
  /// thief has it: wait until it is done, and call joined().
  MUSTER_COLD inline bool take_back(fork_record& r) noexcept;

  /// Offers an async of the scope `group`. It is executed once and never joined.
  MUSTER_COLD inline void offer(fork_record& r, fork_record::runner run, const scope_link& group) noexcept;
  /// For the owner, before it sleeps: publishes everything.
  MUSTER_COLD inline void publish_all() noexcept;
  /// The number of records offered.
  unsigned offered() const noexcept { return offers_.load(std::memory_order_relaxed); }

  /// True if the next fork will be published: for loops, which can fork at any turn.
  MUSTER_HOT bool is_asked() const noexcept { return mark_.load(std::memory_order_relaxed) == asked; }

  // --- Thieves.

  /// True if there may be something to steal.
  bool offers() const noexcept { return offered() != 0; }
  /// True if the owner has records, or had some a moment ago.
  bool has_records() const noexcept { return head_.load(std::memory_order_relaxed) != &bottom_; }
  /// Asks the owner to publish records at its next fork or join. Loops also ask their own worker.
  void ask() noexcept {
    if (mark_.load(std::memory_order_relaxed) != asked) mark_.store(asked, std::memory_order_relaxed);
  }
  /// Takes the oldest published record for which wanted(record) is true; wanted is called under the lock. Fills
  /// `noted`; the thief runs the record. Returns null if there is none, or another thread holds the lock.
  template <class Wanted>
  fork_record* steal(unsigned thief, theft& noted, Wanted wanted) noexcept;
  /// Publishes for an owner that does not answer. Requires sync::asymmetric_fences(). Costs microseconds, and
  /// interrupts the process's other threads, unless there is nothing to publish. Returns true.
  MUSTER_COLD inline bool answer_for_owner() noexcept;

  // --- Leapfrogging. A worker that waits for a fork or for a scope takes only parts of it, from any worker.

  /// For the owner: its forks until leave() are part of `now`, which it has taken and not begun.
  void enter(theft& now) noexcept { enter_at(now, depth()); }
  void leave(const theft& now) noexcept {
    lock_.lock();
    newest_theft_.ref() = now.outer;
    lock_.unlock();
  }
  /// For the owner: the innermost theft that it executes, or null.
  const theft* newest_theft() const noexcept { return newest_theft_.get(); }
  /// For the owner: the level of thefts that are part of newest_theft().
  unsigned level() const noexcept { return newest_theft() == nullptr ? 0 : newest_theft()->level + 1; }
  /// As steal(), but takes only parts of a stolen fork or of a scope; `level` is that of the fork's theft, or of thefts
  /// from the scope.
  fork_record* steal_part_of(const void* what, unsigned level, unsigned thief, theft& noted) noexcept {
    const theft* last = nullptr;
    bool is_part = false;  // the answer for `last`
    return steal(thief, noted, [&](const fork_record& r) {
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

  /// Asserts the invariants. Called only by the owner, while no thread steals.
  void check() const;

  // --- Statistics, and hooks that only the other engine needs.

  steal_counts counts;  // the owner's

  static constexpr bool by_frames() noexcept { return false; }
  static constexpr const char* obstacle() noexcept {
    return "it is not compiled in: define MUSTER_FORK_BARRIER, and compile without sanitizers, for Linux on x86-64 "
           "with glibc 2.35 or later (older ones, and musl, lack _dl_find_object)";
  }
  void begin_on_stack(const void*) noexcept {}
  void begin_thread() noexcept {}
  void runs(bool) noexcept {}
  void pause() noexcept {}
  void go_on() noexcept {}
  static constexpr const void* mark() noexcept { return &real::pool_place::nobodys_mark; }

  /// For the owner: the depth of the newest record; later ones are deeper.
  std::uint64_t depth() const noexcept { return head_.load(std::memory_order_relaxed)->depth(); }

 protected:
  void enter_at(theft& now, std::uint64_t depth) noexcept {
    now.floor = depth;
    lock_.lock();
    now.outer = newest_theft_.get();
    newest_theft_.ref() = &now;
    lock_.unlock();
  }

  static constexpr std::uint64_t asked = ~std::uint64_t{0};

  // Under the lock. bar_ may have left the list already, between the owner's pop() and take_back().
  bool is_private(const fork_record* r) const noexcept { return r->depth() > bar_->depth(); }
  MUSTER_COLD inline void answer() noexcept;
  unsigned publish_share() noexcept;
  /// The theft that the record is part of, or null.
  const theft* theft_around(const fork_record& r) const noexcept {
    if (r.group() != nullptr) return r.group()->around;  // the async may outlive the theft that started it
    const theft* at = newest_theft();
    while (at != nullptr && at->floor >= r.depth()) at = at->outer;
    return at;
  }
  void give(fork_record& r, unsigned thief, theft& noted) noexcept;
  void append(fork_record& r, const scope_link* group) noexcept;
  void unlink(fork_record& r) noexcept;
  /// With steal_share::one, the owner waits until the thief has taken the fork.
  void wait_for_theft() const noexcept {
    constexpr std::uint64_t patience = 50'000;  // cycles; the thief may have found other work
    if (options_.share != steal_share::one || options_.always) return;
    for (const std::uint64_t since = cycles(); offers() && cycles() - since < patience;) sync::relax();
  }
  void raise_mark() noexcept;

  // The list of all unjoined records, newest first: private ones, then, from bar_ on, published or stolen ones. Written
  // by the owner.
  sync::atomic<fork_record*> head_{&bottom_};
  // The depth of bar_, stored under the lock; or `asked`, which any thread may store at any time: it only makes the
  // owner take the slow path.
  sync::atomic<std::uint64_t> mark_{0};
  sleepers& sleepers_;
  const deque_options options_;
  fork_record bottom_;  // a sentinel, older than all others
  // Everything below is changed under the lock.
  alignas(isolation_size) short_lock lock_;
  sync::atomic<unsigned> offers_{0};  // records published and not taken: from oldest_ to newest_
  fork_record* oldest_ = nullptr;
  fork_record* newest_ = nullptr;
  fork_record* bar_ = &bottom_;                     // the newest record that is not private
  sync::cell<const theft*> newest_theft_{nullptr};  // the owner's innermost; changed by the owner
};

/// Under the lock.
inline void fork_deque::raise_mark() noexcept {
  // (7) release: pairs with (6).
  mark_.store(bar_->depth(), std::memory_order_release);
  // (8) full_fence: pairs with impl/sleepers.hpp (5). A sleeper announces itself, then asks all workers: either it asks
  // after the store above, or the check below finds it announced.
  sync::full_fence();
  if (sleepers_.anyone() || options_.always) mark_.store(asked, std::memory_order_relaxed);
}

/// Under the lock. Publishes the older half of the private records, or the share in the options. Returns their number.
inline unsigned fork_deque::publish_share() noexcept {
  unsigned many = 0;
  // (2) acquire: pairs with (1), (3). Read once: when a thief answers for the owner, it may still push or pop a record.
  fork_record* first = head_.load(std::memory_order_acquire);
  for (fork_record* r = first; is_private(r); r = r->older()) ++many;
  if (many == 0) return 0;
  const unsigned share = options_.share_of(many);
  for (unsigned kept = many - share; kept > 0; --kept) first = first->older();
  fork_record* newer = nullptr;
  for (fork_record* r = first; is_private(r); r = r->older()) {
    r->shared_.ref().construct();
    r->shared_.ref().value.newer = newer;
    r->state_.construct(fork_record::offered);
    if (newer != nullptr) newer->shared_.ref().value.older = r;
    newer = r;
  }
  newer->shared_.ref().value.older = newest_;
  (newest_ == nullptr ? oldest_ : newest_->shared_.ref().value.newer) = newer;
  newest_ = bar_ = first;
  offers_.store(offers_.load(std::memory_order_relaxed) + share, std::memory_order_relaxed);
  return share;
}

void fork_deque::answer() noexcept {
  const timed publishing(counts.publishing);
  lock_.lock();
  const unsigned published = publish_share();
  raise_mark();
  lock_.unlock();
  steal_counts::add(counts.answers, 1);
  steal_counts::add(counts.offered, published);
  if (published != 0 && sleepers_.anyone()) sleepers_.wake_one();
  wait_for_theft();
}

void fork_deque::offer(fork_record& r, fork_record::runner run, const scope_link& group) noexcept {
  fork_record* const newest = head_.load(std::memory_order_relaxed);
  r.own_.ref().value = {newest, run, newest->depth() + 1};
  lock_.lock();
  publish_share();  // they are older
  append(r, &group);
  raise_mark();
  lock_.unlock();
  if (sleepers_.anyone()) sleepers_.wake_one();
}

bool fork_deque::take_back(fork_record& r) noexcept {
  const timed returning(counts.returning);
  lock_.lock();
  unsigned published = 0;
  bool mine = is_private(&r);
  if (mine) {
    published = publish_share();
  } else {
    mine = r.state_.value.load(std::memory_order_relaxed) == fork_record::offered;
    if (mine) unlink(r);
    // The next older record is not private either: it was published before this one.
    bar_ = r.older();
    steal_counts::add(counts.returns, 1);
  }
  raise_mark();
  lock_.unlock();
  if (published != 0 && sleepers_.anyone()) sleepers_.wake_one();
  return mine;
}

/// Under the lock: appends the record to the list of offered ones.
inline void fork_deque::append(fork_record& r, const scope_link* group) noexcept {
  r.shared_.ref().construct();
  r.shared_.ref().value.group = group;
  r.shared_.ref().value.older = newest_;
  r.state_.construct(fork_record::offered);
  (newest_ == nullptr ? oldest_ : newest_->shared_.ref().value.newer) = &r;
  newest_ = &r;
  offers_.store(offers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Under the lock: removes the record from the list of offered ones.
inline void fork_deque::unlink(fork_record& r) noexcept {
  const fork_record::published& at = r.shared_.get().value;
  (at.older == nullptr ? oldest_ : at.older->shared_.ref().value.newer) = at.newer;
  (at.newer == nullptr ? newest_ : at.newer->shared_.ref().value.older) = at.older;
  offers_.store(offers_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

/// Under the lock.
inline void fork_deque::give(fork_record& r, unsigned thief, theft& noted) noexcept {
  noted.around = theft_around(r);
  noted.level = noted.around == nullptr ? 0 : noted.around->level + 1;
  noted.of = r.group();
  r.shared_.ref().value.thief = thief;
  if (r.group() == nullptr) {
    noted.of = &r;
    r.error_.ref().construct();
  }
  // Relaxed: the owner reads it under the lock.
  r.state_.value.store(fork_record::taken, std::memory_order_relaxed);
}

template <class Wanted>
fork_record* fork_deque::steal(unsigned thief, theft& noted, Wanted wanted) noexcept {
  if (!offers() || !lock_.try_lock()) return nullptr;
  fork_record* r = oldest_;
  while (r != nullptr && !wanted(std::as_const(*r))) r = r->shared_.get().value.newer;
  if (r != nullptr) {
    unlink(*r);
    give(*r, thief, noted);
  }
  lock_.unlock();
  return r;
}

bool fork_deque::answer_for_owner() noexcept {
  lock_.lock();
  if (head_.load(std::memory_order_relaxed) == bar_) {
    lock_.unlock();
    return true;
  }
  mark_.store(asked, std::memory_order_relaxed);
  // (5) heavy_fence: pairs with (4). From here on the owner cannot join a record that we see without taking the lock:
  // either its pop() comes after the fence and reads `asked`, or we see the list without the record.
  sync::heavy_fence();
  publish_share();
  raise_mark();
  lock_.unlock();
  return true;
}

void fork_deque::publish_all() noexcept {
  lock_.lock();
  while (publish_share() != 0) {
  }
  raise_mark();
  lock_.unlock();
  if (offers() && sleepers_.anyone()) sleepers_.wake_one();
}

inline void fork_deque::check() const {
  bool stolen_or_offered = false;
  unsigned many = 0;
  std::uint64_t last = asked;
  for (const fork_record* r = head_.load(std::memory_order_relaxed); r != &bottom_; r = r->older()) {
    MUSTER_CHECK(r->depth() < last, "a newer fork is joined after an older one");
    last = r->depth();
    stolen_or_offered = stolen_or_offered || r == bar_;
    if (stolen_or_offered) many += r->state_.value.load(std::memory_order_relaxed) == fork_record::offered;
  }
  MUSTER_CHECK(stolen_or_offered == (bar_ != &bottom_), "the watermark stands at a fork that has been joined");
  unsigned others = 0;
  for (const fork_record* r = oldest_; r != nullptr; r = r->shared_.get().value.newer) others += r->group() != nullptr;
  MUSTER_CHECK(many + others == offered(), "something that is offered is lost");
}

}  // namespace muster::inline MUSTER_ABI::detail
