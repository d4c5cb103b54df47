// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spsc.hpp: bounded FIFO queue from one producer to one consumer.
//
// Order      linearizable FIFO.
// Progress   try_push and try_pop are wait-free; push waits only while the queue is full, pop only while it is empty.
// Preempted  a stopped side stops the other when the queue has become full or empty, and not before.
// Killed     as preempted; an item that was being written or read is lost with its thread.
// Memory     capacity cells, rounded up to a power of two; nothing is allocated after construction.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc. What T's constructor throws in push reaches
//            the caller of push and the queue is as it was; what T's move throws in pop reaches the caller of pop and
//            that item is gone.
// Use it     between two threads. More consumers: spmc_queue. More producers: mpmc_queue.
// Source     Lamport, "Specifying Concurrent Program Modules", TOPLAS 1983, with the bounds cached by both sides
//            (MCRingBuffer: Lee, Bu, Chandranmenon, IPDPS 2010). FFQ without the atomic increment of head needs no gaps
//            and then no ranks in the cells either: its consumer can only be slow at the head, so that a free place is
//            known from head alone. bench/baselines has FFQ^s as printed; both are in queue/one-to-one.
#pragma once

#include <muster/base/arch.hpp>     // prefetch_for_write
#include <muster/base/slot.hpp>     // slot
#include <muster/queue/face.hpp>    // queue_face, wait_limit
#include <muster/queue/guards.hpp>  // one_at_a_time, finally, take
#include <muster/queue/ring.hpp>    // ring, rank_t

#include <cstddef>  // std::size_t

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class spsc_queue : public queue_face<spsc_queue<T, Layout, Wait>, T> {
  using face = queue_face<spsc_queue, T>;
  friend push_face<spsc_queue, T>;
  friend pop_face<spsc_queue, T>;

 public:
  /// A queue of exactly `capacity` items. Throws std::invalid_argument with what to ask for instead.
  explicit spsc_queue(std::size_t capacity, queue_options options = {});
  /// Destroys the items left. No thread may be inside an operation.
  ~spsc_queue();

  using face::pop;  // and push, emplace, push_for, push_until, pop_for, pop_until: see face.hpp

  /// Producer only. Constructs an item at the end if there is room now: success, full or closed. Wait-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args);
  /// Producer only. Pushes `count` items from `first` on, waiting for room. Returns how many: fewer when closed.
  /// They are seen when all are there, the queue is full, or 256 at a time; those of an iterator of a single pass one
  /// by one, before it is moved on. When a constructor throws, the items before it have been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count);
  /// Producer only. The same without waiting: pushes as many as there is room for.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count);

  /// Consumer only. Takes the first item; waits while there is none. No value only when closed and drained.
  MUSTER_HOT queue_result<T> pop();
  /// Consumer only. Takes the first item if there is one: an item, empty or closed; busy while close() is under
  /// way, or a push into a queue that is being closed. Wait-free.
  MUSTER_HOT queue_result<T> try_pop();
  /// Consumer only. Takes 1 to `count` items, waiting for the first. 0 only when the queue is closed and drained.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count);
  /// Consumer only. The same without waiting. Wait-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count);

  /// Refuses further pushes and wakes both sides. Items in the queue can still be popped. Any thread, any number of
  /// times.
  void close();
  bool is_closed() const noexcept { return (consumer_.flags() & closing) != 0; }
  std::size_t capacity() const noexcept { return capacity_; }
  /// Items in the queue at some recent moment.
  std::size_t size_approx() const noexcept;

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  static constexpr std::uint32_t closing = event_mask::flag(0);  // no push may begin
  static constexpr std::uint32_t closed = event_mask::flag(1);   // and begun_ has been looked at
  static constexpr std::uint32_t only_key = 0;                   // one sleeper on each side
  static constexpr std::size_t longest_run = 256;                // items that push_n holds back before it shows them
  // How far ahead lines are fetched, by the first rank of a line. The producer's stores retire in order, so that a line
  // that is still the consumer's holds up everything behind it: with the line fetched in time a push is twice as fast.
  static constexpr rank_t per_line = ring<sync::cell<slot<T>>, Layout>::ranks_per_line;
  static constexpr rank_t ahead = 4 * per_line;
  static constexpr const char* second_producer =
      "spsc_queue: a second thread pushes while one is inside push; use mpmc_queue, or one queue per producer";
  static constexpr const char* second_consumer =
      "spsc_queue: a second thread pops while one is inside pop; use spmc_queue";

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args);
  MUSTER_COLD queue_status await_room(wait_limit limit);
  template <class... Args>
  MUSTER_HOT queue_status publish(rank_t rank, Args&&... args);
  template <class InputIt>
  std::size_t publish_some(InputIt& first, std::size_t count, bool again);
  template <class ForwardIt>
  std::size_t publish_run(ForwardIt& first, std::size_t count, bool again);
  MUSTER_HOT bool has_room(rank_t rank) noexcept;
  std::size_t refresh_room() noexcept;
  MUSTER_COLD queue_status look_again() noexcept;
  MUSTER_HOT bool announce(rank_t end) noexcept;
  MUSTER_COLD void withdraw(rank_t end) noexcept;
  MUSTER_HOT void show(rank_t end) noexcept;

  enum class outlook { ready, over, busy, unknown };
  outlook look() noexcept;
  MUSTER_COLD queue_status find_item() noexcept;
  rank_t first() const noexcept { return head_.load(std::memory_order_relaxed); }  // for the consumer
  rank_t next() const noexcept { return tail_.load(std::memory_order_relaxed); }   // for the producer
  MUSTER_HOT bool has_item(rank_t rank) noexcept;
  MUSTER_COLD queue_status await_item(wait_limit limit);
  std::size_t refresh_items() noexcept;
  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit);
  MUSTER_HOT queue_result<T> take(rank_t rank);
  template <class OutputIt>
  std::size_t take_run(OutputIt& out, std::size_t count);
  MUSTER_HOT void fetch_ahead(rank_t rank) noexcept;
  MUSTER_HOT void leave(rank_t rank) noexcept;
  MUSTER_HOT void give_back(rank_t end) noexcept;

  // Who may touch a cell: the consumer in head_ … tail_ − 1, the producer elsewhere.
  const ring<sync::cell<slot<T>>, Layout> cells_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see slipping

  alignas(isolation_size) sync::atomic<rank_t> tail_;
  alignas(isolation_size) sync::atomic<rank_t> head_;

  // Only the producer's, and only the consumer's; but begun_, one past the last rank the producer began to write and
  // equal to tail_ between pushes, is looked at when the queue is being closed. Not beside tail_, as a consumer that
  // waits would take the line away between the stores to the two.
  alignas(isolation_size) rank_t limit_;  // ranks before it fit: head_ as last seen + capacity_
  sync::atomic<rank_t> begun_;
  slipping producer_slip_;
  detail::one_at_a_time producer_entry_;
  alignas(isolation_size) rank_t tail_seen_;  // ranks before it are there: tail_ as last seen
  slipping consumer_slip_;
  detail::one_at_a_time consumer_entry_;

  // Written rarely: who sleeps, and whether the queue is closed.
  alignas(isolation_size) event_mask consumer_;
  event_mask producer_;
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/spsc.hpp>  // definitions
