// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_record.hpp: a task that any worker may execute: the second half of a fork, or a queued async. watermark.hpp
// describes the life of a record.
#pragma once

#include <muster/base/slot.hpp>             // slot
#include <muster/base/sync.hpp>             // sync::atomic, sync::cell
#include <muster/fork/impl/open_count.hpp>  // open_count
#include <muster/fork/impl/sleepers.hpp>    // parking_place

#include <cstdint>    // std::uint64_t
#include <exception>  // std::exception_ptr

namespace muster::inline MUSTER_ABI::detail {

/// A record that a worker has taken and executes; on that worker's stack. It is part of the theft in which it was
/// forked or its scope was opened. So thefts form a tree, in which none ends before its descendants.
struct theft {
  const void* of = nullptr;       // the fork's record, or the scope; only for comparison
  const theft* around = nullptr;  // the theft that this is part of, or null
  unsigned level = 0;             // one more than that of `around`
  const theft* outer = nullptr;   // the previous unfinished theft of the same worker
  std::uint64_t floor = 0;        // forks of the worker that are deeper are part of this

  /// True if this is `what`, at that level, or part of it. The search is bounded and may miss a distant ancestor.
  bool is_part_of(const void* what, unsigned its_level) const noexcept {
    const theft* at = this;
    for (unsigned steps = 64; at != nullptr && at->level > its_level && steps > 0; --steps) at = at->around;
    return at != nullptr && at->of == what;
  }
};

/// A scope that waits for the asyncs started in it.
struct scope_link {
  const theft* around = nullptr;  // the theft in which it was opened, or null
};

/// The second half of a fork, until it is joined; it is in the frame that forks. Or a queued async, elsewhere.
class fork_record {
 public:
  /// Executes the record. Returns the count of its scope, and then the record may not exist any more; or null for the
  /// half of a fork, whose owner waits for done().
  using runner = open_count* (*)(fork_record&) noexcept;

  fork_record() noexcept = default;
  fork_record(const fork_record&) = delete;
  fork_record& operator=(const fork_record&) = delete;

  /// For the thief. It wakes the waiting owner here, in its own code, and not in the runner: that is in the library
  /// that forks, which may be unloaded as soon as the owner continues.
  void run() noexcept {
    if (open_count* const scope = own_.get().value.run(*this)) return scope->end();
    done();
  }
  /// Its depth in the owner's list; records forked within it are deeper.
  std::uint64_t depth() const noexcept { return own_.get().value.depth; }
  /// The scope it was offered for. Only under the lock, in steal()'s predicate.
  const scope_link* group() const noexcept { return shared_.get().value.group; }
  /// The exception of the second half, stored by run().
  std::exception_ptr& error() noexcept { return error_.ref().value; }
  /// The thief's number. For the owner, once take_back() has returned false.
  unsigned thief() const noexcept { return shared_.get().value.thief; }
  /// The caller must not access the record afterwards: its owner continues.
  void done() noexcept;

  /// For the owner: true if the thief has called done().
  bool is_done() const noexcept {
    // (1) acquire: pairs with (2). The owner sees the thief's writes.
    return state_.value.load(std::memory_order_acquire) == finished;
  }
  /// For the owner, when it has finished with the record.
  void joined() noexcept { error_.ref().destroy(); }
  /// For the owner: returns true if it may sleep until done() gives `place` a token; false if the record is done
  /// already.
  bool may_sleep(parking_place& place) noexcept;
  /// For the owner, after may_sleep() has returned true and before it has the token: returns true if no token will
  /// come; false if the record is done and one comes.
  bool withdraw() noexcept;

 private:
  friend class fork_deque;
  template <class>
  friend class basic_frame_deque;

  fork_record* older() const noexcept { return own_.get().value.older; }

  struct links {
    fork_record* older;
    runner run;
    std::uint64_t depth;  // one more than that of `older`
  };
  struct published {
    fork_record* older = nullptr;  // among the offered records
    union {
      fork_record* newer = nullptr;
      parking_place* owner;  // of a taken record; set before its owner stores `awaited`
    };
    const scope_link* group = nullptr;  // not null: not the half of a fork, and in no list of the owner's
    unsigned thief = 0;
  };
  static constexpr std::uint32_t offered = 0, taken = 1, awaited = 2, finished = 3;

  sync::cell<slot<links>> own_;  // written before another thread can see the record
  // Only in records that have been published:
  sync::cell<slot<published>> shared_;          // changed under the lock while the record is offered
  sync::cell<slot<std::exception_ptr>> error_;  // the thief's, then the owner's
  slot<sync::atomic<std::uint32_t>> state_;     // offered to taken under the lock; last, so that half a word stays free
};

inline void fork_record::done() noexcept {
  // (2) acq_rel: pairs with (1), (3).
  if (state_.value.exchange(finished, std::memory_order_acq_rel) == awaited) shared_.get().value.owner->unpark();
}

inline bool fork_record::may_sleep(parking_place& place) noexcept {
  shared_.ref().value.owner = &place;
  std::uint32_t state = taken;
  // (3) release, or acquire if it is done already: pairs with (2).
  return state_.value.compare_exchange_strong(state, awaited, std::memory_order_release, std::memory_order_acquire);
}

inline bool fork_record::withdraw() noexcept {
  std::uint32_t state = awaited;
  // Relaxed: if it is done, taking the token acquires the thief's writes.
  return state_.value.compare_exchange_strong(state, taken, std::memory_order_relaxed);
}

}  // namespace muster::inline MUSTER_ABI::detail
