// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lanes.hpp: bounded queue from many producers to many consumers, FIFO for each producer: a lane for each producer.
//
// Order      FIFO for each producer_handle, and within a lane over the handles that have it one after the other. None
//            between lanes. Each lane is linearizable; an operation on all of them is one on each, in turn.
// Progress   try_push is wait-free. push waits only while its lane is full, or stopped consumers hold so many of its
//            cells that spmc_queue's push would wait. try_pop is lock-free. pop waits while it finds no item; it never
//            holds a claim while it waits.
// Preempted  a producer stopped in push delays only its own items. A consumer stopped after its claim holds the items
//            it claimed and their cells; the lane goes on, as in spmc_queue.
// Killed     a producer keeps its lane for ever; an item it was pushing is lost. A consumer: what it claimed is lost;
//            if it has just been woken for an item, that item may wait for the next pop or push.
// Memory     for each lane, capacity + threads cells, rounded up to a power of two; nothing is allocated after
//            construction, but by a thread's first pop without a handle.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc; producer() throws std::length_error. What
//            T's constructor or move throws: as in spmc_queue.
// Use it     when many threads push and no order between them is needed: no push meets another. Strict order over all
//            producers: mpmc_queue. One producer: spmc_queue.
// Source     the FFQ paper's own use of FFQ^s (see spmc.hpp), a queue per producer, made one queue: consumers that stay
//            with a lane, a set of lanes that may have items, one event to wait for, one close, lanes that are left and
//            taken again.
#pragma once

#include <muster/base/arch.hpp>            // isolation_size
#include <muster/queue/face.hpp>           // push_face, pop_face
#include <muster/queue/impl/lane_set.hpp>  // lane_set
#include <muster/queue/spmc.hpp>           // spmc_queue, a lane

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint32_t
#include <memory>    // std::unique_ptr
#include <optional>  // try_producer
#include <utility>   // std::exchange
#include <vector>    // the lanes

namespace muster::inline MUSTER_ABI {

/// What lanes may be told beyond their capacity.
struct lanes_options {
  /// Lanes: the greatest number of producers at once. At most 2^24.
  std::size_t producers = 16;
  /// The greatest number of threads that are inside operations at once, waiting ones included.
  std::size_t threads = 64;
  /// Of each lane, as in queue_options.
  std::size_t cells = 0;
  rank_t first_rank = 0;
};

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class lanes : public pop_face<lanes<T, Layout, Wait>, T> {
  using face = pop_face<lanes, T>;
  friend face;
  using lane_queue = spmc_queue<T, Layout, Wait>;

 public:
  class producer_handle;
  class consumer_handle;

  /// Lanes of exactly `capacity` items each. Throws std::invalid_argument with what to ask for instead.
  explicit lanes(std::size_t capacity, lanes_options options = {});
  /// Destroys the items left. No thread may be inside an operation, and no handle may be left.
  ~lanes() = default;

  /// A lane of its own for the caller, until the handle is destroyed. Throws std::length_error when all are taken.
  producer_handle producer();
  /// The same; nothing when all lanes are taken. Wait-free.
  std::optional<producer_handle> try_producer();
  /// A consumer that stays with a lane as long as that pays. Any number of them, one thread at a time each.
  consumer_handle consumer();

  using face::pop;  // and pop_for, pop_until: see face.hpp

  /// Without a handle: as consumer_handle, with a lane that belongs to the calling thread's number. Any thread. May
  /// throw std::bad_alloc at the thread's first call.
  queue_result<T> pop() { return pop_within(wait_limit{}); }
  queue_result<T> try_pop();
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count);
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count);

  /// Refuses further pushes, lane after lane, and wakes everybody. Items inside can still be popped. Any thread, any
  /// number of times.
  void close();
  /// Whether a close() has begun. While it is under way, a push into a lane that it has not reached succeeds.
  bool is_closed() const noexcept { return (events_.flags() & closing) != 0; }
  /// Items that each lane holds at most.
  std::size_t capacity() const noexcept { return lanes_.front()->queue.capacity(); }
  /// The greatest number of producers at once.
  std::size_t producers() const noexcept { return lanes_.size(); }
  /// Items in all lanes, each at some recent moment.
  std::size_t size_approx() const noexcept;

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  struct lane {
    explicit lane(std::size_t capacity, const queue_options& options) : queue(capacity, options) {}
    lane_queue queue;
    sync::atomic<bool> taken{false};  // by a producer_handle
  };
  /// Where a consumer is: in which lane, and for how many pops it stays there though others may have items.
  struct cursor {
    lane_queue* here;  // of that number; anything when left is 0
    std::uint32_t number;
    std::uint32_t left;
    std::uint32_t unmarked;  // the lane to look into next if it has no mark
  };
  /// The cursor of a thread's number but for the pointer, in one word, as several threads may have the same.
  struct alignas(isolation_size) seat {
    sync::atomic<std::uint64_t> word{0};
  };
  class seated;

  static constexpr std::uint32_t closing = event_mask::flag(0);  // close() has begun
  static constexpr std::uint32_t closed = event_mask::flag(1);   // every lane has been closed
  static constexpr std::uint32_t quota = 256;                    // pops from a lane before other lanes have their turn

  static std::size_t lanes_for(std::size_t producers);
  MUSTER_HOT void after_push(detail::lane_set::place mark, std::size_t items) noexcept;
  MUSTER_COLD void wake(std::uint32_t word, std::size_t items) noexcept;

  template <class Attempt>
  queue_status visit(cursor& at, Attempt attempt);
  template <class Attempt>
  MUSTER_COLD queue_status move_on(cursor& at, Attempt attempt);
  template <class Attempt>
  bool visit_unmarked(cursor& at, Attempt& attempt);
  template <class Attempt>
  bool visit_marked(cursor& at, Attempt& attempt);
  template <class Attempt>
  queue_status visit_all(cursor& at, Attempt& attempt);
  cursor stay_in(std::size_t number, std::uint32_t unmarked) const noexcept;
  bool has_item(std::size_t number) const noexcept;
  bool seems_ready(const cursor& at) const noexcept;
  bool is_ready() noexcept;
  bool is_drained() const noexcept;
  MUSTER_COLD bool await_item(const cursor& at, unsigned number, const wait_limit& limit);
  MUSTER_COLD void slip_when_dry() noexcept;
  queue_result<T> pop_within(const wait_limit& limit);

  // Read-only after construction.
  std::vector<std::unique_ptr<lane>> lanes_;
  std::vector<seat> seats_;
  const std::size_t slip_;  // see slipping

  // Written rarely. used_: the lanes from it on have never had a producer; consumers_: numbers given to handles.
  alignas(isolation_size) event_mask events_;  // consumers sleep here, for an item in any lane
  sync::atomic<std::size_t> used_{0};
  sync::atomic<unsigned> consumers_{0};
  detail::lane_set marked_;
  alignas(isolation_size) slipping slip_state_;  // after a wait
  slipping dry_slip_;                            // before one
};

/// The right to push into one lane, for one thread at a time. Gives the lane back at its end; items left in it stay.
/// When moved from, it may only be destroyed or assigned to.
template <class T, class Layout, class Wait>
class lanes<T, Layout, Wait>::producer_handle : public push_face<producer_handle, T> {
  friend push_face<producer_handle, T>;
  friend lanes;

 public:
  producer_handle(producer_handle&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        lane_(std::exchange(other.lane_, nullptr)),
        mark_(other.mark_),
        number_(other.number_) {}
  producer_handle& operator=(producer_handle&& other) noexcept;
  ~producer_handle() { leave(); }

  // And push, emplace, try_push, push_for, push_until: see face.hpp. As in spmc_queue.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args);
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count);
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count);

  /// Which lane, in 0 … producers() − 1.
  std::size_t lane() const noexcept { return number_; }

 private:
  producer_handle(lanes& owner, std::size_t number) noexcept
      : owner_(&owner), lane_(owner.lanes_[number].get()), mark_(owner.marked_.of(number)), number_(number) {}
  lane_queue& queue() noexcept { return lane_->queue; }
  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args);
  template <class InputIt>
  std::size_t push_up_to(InputIt first, std::size_t count, bool waits);
  void leave() noexcept;

  lanes* owner_;  // null: moved from
  typename lanes::lane* lane_;
  detail::lane_set::place mark_;  // of the lane
  std::size_t number_;
};

/// A consumer, for one thread at a time. It holds no items between two operations.
template <class T, class Layout, class Wait>
class lanes<T, Layout, Wait>::consumer_handle : public pop_face<consumer_handle, T> {
  using face = pop_face<consumer_handle, T>;
  friend face;
  friend lanes;

 public:
  using face::pop;  // and pop_for, pop_until: see face.hpp

  /// Takes an item; waits while there is none. No value only when the queue is closed and drained.
  MUSTER_HOT queue_result<T> pop() { return pop_within(wait_limit{}); }
  /// Takes an item if there is one: an item, empty or closed; busy while close() is under way, or a push into a queue
  /// that is being closed. Empty: each lane was empty at a moment of its own during the call. Lock-free.
  MUSTER_HOT queue_result<T> try_pop();
  /// Takes 1 to `count` consecutive items of one lane, waiting for the first. 0 only when the queue is closed and
  /// drained. When `*out = item` can throw, items are claimed one at a time.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count);
  /// Takes up to `count` items, from as many lanes as it needs, without waiting. Lock-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count);

 private:
  consumer_handle(lanes& owner, cursor at, unsigned number) noexcept : owner_(&owner), at_(at), number_(number) {}
  MUSTER_HOT bool claim_here(rank_t& rank) noexcept;
  MUSTER_COLD queue_result<T> try_pop_anywhere();
  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit);
  MUSTER_COLD queue_result<T> await_and_pop(wait_limit limit);
  bool has_run_dry() const noexcept { return at_.left != 0 && !at_.here->has_first(); }
  template <class OutputIt>
  queue_status take_some(OutputIt& out, std::size_t count, std::size_t& taken);

  lanes* owner_;
  cursor at_;
  unsigned number_;  // the key it sleeps for
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/lanes.hpp>  // definitions
