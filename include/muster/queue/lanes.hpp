// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lanes.hpp: bounded queue from many producers to many consumers, with a FIFO lane for each producer.
//
// Order      FIFO for each producer_handle, and within a lane over its successive handles. None between lanes. Each
//            lane is linearizable; an operation on all lanes is a sequence of one operation on each.
// Progress   try_push is wait-free. push waits only while its lane is full, or while stopped consumers hold too
//            many cells of the lane, as in spmc_queue. try_pop is lock-free. pop waits while it finds no item, and
//            holds no claim meanwhile.
// Preempted  a producer stopped in push delays only its own items. A consumer stopped after its claim holds the items
//            it claimed and their cells; the lane continues, as in spmc_queue.
// Killed     a producer's lane stays taken, and an item it was pushing is lost. A consumer's claimed items are lost; if
//            it had just been woken for an item, that item may wait for the next pop or push.
// Memory     for each lane, capacity + threads cells, rounded up to a power of two; after construction only a thread's
//            first pop without a handle allocates.
// Cost       push: as in spmc_queue, and a load; a fetch-or once after a consumer has found the lane empty before it
//            sleeps. pop: one compare-exchange, while its lane has items, up to 256 times; then a search of the marked
//            lanes, and at last of all that have had a producer, as before each sleep. producer(), size_approx():
//            O(lanes); close(): O(lanes) system calls. Waking and waiting: see base/wait.hpp.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc or what an allocator throws; producer()
//            throws std::length_error. Exceptions of T's constructor or move, or of the f of consume(f): as in
//            spmc_queue.
// Use it     when many threads push and no order between them is needed: pushes never contend. Strict order over all
//            producers: mpmc_queue. One producer: spmc_queue.
// Source     the FFQ paper uses one FFQ^s (see spmc.hpp) for each producer. New here: one interface to all of them,
//            with one event to sleep for and one close; consumers that stay with a lane; a bitmap of lanes that may
//            have items; and lanes that can be released and reused.
//
// Wake-ups: all consumers sleep for the same event, an item in any lane, each under one of 16 keys. A push that finds
// sleepers wakes those of one key. If no thread was asleep under that key, because its consumer was leaving or will
// check again, the push tries the next key.
// So, while a consumer C sleeps:
//   1. for every item that C's last check missed, a consumer of its own has been woken, because the push came after C
//      had set its bit;
//   2. before that consumer sleeps again or leaves, it sees the item, or sees that the item has been taken. So either
//      the item has been taken, or the consumer takes it or another item that C missed.
// With one woken consumer for each item, no item is left over. No consumer sleeps on the events of a lane's own queue.
//
// A pop searches, until it has an item,
//   1. the lane of its cursor, as long as the quota lasts;
//   2. one further lane, in turn, if it is unmarked: see visit_unmarked();
//   3. the marked lanes, from the one after the cursor's lane around to the cursor's lane itself;
//   4. all lanes, by their ends and not by their marks. Only then does it report that there is no item, or wait.
// An item pushed before the call is found in step 4 at the latest, unless another pop takes it: marks may lag behind,
// but the lanes themselves do not.
#pragma once

#include <muster/base/arch.hpp>                  // isolation_size
#include <muster/base/detail/eventcount.hpp>     // eventcount
#include <muster/base/detail/heap_array.hpp>     // heap_array
#include <muster/base/detail/scope_exit.hpp>     // scope_exit
#include <muster/base/detail/temporal_slip.hpp>  // temporal_slip
#include <muster/base/detail/utilities.hpp>      // std::min
#include <muster/base/wait.hpp>                  // wait::spin_then_park
#include <muster/queue/detail/lane_bitmap.hpp>   // lane_bitmap
#include <muster/queue/detail/operations.hpp>    // push_operations, pop_operations
#include <muster/queue/options.hpp>              // queue_options, layout
#include <muster/queue/spmc.hpp>                 // spmc_queue, a lane

#include <cstddef>    // std::size_t
#include <cstdint>    // std::uint32_t
#include <optional>   // try_producer
#include <stdexcept>  // std::length_error
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI {

/// Options of lanes.
struct lanes_options {
  /// The number of lanes, so the maximum number of producers at once. At most 2^24.
  std::size_t producers = 16;
  /// The maximum number of threads inside operations at once, including waiting ones.
  std::size_t threads = 64;
  /// For each lane, as in queue_options.
  std::size_t cells = 0;
  /// The rank of the first item of each lane, as in queue_options.
  rank_t first_rank = 0;
};

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class lanes : public pop_operations<lanes<T, Layout, Wait>, T>, public consume_operations<lanes<T, Layout, Wait>, T> {
  using operations = pop_operations<lanes, T>;
  friend operations;
  friend consume_operations<lanes, T>;
  friend detail::watch_access;
  using lane_queue = spmc_queue<T, Layout, Wait>;

 public:
  class producer_handle;
  class consumer_handle;

  /// Each lane holds up to `capacity` items. `memory`: an allocator of any type, or a std::pmr::memory_resource*.
  /// Throws std::invalid_argument, whose message names a valid value.
  explicit lanes(std::size_t capacity, lanes_options options = {}, const memory_source& memory = {})
      : lanes_(memory, lanes_for(options.producers), capacity, of_each(capacity, options), memory),
        seats_(memory, std::min<std::size_t>(std::max<std::size_t>(options.threads, 1), 256)),
        slip_(std::min<std::size_t>(capacity / 4, 1024)),
        marked_(memory, lanes_.size()) {
    for (std::size_t i = 0; i < seats_.size(); ++i)
      seats_[i].word.store(seated::pack({nullptr, static_cast<std::uint32_t>(i), 0, static_cast<std::uint32_t>(i)}),
                           std::memory_order_relaxed);
  }

  /// Destroys the remaining items. No thread may be inside an operation, and no handle may exist.
  ~lanes() = default;

  /// Takes a lane for the caller, until the handle is destroyed. Throws std::length_error if all are taken.
  producer_handle producer() {
    if (std::optional<producer_handle> one = try_producer()) return *std::move(one);
    MUSTER_THROW(
        std::length_error("lanes: all " + std::to_string(lanes_.size()) +
                          " lanes are taken; construct it with more producers, or destroy a producer_handle first"));
  }

  /// As producer(), but returns nothing if all lanes are taken. Wait-free.
  std::optional<producer_handle> try_producer() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      // (1) acquire: pairs with (2). The new producer sees the lane as the last one left it.
      if (lanes_[i].taken.load(std::memory_order_relaxed) || lanes_[i].taken.exchange(true, std::memory_order_acquire))
        continue;
      std::size_t used = used_.load(std::memory_order_relaxed);
      while (used <= i && !used_.compare_exchange_strong(used, i + 1, std::memory_order_relaxed)) {
      }
      return producer_handle(*this, i);
    }
    return std::nullopt;
  }

  /// Returns a consumer, which pops several items from a lane before it turns to another. Any number may exist; each
  /// serves one thread at a time.
  consumer_handle consumer() {
    const unsigned number = consumers_.fetch_add(1, std::memory_order_relaxed);
    return consumer_handle(*this, {nullptr, number, 0, number}, number);
  }

  using operations::pop;  // and pop_for, pop_until, consume and its other forms: see detail/operations.hpp

  /// Pops without a handle, for any thread: as a consumer_handle, with a cursor chosen by the calling thread's number.
  /// A thread's first call may throw std::bad_alloc.
  queue_result<T> pop() { return pop_within(wait_limit{}); }
  /// As pop, without waiting. Returns the item, empty, closed or busy.
  queue_result<T> try_pop() { return seated(*this).try_pop(); }
  /// Like consume, but does not wait for an item: see consumer_handle.
  template <class F>
  queue_status try_consume(F&& f) {
    return seated(*this).try_consume(f);
  }
  /// As pop, for 1 to `count` items of one lane, waiting for the first. Returns 0 only when closed and drained, or if
  /// `count` is 0.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    return seated(*this).pop_n(std::move(out), count);
  }

  /// As pop_n, without waiting, from as many lanes as needed.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    return seated(*this).try_pop_n(std::move(out), count);
  }

  /// Refuses further pushes, lane by lane, and wakes all waiters. Remaining items can still be popped. Any thread may
  /// call it, any number of times.
  // Every call closes every lane itself. So if two calls overlap, neither returns before all pushes are refused.
  void close() {
    events_.raise(closing);
    for (lane& each : lanes_) each.queue.close();
    events_.raise(closed);
  }

  /// Returns true if a close() has begun. Until it reaches a lane, pushes into that lane succeed.
  bool is_closed() const noexcept { return (events_.flags() & closing) != 0; }
  /// The maximum number of items in each lane.
  std::size_t capacity() const noexcept { return lanes_[0].queue.capacity(); }
  /// The maximum number of producers at once.
  std::size_t producers() const noexcept { return lanes_.size(); }
  /// The number of items in all lanes, each at some recent moment.
  std::size_t size_approx() const noexcept {
    std::size_t items = 0;
    for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) items += lanes_[i].queue.size_approx();
    return items;
  }

  /// Asserts the invariants. No thread may be inside an operation.
  void check() const {
    const std::size_t used = used_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].queue.check();
      const bool has_items = lanes_[i].queue.size_approx() != 0;
      MUSTER_CHECK(!has_items || marked_.next(i, i + 1) == i, "lanes: a lane has items, but is not marked");
      MUSTER_CHECK(i < used || !(has_items || lanes_[i].taken.load(std::memory_order_relaxed)),
                   "lanes: a lane is in use that consumers do not scan");
    }
  }

 private:
  struct lane {
    lane(std::size_t capacity, const queue_options& options, const memory_source& memory)
        : queue(capacity, options, memory) {}
    lane_queue queue;
    sync::atomic<bool> taken{false};  // by a producer_handle
  };
  /// A consumer's position: its lane, and the number of pops for which it stays there even if other lanes have items.
  struct cursor {
    lane_queue* here;  // the lane with that number; meaningless if left is 0
    std::uint32_t number;
    std::uint32_t left;
    std::uint32_t unmarked;  // the lane to visit next if it has no mark
  };
  /// The cursor of the threads without a handle that have one number (modulo the number of seats), without the pointer.
  /// One word, because these threads may use it at the same time.
  struct alignas(isolation_size) seat {
    sync::atomic<std::uint64_t> word{0};
  };
  class seated;

  static constexpr std::uint32_t closing = eventcount::flag(0);  // close() has begun
  static constexpr std::uint32_t closed = eventcount::flag(1);   // every lane has been closed
  static constexpr std::uint32_t quota = 256;                    // pops from a lane before other lanes are visited

  // Returns `producers`, or throws std::invalid_argument.
  static std::size_t lanes_for(std::size_t producers) {
    static constexpr std::size_t most = std::size_t{1} << 24;  // see seated::pack()
    if (producers == 0) detail::refuse("lanes", "producers is 0; it must be at least 1");
    if (producers > most)
      detail::refuse("lanes",
                     "producers is " + std::to_string(producers) + "; it must be at most " + std::to_string(most));
    return producers;
  }

  // --------------------------------------------------------------------------------------------------------- producers

  MUSTER_HOT void after_push(detail::lane_bitmap::place mark, std::size_t items) noexcept {
    detail::lane_bitmap::mark(mark);
    if constexpr (Wait::parks)
      if (const std::uint32_t word = events_.waiters_after_event(); (word & eventcount::all_keys) != 0) [[unlikely]]
        wake(word, items);
  }

  // Wakes one key per item; all sleepers if close() has begun, as this may be the last event.
  MUSTER_COLD void wake(std::uint32_t word, std::size_t items) noexcept {
    if ((word & closing) != 0) return events_.wake_all();
    for (std::uint32_t key = 0; key < eventcount::keys && items != 0; ++key)
      if (eventcount::wakes(word, key) && events_.wake(key)) --items;
  }

  // --------------------------------------------------------------------------------------------------------- consumers

  // Calls attempt(queue of a lane, std::bool_constant<exact>) until it returns success.
  template <class Attempt>
  MUSTER_HOT queue_status visit(cursor& at, Attempt attempt) {
    if (at.left != 0 && attempt(*at.here, std::false_type{}) == queue_status::success) [[likely]] {
      --at.left;
      return queue_status::success;
    }
    return move_on(at, attempt);
  }

  template <class Attempt>
  MUSTER_COLD queue_status move_on(cursor& at, Attempt attempt) {
    if (visit_unmarked(at, attempt) || visit_marked(at, attempt)) return queue_status::success;
    return visit_all(at, attempt);
  }

  // Without this step, a consumer that is stopped after clearing a lane's mark, and before checking again, would hide
  // the lane's items from consumers that find items elsewhere.
  template <class Attempt>
  bool visit_unmarked(cursor& at, Attempt& attempt) {
    const std::size_t used = used_.load(std::memory_order_relaxed);
    if (used == 0) return false;
    const std::size_t i = at.unmarked < used ? at.unmarked : 0;
    at.unmarked = static_cast<std::uint32_t>(i + 1);
    if (marked_.next(i, i + 1) == i) return false;
    if (attempt(lanes_[i].queue, std::false_type{}) != queue_status::success) return false;
    marked_.mark(i);
    at.left = 0;  // the lane is now visited in turn with the marked ones
    return true;
  }

  template <class Attempt>
  bool visit_marked(cursor& at, Attempt& attempt) {
    const std::size_t used = used_.load(std::memory_order_relaxed);
    if (used == 0) return false;
    const std::size_t from = (at.number + 1U) % used;
    const auto look_in = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = marked_.next(begin, end); i != end; i = marked_.next(i + 1, end)) {
        if (attempt(lanes_[i].queue, std::false_type{}) != queue_status::success) continue;
        at = stay_in(i, at.unmarked);
        return true;
      }
      return false;
    };
    return look_in(from, used) || look_in(0, from);
  }

  // Returns the cursor after a pop from that lane.
  cursor stay_in(std::size_t number, std::uint32_t unmarked) const noexcept {
    return {&lanes_[number].queue, static_cast<std::uint32_t>(number), quota - 1, unmarked};
  }

  template <class Attempt>
  queue_status visit_all(cursor& at, Attempt& attempt) {
    // Read before the lanes: once all have been closed, no producer can start to use a lane that this loop misses.
    const bool all_closed = (events_.flags() & closed) != 0;
    const std::size_t used = used_.load(std::memory_order_relaxed);
    std::size_t drained = 0;
    bool busy = false;
    for (std::size_t n = 1; n <= used; ++n) {
      const std::size_t i = (at.number + n) % used;
      switch (attempt(lanes_[i].queue, std::true_type{})) {
        case queue_status::success:
          marked_.mark(i);  // the consumer that cleared the mark may have been stopped
          at = stay_in(i, at.unmarked);
          return queue_status::success;
        case queue_status::closed: ++drained; break;
        case queue_status::busy: busy = true; break;
        default: break;
      }
    }
    if (drained == used && all_closed) return queue_status::closed;
    return busy || drained != 0 ? queue_status::busy : queue_status::empty;
  }

  bool has_item(std::size_t number) const noexcept {
    const auto seen = lanes_[number].queue.look_at_head();
    return seen == lane_queue::rank_state::ready || seen == lane_queue::rank_state::skipped;
  }

  // Returns true if a pop would find something in its cursor's lane or in a marked one, or if the queue is drained.
  bool seems_ready(const cursor& at) const noexcept {
    const std::size_t used = used_.load(std::memory_order_relaxed);
    if (at.number < used && has_item(at.number)) return true;
    for (std::size_t i = marked_.next(0, used); i != used; i = marked_.next(i + 1, used))
      if (has_item(i)) return true;
    return is_drained();
  }

  // As seems_ready, for all lanes, marking lanes with items. Called after the heavy fence that follows
  // marked_.clear_empty().
  bool is_ready() noexcept {
    bool found = false;
    for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) {
      if (!has_item(i)) continue;
      marked_.mark(i);
      found = true;
    }
    return found || is_drained();
  }

  bool is_drained() const noexcept {
    if ((events_.flags() & closed) == 0) return false;
    for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i)
      if (lanes_[i].queue.look_at_head() != lane_queue::rank_state::end) return false;
    return true;
  }

  // How a consumer waits until some lane has an item or all are drained.
  class watch {
   public:
    using policy = Wait;
    /// If the thread never sleeps, before_sleep() is never called, and ready() must check all lanes from the beginning.
    watch(lanes& owner, const cursor& at, unsigned number, bool sleeps = Wait::parks) noexcept
        : owner_(owner), at_(at), number_(number), exactly_(!sleeps) {}
    bool ready() const noexcept { return exactly_ ? owner_.is_ready() : owner_.seems_ready(at_); }
    void before_sleep() noexcept {
      exactly_ = true;
      owner_.marked_.clear_empty([this](std::size_t i) { return !owner_.has_item(i); });
    }
    std::uint32_t key() const noexcept { return number_; }
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(number_); }
    eventcount& events() const noexcept { return owner_.events_; }
    static eventcount& events_of(lanes& owner) noexcept { return owner.events_; }

   private:
    lanes& owner_;
    const cursor& at_;
    const unsigned number_;
    bool exactly_;
  };
  class pop_watch : public watch {
   public:
    pop_watch(lanes& owner, bool sleeps) : watch(owner, nowhere, sync::thread_index(), sleeps) {}

   private:
    static constexpr cursor nowhere{};
  };

  // Returns false if the limit expired first.
  MUSTER_COLD bool await_item(const cursor& at, unsigned number, const wait_limit& limit) {
    watch one(*this, at, number);
    const auto ready = [&] { return one.ready(); };
    if (!limit.template await<Wait>(one.events(), number, ready, [&] { one.before_sleep(); })) return false;
    slip_state_.after_wait(slip_, [this] { return size_approx(); });
    return true;
  }

  // For a consumer whose lane has run dry. If the other lanes have too, it would search them all before it waits. By
  // then an item may have arrived; so it would never wait, but follow the producer item by item.
  MUSTER_COLD void slip_when_dry() noexcept {
    if (size_approx() == 0) dry_slip_.after_wait(slip_, [this] { return size_approx(); });
  }

  // -------------------------------------------------------------------------------------------------- without a handle

  queue_result<T> pop_within(const wait_limit& limit) { return seated(*this).pop_within(limit); }
  template <class F>
  queue_status consume_within(const wait_limit& limit, F& f) {
    return seated(*this).consume_within(limit, f);
  }

  // The options of each lane. Throws std::invalid_argument, whose message names lanes.
  static queue_options of_each(std::size_t capacity, const lanes_options& options) {
    const queue_options each{.threads = options.threads, .cells = options.cells, .first_rank = options.first_rank};
    detail::ring_cells("lanes", capacity, each, each.threads, ring<typename lane_queue::cell, Layout>::cell_size);
    return each;
  }

  // Read-only after construction.
  detail::heap_array<lane> lanes_;
  detail::heap_array<seat> seats_;
  const std::size_t slip_;  // see temporal_slip

  // Written rarely. used_: the lanes from this number on have never had a producer; consumers_: the next handle's
  // number.
  alignas(isolation_size) eventcount events_;  // consumers sleep here, for an item in any lane
  sync::atomic<std::size_t> used_{0};
  sync::atomic<unsigned> consumers_{0};
  detail::lane_bitmap marked_;
  alignas(isolation_size) temporal_slip slip_state_;  // after a wait
  temporal_slip dry_slip_;                            // before one
};

/// The right to push into one lane, for one thread at a time. Its destructor releases the lane; remaining items stay.
/// A moved-from handle may only be destroyed or assigned to.
template <class T, class Layout, class Wait>
class lanes<T, Layout, Wait>::producer_handle : public push_operations<producer_handle, T> {
  friend push_operations<producer_handle, T>;
  friend lanes;
  friend detail::watch_access;

 public:
  producer_handle(producer_handle&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        lane_(std::exchange(other.lane_, nullptr)),
        mark_(other.mark_),
        number_(other.number_) {}
  producer_handle& operator=(producer_handle&& other) noexcept {
    if (this != &other) {
      leave();
      owner_ = std::exchange(other.owner_, nullptr);
      lane_ = std::exchange(other.lane_, nullptr);
      mark_ = other.mark_;
      number_ = other.number_;
    }
    return *this;
  }

  ~producer_handle() { leave(); }

  // And push, emplace, try_push, push_for, push_until: see detail/operations.hpp. As in spmc_queue.

  /// As spmc_queue::try_emplace, into the lane of this handle. Wait-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args) {
    // Called even if the push fails or throws: while the queue is being closed, a rank without an item is an event,
    // too.
    const detail::scope_exit told([this] { owner_->after_push(mark_, 1); });
    return queue().try_emplace(std::forward<Args>(args)...);
  }

  /// As spmc_queue::push_n, into the lane of this handle.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count) {
    return push_up_to(std::move(first), count, true);
  }

  /// As push_n, without waiting: pushes as many as fit.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count) {
    return push_up_to(std::move(first), count, false);
  }

  /// The lane's number, in 0 … producers() − 1.
  std::size_t lane() const noexcept { return number_; }

 private:
  producer_handle(lanes& owner, std::size_t number) noexcept
      : owner_(&owner), lane_(&owner.lanes_[number]), mark_(owner.marked_.of(number)), number_(number) {}
  lane_queue& queue() noexcept { return lane_->queue; }
  struct push_watch : lane_queue::push_watch {
    explicit push_watch(producer_handle& one) noexcept : lane_queue::push_watch(one.queue()) {}
    static eventcount& events_of(producer_handle& one) noexcept {
      return lane_queue::push_watch::events_of(one.queue());
    }
  };

  void leave() noexcept {
    // (2) release: pairs with (1).
    if (owner_ != nullptr) lane_->taken.store(false, std::memory_order_release);
  }

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args) {
    const detail::scope_exit told([this] { owner_->after_push(mark_, 1); });
    return queue().emplace_within(limit, std::forward<Args>(args)...);
  }

  template <class InputIt>
  std::size_t push_up_to(InputIt first, std::size_t count, bool waits) {
    rank_t told = queue().tail_.load(std::memory_order_relaxed);
    const auto tell = [&] {
      const rank_t tail = queue().tail_.load(std::memory_order_relaxed);
      owner_->after_push(mark_, tail - std::exchange(told, tail));
    };
    const detail::scope_exit told_at_the_end(tell);
    return queue().push_up_to(std::move(first), count, waits, tell);
  }

  lanes* owner_;  // null: moved from
  typename lanes::lane* lane_;
  detail::lane_bitmap::place mark_;  // of the lane
  std::size_t number_;
};

/// A consumer, for one thread at a time. It holds no items between two operations.
template <class T, class Layout, class Wait>
class lanes<T, Layout, Wait>::consumer_handle : public pop_operations<consumer_handle, T>,
                                                public consume_operations<consumer_handle, T> {
  using operations = pop_operations<consumer_handle, T>;
  friend operations;
  friend consume_operations<consumer_handle, T>;
  friend lanes;
  friend detail::watch_access;

 public:
  using operations::pop;  // and pop_for, pop_until, consume and its other forms: see detail/operations.hpp

  /// Takes an item; waits while there is none. Returns no value only when closed and drained.
  MUSTER_HOT queue_result<T> pop() { return pop_within(wait_limit{}); }
  /// Takes an item if there is one. Returns the item, empty or closed; busy while close() or a push that it overlaps is
  /// in progress. Empty means that each lane was empty at some moment during the call, not all at once. Lock-free.
  MUSTER_HOT queue_result<T> try_pop() {
    if (rank_t rank = 0; claim_here(rank)) [[likely]]
      return at_.here->take(rank);
    return try_pop_anywhere();
  }

  /// Like consume, but does not wait for an item. Returns success, empty, closed or busy, like try_pop. Lock-free,
  /// except for f. While f runs, the item does not count towards its lane's capacity, and its cell counts as held by a
  /// stopped consumer. f may use this handle and the queue.
  template <class F>
  MUSTER_HOT queue_status try_consume(F&& f) {
    lane_queue* from = nullptr;
    rank_t rank = 0;
    if (const queue_status claim = claim_item(from, rank); claim != queue_status::success) return claim;
    from->use(rank, f);
    return queue_status::success;
  }

  /// Takes 1 to `count` consecutive items of one lane, waiting for the first. Returns 0 only when closed and drained,
  /// or if `count` is 0. If `*out = item` can throw, items are claimed one at a time.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    if (count != 0 && has_run_dry()) owner_->slip_when_dry();
    for (std::size_t taken = 0; count != 0;) {
      const queue_status status = take_some(out, count, taken);
      if (status == queue_status::success || status == queue_status::closed) return taken;
      owner_->await_item(at_, number_, wait_limit{});
    }
    return 0;
  }

  /// Takes up to `count` items, from as many lanes as needed, without waiting. Lock-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    std::size_t taken = 0;
    while (taken < count && take_some(out, count - taken, taken) == queue_status::success) {
    }
    return taken;
  }

 private:
  consumer_handle(lanes& owner, cursor at, unsigned number) noexcept : owner_(&owner), at_(at), number_(number) {}
  struct pop_watch : lanes::watch {
    pop_watch(consumer_handle& one, bool sleeps) noexcept : lanes::watch(*one.owner_, one.at_, one.number_, sleeps) {}
    static eventcount& events_of(consumer_handle& one) noexcept { return one.owner_->events_; }
  };
  bool has_run_dry() const noexcept { return at_.left != 0 && !at_.here->has_first(); }

  // The first step of visit().
  MUSTER_HOT bool claim_here(rank_t& rank) noexcept {
    if (at_.left == 0 || !at_.here->claim_at_once(rank)) return false;
    --at_.left;
    return true;
  }

  MUSTER_COLD queue_status claim_anywhere(lane_queue*& from, rank_t& rank) {
    return owner_->visit(at_, [&]<bool Exact>(lane_queue& queue, std::bool_constant<Exact>) {
      from = &queue;
      return queue.template claim_item<Exact>(rank);
    });
  }

  // Claims an item of a lane. Returns success, empty, closed or busy.
  MUSTER_HOT queue_status claim_item(lane_queue*& from, rank_t& rank) {
    from = at_.here;
    if (claim_here(rank)) [[likely]]
      return queue_status::success;
    return claim_anywhere(from, rank);
  }

  MUSTER_COLD queue_result<T> try_pop_anywhere() {
    lane_queue* from = nullptr;
    rank_t rank = 0;
    if (const queue_status claim = claim_anywhere(from, rank); claim != queue_status::success) return claim;
    return from->take(rank);
  }

  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit) {
    if (rank_t rank = 0; claim_here(rank)) [[likely]]
      return at_.here->take(rank);
    return await_and_pop(limit);
  }

  MUSTER_COLD queue_result<T> await_and_pop(wait_limit limit) {
    lane_queue* from = nullptr;
    rank_t rank = 0;
    if (const queue_status claim = await_claim(limit, from, rank); claim != queue_status::success) return claim;
    return from->take(rank);
  }

  // Called after claim_here() failed. Returns success, or why there is no item.
  MUSTER_COLD queue_status await_claim(const wait_limit& limit, lane_queue*& from, rank_t& rank) {
    if (limit.none() && has_run_dry()) owner_->slip_when_dry();
    for (;;) {
      const queue_status claim = claim_anywhere(from, rank);
      if (claim == queue_status::success || claim == queue_status::closed) return claim;
      if (limit.over() || !owner_->await_item(at_, number_, limit)) return claim;
    }
  }

  template <class F>
  MUSTER_HOT queue_status consume_within(const wait_limit& limit, F& f) {
    lane_queue* from = at_.here;
    rank_t rank = 0;
    if (!claim_here(rank)) [[unlikely]]
      if (const queue_status claim = await_claim(limit, from, rank); claim != queue_status::success) return claim;
    from->use(rank, f);
    return queue_status::success;
  }

  template <class OutputIt>
  queue_status take_some(OutputIt& out, std::size_t count, std::size_t& taken) {
    return owner_->visit(at_, [&]<bool Exact>(lane_queue& queue, std::bool_constant<Exact>) {
      queue_status status = queue_status::success;
      std::size_t some = 0;
      // A run that consists only of gaps is no reason to leave the lane.
      while (some == 0 && status == queue_status::success) some = queue.template take_up_to<Exact>(out, count, status);
      taken += some;
      return some != 0 ? queue_status::success : status;
    });
  }

  lanes* owner_;
  cursor at_;
  unsigned number_;  // the key it sleeps for
};

/// A consumer_handle made of the calling thread's seat, for one operation.
template <class T, class Layout, class Wait>
class lanes<T, Layout, Wait>::seated : public consumer_handle {
 public:
  explicit seated(lanes& owner) : seated(owner, sync::thread_index()) {}
  seated(const seated&) = delete;
  seated& operator=(const seated&) = delete;
  // All relaxed: hints. If two threads share a seat, the last store wins.
  ~seated() { seat_.word.store(pack(this->at_), std::memory_order_relaxed); }

  static constexpr std::uint64_t pack(cursor at) noexcept {
    static_assert(quota <= 256);
    return std::uint64_t{at.unmarked} << 40 | std::uint64_t{at.left} << 32 | at.number;
  }

 private:
  seated(lanes& owner, unsigned number) : seated(owner, number, owner.seats_[number % owner.seats_.size()]) {}
  seated(lanes& owner, unsigned number, seat& own)
      : consumer_handle(owner, unpack(owner, own.word.load(std::memory_order_relaxed)), number), seat_(own) {}
  static cursor unpack(const lanes& owner, std::uint64_t word) noexcept {
    const auto number = static_cast<std::uint32_t>(word), left = static_cast<std::uint32_t>(word >> 32) & 255;
    return {left != 0 ? &owner.lanes_[number].queue : nullptr, number, left, static_cast<std::uint32_t>(word >> 40)};
  }

  seat& seat_;
};

}  // namespace muster::inline MUSTER_ABI
