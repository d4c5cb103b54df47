// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// flat_combining_paper.hpp: flat combining as published: Hendler, Incze, Shavit and Tzafrir, "Flat combining and the
// synchronization-parallelism tradeoff", SPAA 2010. Requests and results are 64-bit numbers; one function serves them.
//
// Faithful to  section 2: a publication record for each thread, which stays in the list until the combiner removes it
//              for its age; every request is published, also if the lock is free; the combiner scans the list three
//              times, as in the program of the "Lock Oscillation" experiments, and cleans it up every 100 rounds.
// Differs      records belong to the object and not to the threads. Memory orders are the weakest that the algorithm
//              allows.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// After how many rounds the combiner cleans up, and how many rounds a record may be without a request.
struct cleaning {
  std::uint64_t every = 100;
  std::uint64_t most_idle = 100;
};

/// Operation: std::int64_t operator()(State&, std::int64_t argument).
template <class State, class Operation, class Pause = cpu_turn>
class flat_combining_paper {
  static constexpr unsigned scans = 3;
  struct alignas(isolation_size) record {
    sync::atomic<bool> pending{false};
    sync::atomic<bool> active{false};   // in the list
    sync::cell<std::int64_t> word{};    // the argument, then the result
    sync::cell<record*> next{nullptr};  // the owner's while not active, else the combiner's
    sync::cell<std::uint64_t> age{};    // the combiner's: the round of the last request
  };

 public:
  /// For `fibers` fibers on each of `cores` threads.
  template <class... Args>
  flat_combining_paper(unsigned cores, unsigned fibers, const cleaning& how, Args&&... args)
      : fibers_(fibers), cleaning_(how), records_(std::size_t{cores} * fibers), state_(std::forward<Args>(args)...) {}
  flat_combining_paper(const flat_combining_paper&) = delete;
  flat_combining_paper& operator=(const flat_combining_paper&) = delete;

  /// The fiber with number `place` on `core`. One for each.
  class handle {
   public:
    handle(flat_combining_paper& object, unsigned core, unsigned place)
        : object_(object), own_(object.records_[std::size_t{core} * object.fibers_ + place]) {}

    std::int64_t apply(std::int64_t argument) {
      own_.word.write_ref() = argument;
      // (1) release: pairs with (2). The combiner sees the argument.
      own_.pending.store(true, std::memory_order_release);
      for (;;) {
        if (!active()) object_.publish(own_);
        if (object_.try_lock()) break;
        while (pending() && active() && object_.is_locked()) Pause::turn();
        if (!pending()) return own_.word.read_ref();
      }
      if (!active()) object_.publish(own_);  // removed since
      object_.combine();
      const std::int64_t result = own_.word.read_ref();
      // (4) release: pairs with (3). The next combiner sees the state and the list as this one leaves them.
      object_.locked_.store(false, std::memory_order_release);
      return result;
    }

   private:
    // (6) acquire: pairs with (5). The result is there.
    bool pending() const noexcept { return own_.pending.load(std::memory_order_acquire); }
    // (8) acquire: pairs with (7). The link is the owner's again.
    bool active() const noexcept { return own_.active.load(std::memory_order_acquire); }

    flat_combining_paper& object_;
    record& own_;
  };

  /// Only while no thread uses the object.
  State& state() noexcept { return state_.write_ref(); }

 private:
  bool is_locked() const noexcept { return locked_.load(std::memory_order_relaxed); }
  bool try_lock() noexcept {
    // (3) acquire: pairs with (4).
    return !is_locked() && !locked_.exchange(true, std::memory_order_acquire);
  }
  void publish(record& one) noexcept {
    one.active.store(true, std::memory_order_relaxed);
    record* head = head_.load(std::memory_order_relaxed);
    do one.next.write_ref() = head;
    // (9) release: pairs with (10). The combiner sees the record and those linked before it.
    while (!head_.compare_exchange_weak(head, &one, std::memory_order_release, std::memory_order_relaxed));
  }
  void combine() {
    const std::uint64_t round = ++rounds_.write_ref();
    for (unsigned scan = 0; scan < scans; ++scan) {
      // (10) acquire: pairs with (9).
      for (record* at = head_.load(std::memory_order_acquire); at != nullptr; at = at->next.read_ref()) {
        // (2) acquire: pairs with (1).
        if (!at->pending.load(std::memory_order_acquire)) continue;
        at->word.write_ref() = Operation{}(state_.write_ref(), at->word.read_ref());
        at->age.write_ref() = round;
        // (5) release: pairs with (6).
        at->pending.store(false, std::memory_order_release);
      }
    }
    if (round % cleaning_.every == 0) clean(round);
  }
  void clean(std::uint64_t round) {
    record* before = head_.load(std::memory_order_acquire);  // (10)
    for (record* at = before->next.read_ref(); at != nullptr;) {
      record* const next = at->next.read_ref();
      if (at->age.read_ref() + cleaning_.most_idle < round) {
        before->next.write_ref() = next;
        // (7) release: pairs with (8).
        at->active.store(false, std::memory_order_release);
      } else {
        before = at;
      }
      at = next;
    }
  }

  const unsigned fibers_;
  const cleaning cleaning_;
  std::vector<record> records_;
  alignas(isolation_size) sync::atomic<bool> locked_{false};
  alignas(isolation_size) sync::atomic<record*> head_{nullptr};
  alignas(isolation_size) sync::cell<std::uint64_t> rounds_{};
  sync::cell<State> state_;
};

}  // namespace muster::bench::inline MUSTER_ABI
