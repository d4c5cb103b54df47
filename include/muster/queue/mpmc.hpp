// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mpmc.hpp: bounded FIFO queue from many producers to many consumers.
//
// Order      linearizable FIFO over all producers. Threads that overlap may finish out of order.
// Progress   pop claims in one step, then waits for its item; push waits only for room. try_push and try_pop never wait
//            for another thread; they are lock-free. So is close().
// Preempted  a consumer stopped between its claim and (8) holds the cells it claimed (pop_n: up to its count), which
//            producers skip; when every cell is held, or the next free one is a lap further, a push waits though there
//            is room, and try_push says busy or full. A producer stopped between taking its rank and (7) delays the
//            consumer of that rank, and pops that must not pass it; other threads go on. Of several pushes that sleep
//            for room, the one that a pop has woken may be stopped before it takes its rank; the others then sleep
//            until the next pop.
// Killed     as preempted, for ever: one cell is lost, and with a producer the pop that waits for its item.
// Memory     capacity + threads cells, rounded up to a power of two, and up to 64 words; nothing is allocated after
//            construction.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc. What T's constructor throws in push reaches
//            the caller of push and no item is added; what T's move throws in pop reaches the caller of pop and that
//            item is gone.
// Use it     when one strict order over several producers matters. One producer: spmc_queue is faster.
// Source     FFQ^m: Arnautov, Felber, Fetzer, Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent FIFO
//            Queue", IPDPS 2017, Algorithm 2, with the authors' erratum. Changed (reasons in impl/mpmc.hpp): the
//            double-word compare-and-set is one of a single word, followed by a second look at the gap; a full queue
//            makes no gaps, a constructor that throws makes one; close() is new.
#pragma once

#include <muster/base/slot.hpp>     // slot
#include <muster/queue/face.hpp>    // queue_face, wait_limit
#include <muster/queue/guards.hpp>  // take
#include <muster/queue/ring.hpp>    // ring, rank_t

#include <cstddef>  // std::size_t
#include <memory>   // std::unique_ptr

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class mpmc_queue : public queue_face<mpmc_queue<T, Layout, Wait>, T> {
  using face = queue_face<mpmc_queue, T>;
  friend push_face<mpmc_queue, T>;
  friend pop_face<mpmc_queue, T>;

 public:
  /// A queue of exactly `capacity` items. Throws std::invalid_argument with what to ask for instead.
  explicit mpmc_queue(std::size_t capacity, queue_options options = {});
  /// Destroys the items left. No thread may be inside an operation.
  ~mpmc_queue();

  using face::pop;  // and push, emplace, push_for, push_until, push_n, try_push_n, pop_for, pop_until: see face.hpp

  /// Constructs an item at the end if there is room now: success, full or closed; busy when stopped threads hold every
  /// cell. Lock-free. `full` counts places that pushes in progress have taken as well as items.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args);

  /// Takes the first item; waits while there is none. No value only when the queue is closed and drained.
  MUSTER_HOT queue_result<T> pop();
  /// Takes the first item if there is one: an item, empty or closed; busy when the first item is still being written,
  /// close() is in progress, or a push that it refuses. Lock-free.
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
  /// Items in the queue at some recent moment; pushes in progress and gaps count.
  std::size_t size_approx() const noexcept;

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  // Ranks advance by four; the low bits of a cell's word say what has become of the rank in the other bits.
  static constexpr rank_t step = 4;
  static constexpr rank_t free(rank_t rank) noexcept { return rank; }           // and of all before it: done with
  static constexpr rank_t written(rank_t rank) noexcept { return rank | 1; }    // claimed; its producer owns `item`
  static constexpr rank_t published(rank_t rank) noexcept { return rank | 2; }  // its consumer owns `item`
  static constexpr rank_t rank_of(rank_t word) noexcept { return word & ~rank_t{3}; }
  static constexpr bool is_free(rank_t word) noexcept { return (word & 3) == 0; }

  // word: as above; its rank only grows. gap: every rank of this cell up to it is claimed already or never will be; it
  // only grows.
  struct cell {
    sync::atomic<rank_t> word{0};
    sync::atomic<rank_t> gap{0};
    sync::cell<slot<T>> item;
  };

  static constexpr std::uint32_t closing = event_mask::flag(0);  // no push may keep a rank
  static constexpr std::uint32_t closed = event_mask::flag(1);   // and end_ holds the end
  static constexpr std::uint32_t room_key = 0;                   // what producers sleep for
  static constexpr std::uint32_t cell_key = 1;                   // nobody's event; see await_cell()
  static constexpr std::uint32_t own_key = 2;                    // what a producer with a rank sleeps for
  // What consumers without a claim sleep for: ranks can be published in any order, so any of them may be the next.
  static constexpr std::uint32_t head_key = event_mask::keys - 1;
  static constexpr std::uint32_t key(rank_t rank) noexcept { return static_cast<std::uint32_t>(rank / step); }

  cell& at(rank_t rank) const noexcept { return cells_[rank / step]; }
  rank_t room_end(rank_t head) const noexcept { return head + step * capacity_; }

  struct place {
    queue_status status;
    rank_t rank;
  };
  MUSTER_HOT place claim_place(bool for_ever);
  MUSTER_COLD place claim_place_slowly(bool for_ever);
  MUSTER_COLD place await_place(queue_status why, wait_limit limit);
  MUSTER_HOT bool take_rank(rank_t& rank, bool for_ever);
  bool take_rank_with_room(rank_t& rank);
  MUSTER_COLD bool await_own_room(rank_t rank);
  MUSTER_HOT bool claim(rank_t rank) noexcept;
  MUSTER_COLD bool claim_late(rank_t rank, rank_t word) noexcept;
  MUSTER_HOT bool may_keep(rank_t rank) noexcept;
  MUSTER_COLD void give_back(rank_t rank) noexcept;
  MUSTER_HOT bool knows_room(rank_t rank) const noexcept;
  bool has_room(rank_t rank) noexcept;
  MUSTER_COLD bool fits_beside_gaps(rank_t rank, rank_t head) const noexcept;
  std::size_t free_places() noexcept;
  MUSTER_COLD bool await_room(wait_limit limit);
  void slip() noexcept;
  MUSTER_COLD bool await_cell(wait_limit limit);
  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args);
  template <class... Args>
  MUSTER_HOT void publish(rank_t rank, Args&&... args);
  MUSTER_COLD void make_gap(rank_t rank) noexcept;
  MUSTER_HOT void signal_rank(rank_t rank) noexcept;
  MUSTER_COLD void wake_for(rank_t rank, std::uint32_t sleepers) noexcept;
  void signal_room() noexcept;

  enum class outlook { ready, gap, over, written, unclaimed };
  outlook look(rank_t rank) const noexcept;
  static bool is_resolved(outlook seen) noexcept { return seen == outlook::ready || seen == outlook::gap; }
  static bool must_wait(outlook seen) noexcept { return seen == outlook::written || seen == outlook::unclaimed; }
  std::size_t unclaimed() const noexcept;
  MUSTER_HOT void claimed(std::size_t ranks) noexcept;
  MUSTER_COLD queue_result<T> await_ticket(rank_t rank);
  void tell_of_head() noexcept;
  MUSTER_COLD queue_result<T> try_pop_first();
  queue_result<T> pop_within(const wait_limit& limit);
  MUSTER_COLD bool await_head(wait_limit limit);
  queue_status claim_up_to(std::size_t most, rank_t& first, std::size_t& count) noexcept;
  MUSTER_HOT queue_result<T> take(rank_t rank);
  template <class OutputIt>
  std::size_t take_up_to(OutputIt& out, std::size_t count, queue_status& status);

  // Read-only after construction.
  const ring<cell, Layout> cells_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see slipping
  const rank_t spare_;      // ranks for all threads
  const rank_t loose_;      // room that a look must find if ranks are to be taken by fetch-add

  // The consumers' line: the next rank to claim.
  alignas(isolation_size) sync::atomic<rank_t> head_;
  slipping consumer_slip_;

  // The producers' line: the next rank to take. Every rank before it belongs to a producer, or is resolved.
  alignas(isolation_size) sync::atomic<rank_t> tail_;

  // Hints of the producers, stored without care. head_seen_: a value that head_ has had. tight_: there may not be room
  // for all threads; false where there is none: a push takes a rank and waits with it.
  alignas(isolation_size) sync::atomic<rank_t> head_seen_;
  sync::atomic<bool> tight_;
  slipping producer_slip_;

  // gaps_: the latest gaps, each rank once. gaps_end_: every gap made is before it. More gaps than gap_count_ take
  // places.
  const std::size_t gap_count_;
  const std::unique_ptr<sync::atomic<rank_t>[]> gaps_;
  sync::atomic<std::size_t> gaps_made_{0};
  sync::atomic<rank_t> gaps_end_;

  // Written rarely: who sleeps, and the rank after the last.
  alignas(isolation_size) event_mask consumers_;
  event_mask producers_;
  sync::atomic<rank_t> end_;
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/mpmc.hpp>  // definitions
