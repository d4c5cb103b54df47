// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// funnel.hpp: Aggregating Funnels of Roh, Wei, Ruppert, Fatourou, Jayanti and Shun, "Aggregating Funnels for Faster
// Fetch&Add and Software Queues", PPoPP 2025: a counter to which threads add in batches. With `single_words`, which has
// the same interface and is one word, structures can be written for both.
//
// Faithful to  the paper: a thread adds to its aggregator. If it finds there what the last batch has left, it is the
//              delegate of the next one: it adds all that the aggregator has got meanwhile to the counter itself, and
//              publishes where that was. The others wait for the batch that contains their part. Reads, compare-and-
//              swap and other operations go to the counter itself, and a fetch-add may do so, too (`fetch_add_direct`).
// Differs      batches are reclaimed by an epoch scheme of our own: a thread writes down the time at which its
//              operation has begun, and a batch can be used again when no operation under way is older than the end
//              of its time as the last one. Only positive numbers are added, and an aggregator is never replaced: its
//              64 bits do not overflow.
// Waiting      Wait().wait(), again and again, until the thread's batch is published. A delegate that stops in between
//              stops the others of its aggregator.
// Memory       three lines for each aggregator of a counter, and batches of a line; a thread holds back up to `batch`,
//              else 16 * threads + 64, of them. A user that stops in an operation holds back more.
// Order        sequentially consistent. A batch is written before it is published, and is not changed after that.
#pragma once

#include "registry.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// How a structure counts. The counters of a structure share a group; each thread is a user of the group.
struct single_words {
  using word = std::uint64_t;
  struct group {};
  struct user {
    explicit user(group&) {}
  };
  class counter : public sync::atomic<word> {
   public:
    explicit counter(group&, word value = 0) : sync::atomic<word>(value) {}
    word fetch_add(user&, word by) noexcept { return sync::atomic<word>::fetch_add(by); }
    word fetch_add_direct(word by) noexcept { return sync::atomic<word>::fetch_add(by); }
  };
};

/// Waits as the other baselines do, for `funnels`.
template <class Pause>
struct turns {
  void wait() const { Pause::turn(); }
};

/// The same by batches. The paper finds six aggregators best for up to 176 threads.
template <unsigned Aggregators = 6, class Wait = turns<cpu_turn>>
class funnels {
 public:
  using word = std::uint64_t;
  class group;
  class user;
  class counter;

 private:
  // The operations that have added the numbers from `before` to `after` to the aggregator: all of them together have
  // changed the counter from `base`. `previous` is the batch before it, which may be gone.
  struct alignas(line_size) batch {
    word before = 0;
    word after = 0;
    word base = 0;
    const batch* previous = nullptr;
    word replaced = 0;  // the time when the next one was published; belongs to the delegate of that one
  };
  struct alignas(isolation_size) aggregator {
    sync::atomic<word> value{0};
    alignas(isolation_size) sync::atomic<batch*> last{nullptr};
  };
  // since: the time at which the operation under way has begun. The rest is the owner's.
  struct record : registered<record> {
    alignas(isolation_size) sync::atomic<word> since{idle};
    alignas(isolation_size) std::vector<std::unique_ptr<batch>> replaced{};
    std::vector<std::unique_ptr<batch>> spare{};
  };
  static constexpr word idle = std::numeric_limits<word>::max();
};

/// Outlives its counters and its users.
template <unsigned Aggregators, class Wait>
class funnels<Aggregators, Wait>::group {
  friend class user;

 public:
  explicit group(std::size_t batch = 0) noexcept : batch_(batch) {}

 private:
  std::size_t enough() const noexcept { return batch_ != 0 ? batch_ : 16 * records_.size() + 64; }

  const std::size_t batch_;
  registry<record> records_;
  alignas(isolation_size) sync::atomic<word> time_{0};
  alignas(isolation_size) sync::atomic<unsigned> users_{0};
};

/// One per user-level thread.
template <unsigned Aggregators, class Wait>
class funnels<Aggregators, Wait>::user {
  friend class counter;

 public:
  explicit user(group& g) : group_(g), mine_(g.records_.join()), place_(g.users_.fetch_add(1) % Aggregators) {}
  user(const user&) = delete;
  user& operator=(const user&) = delete;
  ~user() { registry<record>::leave(mine_); }

 private:
  void begin() noexcept { mine_.since.store(group_.time_.load()); }
  void end() {
    mine_.since.store(idle, std::memory_order_release);
    if (mine_.replaced.size() >= group_.enough()) reclaim();
  }
  batch* obtain() {
    if (mine_.spare.empty()) return new batch;
    batch* const b = mine_.spare.back().release();
    mine_.spare.pop_back();
    return b;
  }
  void retire(batch* b) {
    b->replaced = group_.time_.load();
    mine_.replaced.emplace_back(b);
  }
  void reclaim() {
    // An operation that we overlook begins now, and finds a later batch. One with a later time did so, too.
    word oldest = group_.time_.fetch_add(1) + 1;
    group_.records_.for_each([&](record& r) { oldest = std::min(oldest, r.since.load()); });
    std::erase_if(mine_.replaced, [&](std::unique_ptr<batch>& b) {
      if (b->replaced >= oldest) return false;
      mine_.spare.push_back(std::move(b));
      return true;
    });
  }

  group& group_;
  record& mine_;
  const unsigned place_;
};

template <unsigned Aggregators, class Wait>
class funnels<Aggregators, Wait>::counter {
 public:
  explicit counter(group&, word value = 0) : main_(value) {
    for (aggregator& a : aggregators_) a.last.store(new batch);
  }
  counter(const counter&) = delete;
  counter& operator=(const counter&) = delete;
  ~counter() {
    for (aggregator& a : aggregators_) delete a.last.load();
  }

  /// Returns the value before the addition of `by`, which is at least 1.
  word fetch_add(user& u, word by) {
    aggregator& a = aggregators_[u.place_];
    u.begin();
    const word before = a.value.fetch_add(by);
    batch* b = a.last.load();
    for (Wait w; b->after < before; b = a.last.load()) w.wait();
    word result = 0;
    if (b->after == before) {
      batch* const own = u.obtain();
      const word after = a.value.load();
      result = main_.fetch_add(after - before);
      *own = {.before = before, .after = after, .base = result, .previous = b};
      a.last.store(own);
      u.retire(b);
    } else {
      const batch* mine = b;
      while (mine->before > before) mine = mine->previous;
      result = mine->base + (before - mine->before);
    }
    u.end();
    return result;
  }
  word fetch_add_direct(word by) noexcept { return main_.fetch_add(by); }
  word fetch_or(word bits) noexcept { return main_.fetch_or(bits); }
  word load(std::memory_order order = std::memory_order_seq_cst) const noexcept { return main_.load(order); }
  void store(word value) noexcept { main_.store(value); }
  bool compare_exchange_strong(word& expected, word desired) noexcept {
    return main_.compare_exchange_strong(expected, desired);
  }

 private:
  alignas(isolation_size) sync::atomic<word> main_;
  std::array<aggregator, Aggregators> aggregators_{};
};

}  // namespace muster::bench::inline MUSTER_ABI
