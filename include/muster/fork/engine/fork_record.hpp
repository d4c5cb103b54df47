// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_record.hpp: something to be executed, by whoever has time: the second half of a fork, or what a scope keeps.
// The life of a record is told in watermark.hpp.
#pragma once

#include <muster/base/slot.hpp>             // slot
#include <muster/base/sync.hpp>             // sync::atomic, sync::cell
#include <muster/fork/impl/open_count.hpp>  // open_count
#include <muster/fork/impl/sleepers.hpp>    // parking_place

#include <cstdint>    // std::uint64_t
#include <exception>  // std::exception_ptr

namespace muster::inline MUSTER_ABI::detail {

/// Something that a worker has taken and executes, the second half of a fork or what a scope has kept. Lies on its
/// stack. What is taken is part of what was executed where it was forked, or where its scope was opened: so thefts form
/// a tree, in which none ends before those below it.
struct theft {
  const void* of = nullptr;       // the fork's record, or the scope; to be compared
  const theft* around = nullptr;  // of what this is part of, or null: of nothing that has been taken
  unsigned level = 0;             // one more than that of `around`
  const theft* outer = nullptr;   // what the same worker has taken before, and has not ended
  std::uint64_t floor = 0;        // what the worker forks deeper than that is part of this

  /// Whether this is `what`, of that level, or part of it. Looks not too far.
  bool is_part_of(const void* what, unsigned its_level) const noexcept {
    const theft* at = this;
    for (unsigned steps = 64; at != nullptr && at->level > its_level && steps > 0; --steps) at = at->around;
    return at != nullptr && at->of == what;
  }
};

/// A scope that waits for what has been begun in it.
struct scope_link {
  const theft* around = nullptr;  // in which it was opened, or null
};

/// The second half of a fork, until it is joined. Lies in the frame that forks. Or something else to be executed, which
/// has been offered; it lies elsewhere.
class fork_record {
 public:
  /// Executes it. Returns the count of the scope that it was kept for, and then the record may be gone; or null: it is
  /// the half of a fork, whose owner waits for done().
  using runner = open_count* (*)(fork_record&) noexcept;

  fork_record() noexcept = default;
  fork_record(const fork_record&) = delete;
  fork_record& operator=(const fork_record&) = delete;

  /// For the thief. Whoever waits is told here, in the thief's own code, and not by the runner: that is in the library
  /// that forks, which may be unloaded as soon as its owner goes on.
  void run() noexcept {
    if (open_count* const scope = own_.get().value.run(*this)) return scope->end();
    done();
  }
  /// Of what it stands in; those that come out of it are deeper.
  std::uint64_t depth() const noexcept { return own_.get().value.depth; }
  /// The scope it was offered for. Only under the lock, where steal() asks.
  const scope_link* group() const noexcept { return shared_.get().value.group; }
  /// Where run() puts what the second half throws.
  std::exception_ptr& error() noexcept { return error_.ref().value; }
  /// The thief's number. For the owner, once take_back() has returned false.
  unsigned thief() const noexcept { return shared_.get().value.thief; }
  /// After it nothing of the record may be touched: its owner goes on.
  void done() noexcept;

  /// For the owner: whether the thief has called done().
  bool is_done() const noexcept {
    // (1) acquire: pairs with (2). What the thief has done is seen.
    return state_.value.load(std::memory_order_acquire) == finished;
  }
  /// For the owner, at the end.
  void joined() noexcept { error_.ref().destroy(); }
  /// For the owner: returns true when it may sleep until `place` is given a token, which done() does; false when the
  /// record is done already.
  bool may_sleep(parking_place& place) noexcept;
  /// For the owner, after may_sleep() has returned true and before it has the token: returns true when no token comes;
  /// false when the record is done, and one comes.
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
    fork_record* older = nullptr;  // among those that nobody has taken
    union {
      fork_record* newer = nullptr;
      parking_place* owner;  // of one that has been taken; set before its owner says `awaited`
    };
    const scope_link* group = nullptr;  // not null: not the half of a fork, and in no list of the owner's
    unsigned thief = 0;
  };
  static constexpr std::uint32_t offered = 0, taken = 1, awaited = 2, finished = 3;

  sync::cell<slot<links>> own_;  // written before anybody else can see the record
  // Only in records that have been published:
  sync::cell<slot<published>> shared_;          // changed under the lock while the record is offered
  sync::cell<slot<std::exception_ptr>> error_;  // the thief's, then the owner's
  slot<sync::atomic<std::uint32_t>> state_;     // offered to taken under the lock; last: half a word is left free
};

inline void fork_record::done() noexcept {
  // (2) acq_rel: pairs with (1), (3).
  if (state_.value.exchange(finished, std::memory_order_acq_rel) == awaited) shared_.get().value.owner->unpark();
}

inline bool fork_record::may_sleep(parking_place& place) noexcept {
  shared_.ref().value.owner = &place;
  std::uint32_t state = taken;
  // (3) release, or acquire when it is done already: pairs with (2).
  return state_.value.compare_exchange_strong(state, awaited, std::memory_order_release, std::memory_order_acquire);
}

inline bool fork_record::withdraw() noexcept {
  std::uint32_t state = awaited;
  // Relaxed: when it is done, the token tells what the thief has done.
  return state_.value.compare_exchange_strong(state, taken, std::memory_order_relaxed);
}

}  // namespace muster::inline MUSTER_ABI::detail
