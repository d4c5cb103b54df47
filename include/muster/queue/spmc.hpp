// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spmc.hpp: bounded FIFO queue from one producer to many consumers.
//
// Order      linearizable FIFO. Consumers that overlap may finish out of order: each takes the next item, none waits
//            for another.
// Progress   try_push is wait-free. push waits only while capacity() items are unclaimed, as long as stopped consumers
//            hold fewer cells than the ring has beyond the capacity; else it may wait for a claim or a cell. pop claims
//            in one step, then waits for its item. try_pop and try_pop_n are lock-free.
// Preempted  a consumer stopped between its claim and (4) holds the cells it claimed (pop_n: up to its count); the
//            producer skips them and goes on. A producer stopped in push delays the consumers of that item and of later
//            ones, as an empty queue does.
// Killed     as preempted, for ever: one item and one cell are lost.
// Memory     capacity + threads cells, rounded up to a power of two; nothing is allocated after construction.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc. What T's constructor throws in push reaches
//            the caller of push and the queue is as it was; what T's move throws in pop reaches the caller of pop and
//            that item is gone.
// Use it     to feed workers from one thread. Many producers: mpmc_queue. One consumer: spsc_queue.
// Source     FFQ^s: Arnautov, Felber, Fetzer, Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent FIFO
//            Queue", IPDPS 2017, Algorithm 1, with the authors' erratum. Changed: one gap word for all cells instead of
//            one per cell, which is enough because the one producer resolves ranks in order; a full queue makes no
//            gaps; try, timed and bulk pops that never hold a claim they cannot use; close.
#pragma once

#include <muster/base/slot.hpp>     // slot
#include <muster/queue/face.hpp>    // queue_face, wait_limit
#include <muster/queue/guards.hpp>  // one_at_a_time, take
#include <muster/queue/ring.hpp>    // ring, rank_t

#include <cstddef>  // std::size_t
#include <memory>   // std::unique_ptr

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class spmc_queue : public queue_face<spmc_queue<T, Layout, Wait>, T> {
  using face = queue_face<spmc_queue, T>;
  friend push_face<spmc_queue, T>;
  friend pop_face<spmc_queue, T>;
  template <class, class, class>
  friend class lanes;

 public:
  /// A queue of exactly `capacity` items. Throws std::invalid_argument with what to ask for instead.
  explicit spmc_queue(std::size_t capacity, queue_options options = {});
  /// Destroys the items left. No thread may be inside an operation.
  ~spmc_queue();

  using face::pop;  // and push, emplace, push_for, push_until, pop_for, pop_until: see face.hpp

  /// Producer only. Constructs an item at the end if there is room now. success, full, closed; busy when there is room
  /// but stopped consumers hold so many cells that no rank has one. Wait-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args);
  /// Producer only. Pushes `count` items from `first` on, waiting for room. Returns how many: fewer when closed.
  /// Sleepers are told when all are there, the queue is full, or of 256 at a time; of those of an iterator of a single
  /// pass one by one, before it is moved on. When a constructor throws, the items before it have been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count);
  /// Producer only. The same without waiting: pushes as many as there is room for.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count);

  /// Takes the first item; waits while there is none. No value only when the queue is closed and drained.
  MUSTER_HOT queue_result<T> pop();
  /// Takes the first item if there is one: an item, empty or closed; busy while close() is under way, or a push into a
  /// queue that is being closed. Lock-free.
  MUSTER_HOT queue_result<T> try_pop();
  /// Takes 1 to `count` consecutive items, waiting for the first. 0 only when the queue is closed and drained.
  /// When `*out = item` can throw, items are claimed one at a time, so that at most the one in hand is lost.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count);
  /// The same without waiting. Lock-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count);

  /// Refuses further pushes and wakes everybody. Items in the queue can still be popped. Any thread, any number of
  /// times.
  void close();
  bool is_closed() const noexcept { return (consumers_.flags() & closing) != 0; }
  std::size_t capacity() const noexcept { return capacity_; }
  /// Items in the queue at some recent moment; gaps that no consumer has passed yet count.
  std::size_t size_approx() const noexcept;

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  // word: 0 while the cell is free, published(r) while it holds the item of rank r. The producer changes 0 to
  // published(r), the consumer that claimed r changes it back. Whoever may change it next owns `item`.
  struct cell {
    sync::atomic<rank_t> word{0};
    sync::cell<slot<T>> item;
  };
  // Never 0, and different for any two ranks of one cell, whose low bits are equal.
  static constexpr rank_t published(rank_t rank) noexcept { return rank | 1; }

  static constexpr std::uint32_t closing = event_mask::flag(0);  // no push may begin
  static constexpr std::uint32_t closed = event_mask::flag(1);   // and end_ holds the end
  static constexpr std::uint32_t room_key = 0;                   // the only event the producer sleeps for

  static constexpr std::uint32_t key(rank_t rank) noexcept { return static_cast<std::uint32_t>(rank); }
  static constexpr std::size_t longest_run = 256;  // items that push_n announces at once
  static constexpr const char* second_producer =
      "spmc_queue: a second thread pushes while one is inside push; use mpmc_queue, or one queue per producer "
      "(of lanes: one producer_handle)";

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args);
  struct place {
    rank_t rank;
    cell* at;
  };
  MUSTER_HOT place next_place() const noexcept;
  MUSTER_HOT bool is_free(place next) const noexcept;
  MUSTER_COLD queue_status reserve();
  MUSTER_COLD queue_status reserve_within(wait_limit limit);
  MUSTER_COLD bool await_room(wait_limit limit);
  bool look_for_room();
  MUSTER_COLD bool look_again();
  std::size_t free_places();
  MUSTER_COLD void make_gap(rank_t rank);
  void pass_over(rank_t last) noexcept;
  template <class... Args>
  MUSTER_HOT queue_status publish(place next, Args&&... args);
  template <class InputIt, class AfterRun>
  std::size_t push_up_to(InputIt first, std::size_t count, bool waits, AfterRun after_run);
  template <class InputIt>
  std::size_t publish_some(InputIt& first, std::size_t count, bool again);
  template <class ForwardIt>
  std::size_t publish_run(ForwardIt& first, std::size_t count, bool again);
  MUSTER_HOT bool announce(rank_t from, rank_t to);
  MUSTER_COLD void withdraw(rank_t end) noexcept;
  MUSTER_HOT void signal_rank(rank_t rank) noexcept;

  enum class outlook { ready, gap, over, unknown };  // cases 1 to 4 of impl/spmc.hpp
  outlook look(rank_t rank) const noexcept;
  bool resolved(rank_t rank) const noexcept;
  MUSTER_HOT void claimed() noexcept;
  std::size_t unclaimed() const noexcept;
  MUSTER_COLD queue_result<T> await_ticket(rank_t rank);
  MUSTER_HOT bool is_there(rank_t rank) const noexcept;
  MUSTER_HOT bool has_first() const noexcept { return is_there(head_.load(std::memory_order_relaxed)); }
  MUSTER_HOT bool claim_at_once(std::size_t most, rank_t& first, std::size_t& count) noexcept;
  MUSTER_HOT bool claim_at_once(rank_t& rank) noexcept;
  MUSTER_COLD queue_result<T> try_pop_first();
  queue_result<T> pop_within(const wait_limit& limit);
  MUSTER_COLD bool await_head(wait_limit limit);
  MUSTER_COLD queue_status claim_resolved(std::size_t most, rank_t& first, std::size_t& count) noexcept;
  queue_status claim_exactly(std::size_t most, rank_t& first, std::size_t& count) noexcept;
  template <bool Exact>
  queue_status claim(std::size_t most, rank_t& first, std::size_t& count) noexcept;
  template <bool Exact>
  queue_status claim_item(rank_t& rank) noexcept;
  outlook look_at_head() const noexcept;
  MUSTER_HOT queue_result<T> take(rank_t rank);
  template <bool Exact, class OutputIt>
  std::size_t take_up_to(OutputIt& out, std::size_t count, queue_status& status);
  template <class OutputIt>
  MUSTER_HOT std::size_t take_run(OutputIt& out, rank_t first, std::size_t count);

  // Read-only after construction.
  const ring<cell, Layout> cells_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see slipping

  // The consumers' line: the next rank to claim. Changed by fetch-add and by compare-exchange.
  alignas(isolation_size) sync::atomic<rank_t> head_;
  slipping consumer_slip_;

  // The producer's lines.
  // tail_: one past the last rank the producer began; the ranks before it are resolved or will be. Others only read it.
  alignas(isolation_size) sync::atomic<rank_t> tail_;
  rank_t head_seen_;                // head_ at the last look
  rank_t limit_;                    // ranks before it fit: head_seen_ + capacity_ + the gaps after head_seen_
  std::unique_ptr<rank_t[]> gaps_;  // those gaps, oldest first: gap_first_ … gap_last_ − 1, modulo the ring's size
  std::size_t gap_first_ = 0;
  std::size_t gap_last_ = 0;
  slipping producer_slip_;
  detail::one_at_a_time producer_;

  // Written rarely. consumers_ and producers_: who sleeps; gap_: the last rank skipped; end_: the rank after the last.
  alignas(isolation_size) event_mask consumers_;
  event_mask producers_;
  sync::atomic<rank_t> gap_;
  sync::atomic<rank_t> end_;
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/spmc.hpp>  // definitions
