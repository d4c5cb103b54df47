// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spmc.hpp: bounded FIFO queue from one producer to many consumers.
//
// Order      linearizable FIFO. Overlapping consumers may finish out of order: each takes the next item, and none waits
//            for another.
// Progress   try_push is wait-free. push waits only while capacity() items are unclaimed, as long as stopped consumers
//            hold fewer cells than the ring has beyond the capacity; otherwise it may also wait for a claim or a cell.
//            pop claims in one step, then waits for its item. try_pop and try_pop_n are lock-free.
// Preempted  a consumer stopped between its claim and (4) holds the cells it claimed (pop_n: up to its count); the
//            producer skips them. A producer stopped in push delays the consumers of that item and of later ones, as an
//            empty queue does.
// Killed     as preempted, permanently: one item and one cell are lost.
// Memory     capacity + threads cells, rounded up to a power of two; nothing is allocated after construction.
// Cost       push: O(1), without a read-modify-write, and O(1) for each held cell that it skips. pop, consume: one
//            fetch-add, and one for each skipped rank. try_pop, timed pops: one compare-exchange, repeated likewise or
//            if another consumer is faster; pop_n: one for a run, which is found in O(log n). Without room, or without
//            an item for try_pop, a full fence. Construction: O(cells). Waking and waiting: see base/wait.hpp.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc or what an allocator throws. An exception of
//            T's constructor leaves push with the queue unchanged; an exception of T's move leaves pop, and one of f
//            leaves consume(f); that item is lost.
// Use it     to feed workers from one thread. Many producers: mpmc_queue. One consumer: spsc_queue.
// Source     FFQ^s: Arnautov, Felber, Fetzer, Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent FIFO
//            Queue", IPDPS 2017, Algorithm 1, with the authors' erratum. Changed: one gap word for all cells instead of
//            one per cell, which suffices because the only producer resolves ranks in order; a full queue makes no
//            gaps; try, timed and bulk pops never hold a claim they cannot use; close() is new.
//
// A consumer that claimed rank r (its ticket), with cell c, distinguishes four cases:
//   1. c.word = published(r): the item is there and belongs to this consumer.
//   2. gap_ >= r and then still c.word != published(r): the producer skipped r; claim the next rank. The word must be
//      read again: after the first read the producer may have published r, then skipped the same cell a lap later.
//      gap_ >= r means that r is resolved, and no other consumer could have taken its item.
//   3. closed is raised and r >= end_: no item will ever have rank r.
//   4. otherwise the producer has not resolved r yet: wait.
// A consumer without a ticket (try, timed, bulk) first checks the rank at head_. It claims that rank, by
// compare-exchange, only in cases 1 and 2, so it never holds a rank it must wait for. Both kinds of consumer can mix: a
// waiting ticket has already moved head_ past its rank.
//
// When close() overlaps a push: the push announces its rank in tail_, then checks the flag; close() raises the flag,
// then reads tail_. So the push sees the flag, or close() includes its rank in end_. If both happen, the push makes its
// rank a gap.
#pragma once

#include <muster/base/detail/eventcount.hpp>       // eventcount
#include <muster/base/detail/heap_array.hpp>       // heap_array
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/detail/temporal_slip.hpp>    // temporal_slip
#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/queue/detail/exclusive_use.hpp>   // exclusive_use_check
#include <muster/queue/detail/item_access.hpp>     // take
#include <muster/queue/detail/operations.hpp>      // queue_operations, wait_limit
#include <muster/queue/detail/ring.hpp>            // ring, rank_t
#include <muster/queue/options.hpp>                // queue_options, layout

#include <cstddef>  // std::size_t

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class spmc_queue : public queue_operations<spmc_queue<T, Layout, Wait>, T> {
  using operations = queue_operations<spmc_queue, T>;
  friend push_operations<spmc_queue, T>;
  friend pop_operations<spmc_queue, T>;
  friend consume_operations<spmc_queue, T>;
  friend detail::watch_access;
  template <class, class, class>
  friend class lanes;

 public:
  /// Holds up to `capacity` items. `memory`: an allocator of any type, or a std::pmr::memory_resource*. Throws
  /// std::invalid_argument, whose message names a valid value.
  explicit spmc_queue(std::size_t capacity, queue_options options = {}, const memory_source& memory = {})
      : cells_(memory,
               detail::ring_cells("spmc_queue", capacity, options, options.threads, ring<cell, Layout>::cell_size)),
        capacity_(capacity),
        slip_(std::min<std::size_t>(capacity / 4, 1024)),
        head_(options.first_rank),
        tail_(options.first_rank),
        head_seen_(options.first_rank),
        limit_(options.first_rank + capacity),
        gaps_(memory, cells_.cells()),
        gap_(options.first_rank - 1),
        end_(options.first_rank) {}
  /// Destroys the remaining items. No thread may be inside an operation.
  ~spmc_queue() {
    for (std::size_t i = 0; i < cells_.cells(); ++i)
      if (cell& c = cells_.at(i); c.word.load(std::memory_order_relaxed) != 0) c.item.write_ref().destroy();
  }

  using operations::pop;  // and push, emplace, push_for, pop_for, consume and others: see detail/operations.hpp

  /// Producer only. Constructs an item at the end if there is room now. Returns success, full or closed; busy if there
  /// is room but stopped consumers hold every cell. Wait-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args) {
    const auto inside = producer_.enter(second_producer);
    place next = next_place();
    if (!is_free(next)) [[unlikely]] {
      if (const queue_status room = reserve(); room != queue_status::success)
        return is_closed() ? queue_status::closed : room;
      next = next_place();
    }
    return publish(next, std::forward<Args>(args)...);
  }

  /// Producer only. Pushes `count` items starting at `first`, waiting for room. Returns the number pushed, which is
  /// smaller only if the queue is closed. Sleepers are woken in batches: after the last item, when the queue is full,
  /// and every 256. For a single-pass iterator they are woken after each item, before the iterator is incremented. If a
  /// constructor throws, the items before it have been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count) {
    return push_up_to(std::move(first), count, true, [] {});
  }

  /// Producer only. As push_n, without waiting: pushes as many as fit.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count) {
    return push_up_to(std::move(first), count, false, [] {});
  }

  /// Takes the first item; waits while there is none. Returns no value only when closed and drained.
  MUSTER_HOT queue_result<T> pop() {
    const rank_t rank = take_ticket();
    if (is_there(rank)) [[likely]]
      return take(rank);
    return pop_ticket(rank);
  }

  /// Takes the first item if there is one. Returns the item, empty or closed; busy while close() or a push that it
  /// overlaps is in progress. Lock-free.
  MUSTER_HOT queue_result<T> try_pop() {
    if (rank_t rank = 0; claim_at_once(rank)) [[likely]]
      return take(rank);
    return try_pop_first();
  }

  /// As consume, if there is an item. Returns success, empty, closed or busy, as try_pop. Lock-free, except for f.
  /// While f runs, the item does not count towards the capacity, and its cell counts as held by a stopped consumer. f
  /// may use this queue.
  template <class F>
  MUSTER_HOT queue_status try_consume(F&& f) {
    rank_t rank = 0;
    if (const queue_status claim = try_claim(rank); claim != queue_status::success) return claim;
    use(rank, f);
    return queue_status::success;
  }

  /// Takes 1 to `count` consecutive items, waiting for the first. Returns 0 only when closed and drained, or if `count`
  /// is 0. If `*out = item` can throw, items are claimed one at a time, so at most the one in transit is lost.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    for (;;) {
      queue_status status = queue_status::success;
      const std::size_t taken = count == 0 ? 0 : take_up_to<true>(out, count, status);
      if (taken != 0 || count == 0 || status == queue_status::closed) return taken;
      await_head(wait_limit{});
    }
  }

  /// As pop_n, without waiting. Lock-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    std::size_t taken = 0;
    queue_status status = queue_status::success;
    while (taken < count && status == queue_status::success) taken += take_up_to<true>(out, count - taken, status);
    return taken;
  }

  /// Refuses further pushes and wakes all waiters. Remaining items can still be popped. Any thread may call it, any
  /// number of times.
  void close() {
    if (!consumers_.raise(closing)) return;
    // Every announcement that missed the flag is visible here, see announce().
    end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    consumers_.raise(closed);
    if (producers_.waiters_after_event() != 0) producers_.wake_all();
  }

  /// Returns true if a close() has begun.
  bool is_closed() const noexcept { return (consumers_.flags() & closing) != 0; }
  /// The most items that it holds, as given to the constructor.
  std::size_t capacity() const noexcept { return capacity_; }
  /// The number of items at some recent moment, including gaps that no consumer has passed yet.
  std::size_t size_approx() const noexcept { return std::min(unclaimed(), capacity_); }

  /// Asserts the invariants. No thread may be inside an operation.
  void check() const {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const rank_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t ranks = before(head, tail) ? tail - head : 0;
    MUSTER_CHECK(ranks <= cells_.cells(), "spmc_queue: more ranks are unclaimed than there are cells");
    std::size_t items = 0;
    for (rank_t rank = tail - ranks; rank != tail; ++rank)
      items += cells_[rank].word.load(std::memory_order_relaxed) == published(rank);
    std::size_t full = 0;
    for (std::size_t i = 0; i < cells_.cells(); ++i) full += cells_.at(i).word.load(std::memory_order_relaxed) != 0;
    MUSTER_CHECK(items == full, "spmc_queue: a cell holds an item whose rank is not between head and tail");
    MUSTER_CHECK(items <= capacity_, "spmc_queue: more items than the capacity");
    // A push that close() interrupted leaves gaps that are not on the list.
    MUSTER_CHECK(is_closed() || ranks - items <= gap_last_ - gap_first_,
                 "spmc_queue: a rank is neither an item nor a known gap");
  }

 private:
  // word: 0 while the cell is free, published(r) while it holds the item of rank r. The producer changes 0 to
  // published(r); the consumer that claimed r changes it back to 0. The thread entitled to the next change owns `item`.
  struct cell {
    sync::atomic<rank_t> word{0};
    sync::cell<manual_lifetime<T>> item;
  };
  // Never 0, and different for any two ranks of one cell, whose low bits are equal.
  static constexpr rank_t published(rank_t rank) noexcept { return rank | 1; }

  static constexpr std::uint32_t closing = eventcount::flag(0);  // no push may begin
  static constexpr std::uint32_t closed = eventcount::flag(1);   // and end_ holds the end
  static constexpr std::uint32_t room_key = 0;                   // the only event the producer sleeps for

  static constexpr std::uint32_t key(rank_t rank) noexcept { return static_cast<std::uint32_t>(rank); }
  static constexpr std::size_t longest_run = 256;  // items that push_n announces at once
  static constexpr const char* second_producer =
      "spmc_queue: a second thread pushes while one is inside push; use mpmc_queue, or one queue per producer "
      "(of lanes: one producer_handle)";

  struct place {
    rank_t rank;
    cell* at;
  };

  enum class rank_state { ready, skipped, end, unknown };  // cases 1 to 4 at the top
  MUSTER_HOT bool has_first() const noexcept { return is_there(head_.load(std::memory_order_relaxed)); }

  // ---------------------------------------------------------------------------------------------------------- producer

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args) {
    const auto inside = producer_.enter(second_producer);
    place next = next_place();
    if (!is_free(next)) [[unlikely]] {
      if (const queue_status room = reserve_within(limit); room != queue_status::success) return room;
      next = next_place();
    }
    return publish(next, std::forward<Args>(args)...);
  }

  // Rank tail_ and its cell.
  MUSTER_HOT place next_place() const noexcept {
    const rank_t rank = tail_.load(std::memory_order_relaxed);
    return {rank, &cells_[rank]};
  }

  // Returns true if the producer owns this cell, without reading head_.
  MUSTER_HOT bool is_free(place next) const noexcept {
    // (1) acquire: pairs with (4). The consumer has moved the old item out before the producer overwrites it.
    return before(next.rank, limit_) && next.at->word.load(std::memory_order_acquire) == 0;
  }

  // Advances tail_ to a rank whose cell is free, skipping cells that slow consumers hold. Returns success, or why there
  // is no room.
  MUSTER_COLD queue_status reserve() {
    for (std::size_t gaps = 0; !is_free(next_place());) {
      const rank_t rank = tail_.load(std::memory_order_relaxed);
      if (before(rank, limit_)) {
        if (gaps++ == cells_.cells()) return queue_status::busy;
        make_gap(rank);
      } else if (!look_for_room() && !look_again()) {
        const std::size_t items = rank - head_seen_ - (gap_last_ - gap_first_);
        return items < capacity_ ? queue_status::busy : queue_status::full;
      }
    }
    return queue_status::success;
  }

  MUSTER_COLD queue_status reserve_within(wait_limit limit) {
    for (;;) {
      const queue_status room = reserve();
      if (room == queue_status::success) return room;
      if (is_closed()) return queue_status::closed;
      if (limit.over() || !await_room(limit)) return room;
    }
  }

  // How a producer waits for room, or for close().
  class push_watch {
   public:
    using policy = Wait;
    explicit push_watch(spmc_queue& queue) noexcept : queue_(queue) {}
    bool ready() const noexcept { return queue_.look_for_room() || queue_.is_closed(); }
    void before_sleep() noexcept {}
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(room_key); }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(spmc_queue& queue) noexcept { return queue.producers_; }

   private:
    spmc_queue& queue_;
  };

  // Called after reserve() failed: waits for a claim or for close(). If there is room but stopped consumers hold every
  // cell, polls, because freeing a cell signals no event. Returns false if the limit expired first.
  MUSTER_COLD bool await_room(wait_limit limit) {
    if (look_for_room()) {
      const sync::atomic<rank_t>& word = cells_[tail_.load(std::memory_order_relaxed)].word;
      const auto ready = [&] { return word.load(std::memory_order_relaxed) == 0 || is_closed(); };
      return limit.template poll<Wait>(producers_, room_key, ready);
    }
    const auto ready = [this] { return look_for_room() || is_closed(); };
    if (!limit.template await<Wait>(producers_, room_key, ready)) return false;
    producer_slip_.after_wait(slip_, [this] { return free_places(); });
    return true;
  }

  // Reads head_ again. Returns true if rank tail_ fits: fewer than capacity_ items are unclaimed, and tail_ is less
  // than a lap ahead of head_.
  bool look_for_room() {
    // Relaxed: only a bound. (1) decides if the cell may be written.
    rank_t head = head_.load(std::memory_order_relaxed);
    while (gap_first_ != gap_last_) {
      const rank_t gap = gaps_[gap_first_ % cells_.cells()];
      // If the queue holds only gaps, perhaps no consumer ever claims them, so the producer does.
      if (gap == head && head_.compare_exchange_strong(head, head + 1, std::memory_order_relaxed)) ++head;
      if (!before(gap, head)) break;
      ++gap_first_;
    }
    head_seen_ = head;
    limit_ = head + std::min(capacity_ + (gap_last_ - gap_first_), cells_.cells());
    return before(tail_.load(std::memory_order_relaxed), limit_);
  }

  MUSTER_COLD bool look_again() {
    // (7) full_fence: pairs with (8). If the producer reports full and a consumer reports empty, the later of the two
    // sees the other's earlier operations. Without the fences no single order of all operations might explain both.
    sync::full_fence();
    return look_for_room();
  }

  std::size_t free_places() { return look_for_room() ? limit_ - tail_.load(std::memory_order_relaxed) : 0; }

  // Skips the rank: a consumer claimed the item of this cell a lap ago and still holds it.
  MUSTER_COLD void make_gap(rank_t rank) {
    // A gap before head_ takes no room: the consumer that claimed it will claim another rank.
    if (!before(rank, head_seen_)) {
      gaps_[gap_last_++ % cells_.cells()] = rank;
      limit_ = head_seen_ + std::min<rank_t>(limit_ - head_seen_ + 1, cells_.cells());
    }
    tail_.store(rank + 1, std::memory_order_relaxed);
    pass_over(rank);
    signal_rank(rank);
  }

  // Never moves gap_ backwards: after a constructor threw during close(), ranks that were withdrawn are used again.
  void pass_over(rank_t last) noexcept {
    // (2) release: pairs with (6). Every item before the gap is visible to every thread that sees the gap.
    if (before(gap_.load(std::memory_order_relaxed), last)) gap_.store(last, std::memory_order_release);
  }

  template <class... Args>
  MUSTER_HOT queue_status publish(place next, Args&&... args) {
    const rank_t rank = next.rank;
    cell& c = *next.at;
    if (!announce(rank, rank + 1)) [[unlikely]]
      return queue_status::closed;
    if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
      c.item.write_ref().construct(std::forward<Args>(args)...);
    } else {
      MUSTER_TRY { c.item.write_ref().construct(std::forward<Args>(args)...); }
      MUSTER_CATCH_ALL {
        announce(rank + 1, rank);
        MUSTER_RETHROW;
      }
    }
    // (3) release: pairs with (5). The item is complete before its consumer can see it.
    c.word.store(published(rank), std::memory_order_release);
    signal_rank(rank);
    return queue_status::success;
  }

  // Moves tail_ between two ranks. Returns false if close() has begun: it may have read either rank, so the ranks
  // between them become gaps.
  MUSTER_HOT bool announce(rank_t from, rank_t to) {
    tail_.store(to, std::memory_order_relaxed);
    if (consumers_.waiters_after_event(closing) == 0) [[likely]]
      return true;
    withdraw(std::max(from, to, before));
    return false;
  }

  MUSTER_COLD void withdraw(rank_t end) noexcept {
    pass_over(end - 1);
    if constexpr (Wait::parks)
      if (consumers_.waiters_after_event(eventcount::all_keys) != 0) consumers_.wake_all();
  }

  MUSTER_HOT void signal_rank(rank_t rank) noexcept {
    if constexpr (Wait::parks)
      if (const std::uint32_t sleepers = consumers_.waiters_after_event(); sleepers != 0) [[unlikely]]
        if (eventcount::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
  }

  // Calls after_run() after each batch of items, before waiting for room.
  template <class InputIt, class AfterRun>
  std::size_t push_up_to(InputIt first, std::size_t count, bool waits, AfterRun after_run) {
    const auto inside = producer_.enter(second_producer);
    std::size_t done = 0;
    while (done < count) {
      if (is_free(next_place()) || reserve() == queue_status::success) [[likely]] {
        const std::size_t run = publish_some(first, count - done, done != 0);
        after_run();
        done += run;
        if (run == 0) break;
        continue;
      }
      if (!waits || is_closed()) break;
      await_room(wait_limit{});
    }
    return done;
  }

  // Publishes items from rank tail_ on; reserve() has found its cell free. Returns how many; 0 if closed. A single-pass
  // iterator is incremented only on the next call (`again`), before anything is announced, because the increment may
  // wait or throw.
  template <class InputIt>
  std::size_t publish_some(InputIt& first, std::size_t count, bool again) {
    if constexpr (detail::is_multipass<InputIt>) {
      return publish_run(first, count, again);
    } else {
      // So no item is read and then dropped. waiters_after_event() also orders reserve()'s gaps, which may not have
      // been announced yet: a close() that is not seen here sees them.
      if (consumers_.waiters_after_event(closing) != 0) return 0;
      if (again) ++first;
      return publish(next_place(), *first) == queue_status::success ? 1 : 0;
    }
  }

  // Publishes into consecutive free cells. Leaves `first` at the last item.
  template <class ForwardIt>
  std::size_t publish_run(ForwardIt& first, std::size_t count, bool again) {
    const rank_t begin = tail_.load(std::memory_order_relaxed);
    const rank_t most =
        begin + std::min(std::min<rank_t>(count, limit_ - begin), std::min<rank_t>(cells_.cells(), longest_run));
    ForwardIt item = std::move(first);  // a local copy stays in a register; before announce(), as this may throw
    if (!announce(begin, most)) [[unlikely]]
      return 0;
    rank_t end = begin;
    const auto finish = [&] {
      if (consumers_.waiters_after_event() != 0) [[unlikely]]
        for (rank_t rank = begin; rank != end; ++rank) signal_rank(rank);
      if (end != most) announce(most, end);
    };
    MUSTER_TRY {
      while (end != most) {
        cell& c = cells_[end];
        if (c.word.load(std::memory_order_acquire) != 0) break;  // (1)
        if (again) ++item;
        again = true;
        c.item.write_ref().construct(*item);
        c.word.store(published(end), std::memory_order_release);  // (3)
        ++end;
      }
    }
    MUSTER_CATCH_ALL {
      finish();
      MUSTER_RETHROW;
    }
    finish();
    first = std::move(item);
    return end - begin;
  }

  // -----------------------------------------------------------------------------------------------------------
  // consumers

  rank_state look(rank_t rank) const noexcept {
    const cell& c = cells_[rank];
    // (5) acquire: pairs with (3).
    if (c.word.load(std::memory_order_acquire) == published(rank)) return rank_state::ready;
    if ((consumers_.flags() & closed) != 0 && !before(rank, end_.load(std::memory_order_relaxed)))
      return rank_state::end;
    // (6) acquire: pairs with (2).
    if (!before(gap_.load(std::memory_order_acquire), rank)) {
      // Relaxed: everything published before the gap is visible by (6).
      return c.word.load(std::memory_order_relaxed) == published(rank) ? rank_state::ready : rank_state::skipped;
    }
    return rank_state::unknown;
  }

  // Called after head_ has moved: wakes a producer that sleeps because the queue was full. It comes before taking the
  // item, so a consumer stopped while taking it delays no other thread.
  MUSTER_HOT void claimed() noexcept {
    if constexpr (Wait::parks)
      if (producers_.waiters_after_event() != 0) [[unlikely]]
        producers_.wake(room_key);
  }

  // Claims the next rank, whatever its state.
  MUSTER_HOT rank_t take_ticket() noexcept {
    // (9) release: pairs with (8). The item's visibility is (5).
    const rank_t rank = head_.fetch_add(1, std::memory_order_release);
    claimed();
    return rank;
  }

  MUSTER_COLD queue_result<T> pop_ticket(rank_t rank) {
    if (const queue_status status = await_ticket(rank); status != queue_status::success) return status;
    return take(rank);
  }

  // Waits until `rank` is resolved, and passes over gaps. Returns success, with the rank of an item, or closed.
  MUSTER_COLD queue_status await_ticket(rank_t& rank) {
    for (;;) {
      switch (look(rank)) {
        case rank_state::ready: return queue_status::success;
        case rank_state::end: return queue_status::closed;
        case rank_state::skipped:
          rank = head_.fetch_add(1, std::memory_order_relaxed);  // continues the release sequence of (9)
          claimed();
          break;
        case rank_state::unknown:
          consumers_.await<Wait>(key(rank), [&] { return look(rank) != rank_state::unknown; }, no_deadline);
          consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
      }
    }
  }

  std::size_t unclaimed() const noexcept {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const rank_t tail = ((consumers_.flags() & closed) != 0 ? end_ : tail_).load(std::memory_order_relaxed);
    return before(head, tail) ? tail - head : 0;
  }

  MUSTER_HOT queue_result<T> take(rank_t rank) {
    cell& c = cells_[rank];
    // (4) release: pairs with (1).
    return detail::take(c.item, [&c] { c.word.store(0, std::memory_order_release); });
  }

  template <class F>
  MUSTER_HOT void use(rank_t rank, F& f) {
    cell& c = cells_[rank];
    detail::use_in_place(c.item, f, [&c] { c.word.store(0, std::memory_order_release); });  // (4)
  }

  // Claims 1 to `most` consecutive resolved ranks from head_ on, including gaps. Returns success, closed, or empty if
  // rank `first` was not resolved.
  MUSTER_COLD queue_status claim_resolved(std::size_t most, rank_t& first, std::size_t& count) noexcept {
    for (;;) {
      first = head_.load(std::memory_order_relaxed);
      const rank_state first_look = look(first);
      if (first_look == rank_state::end) return queue_status::closed;
      if (first_look == rank_state::unknown) return queue_status::empty;
      // The producer resolves ranks in order: if a rank is resolved, so are all before it.
      count = std::min(most, cells_.cells());
      while (count > 1 && !resolved(first + count - 1)) count /= 2;
      rank_t head = first;
      // (9)
      if (head_.compare_exchange_strong(head, first + count, std::memory_order_release, std::memory_order_relaxed)) {
        claimed();
        return queue_status::success;
      }
      sync::relax();
    }
  }

  // As claim_resolved, but returns empty only if the queue had no item at one moment; otherwise busy.
  queue_status claim_exactly(std::size_t most, rank_t& first, std::size_t& count) noexcept {
    for (;;) {
      const queue_status claim = claim_resolved(most, first, count);
      if (claim != queue_status::empty) return claim;
      // (8) full_fence: pairs with (7), and as an acquire with (9): if the last item was taken after close(), no thread
      // finds the queue empty and open.
      sync::full_fence();
      // If close() has begun, either end_ is set and this rank is before it, or end_ is about to be set.
      const bool is_closing = (consumers_.flags() & closing) != 0;
      // If head_ has not moved, the queue had no item at the moment of the look.
      if (look(first) != rank_state::unknown || head_.load(std::memory_order_relaxed) != first) continue;
      return is_closing ? queue_status::busy : queue_status::empty;
    }
  }

  bool resolved(rank_t rank) const noexcept {
    // (5), (6)
    return cells_[rank].word.load(std::memory_order_acquire) == published(rank) ||
           !before(gap_.load(std::memory_order_acquire), rank);
  }

  // Exact: empty holds at one moment. Otherwise it means only that no item was seen, which is cheaper.
  template <bool Exact>
  queue_status claim(std::size_t most, rank_t& first, std::size_t& count) noexcept {
    if constexpr (Exact) return claim_exactly(most, first, count);
    return claim_resolved(most, first, count);
  }

  // Claims the first rank with an item.
  template <bool Exact>
  queue_status claim_item(rank_t& rank) noexcept {
    for (;;) {
      std::size_t count = 0;
      const queue_status status = claim<Exact>(1, rank, count);
      // A claimed rank without an item is a gap. Relaxed: look() made the resolved rank visible before the claim.
      if (status != queue_status::success || cells_[rank].word.load(std::memory_order_relaxed) == published(rank))
        return status;
    }
  }

  // Returns true if the item of `rank` is there.
  MUSTER_HOT bool is_there(rank_t rank) const noexcept {
    // (5)
    return cells_[rank].word.load(std::memory_order_acquire) == published(rank);
  }

  // Claims as above, but only if the first item is there and no other consumer claims it first.
  MUSTER_HOT bool claim_at_once(std::size_t most, rank_t& first, std::size_t& count) noexcept {
    first = head_.load(std::memory_order_relaxed);
    if (!is_there(first)) return false;
    count = std::min(most, cells_.cells());
    while (count > 1 && !is_there(first + count - 1)) count /= 2;
    rank_t head = first;
    // (9)
    if (!head_.compare_exchange_strong(head, first + count, std::memory_order_release, std::memory_order_relaxed))
      return false;
    claimed();
    return true;
  }

  MUSTER_HOT bool claim_at_once(rank_t& rank) noexcept {
    std::size_t count = 0;
    return claim_at_once(1, rank, count);
  }

  // Claims the first item. Returns success, empty, closed or busy.
  MUSTER_HOT queue_status try_claim(rank_t& rank) noexcept {
    if (claim_at_once(rank)) [[likely]]
      return queue_status::success;
    return claim_item<true>(rank);
  }

  MUSTER_COLD queue_result<T> try_pop_first() {
    rank_t rank = 0;
    const queue_status status = claim_item<true>(rank);
    if (status != queue_status::success) return status;
    return take(rank);
  }

  // Returns the state of the first unclaimed rank. An item pushed before the call is not missed: a thread that sees
  // the cell of a claimed rank freed by (4) also sees that head_ has moved.
  rank_state look_at_head() const noexcept {
    for (;;) {
      const rank_t head = head_.load(std::memory_order_relaxed);
      const rank_state seen = look(head);
      if (seen != rank_state::unknown || head_.load(std::memory_order_relaxed) == head) return seen;
    }
  }

  queue_result<T> pop_within(const wait_limit& limit) {
    for (;;) {
      queue_result<T> result = try_pop();
      if (result || result.status() == queue_status::closed) return result;
      if (limit.over() || !await_head(limit)) return result;
    }
  }

  template <class F>
  MUSTER_HOT queue_status consume_within(const wait_limit& limit, F& f) {
    rank_t rank = 0;
    queue_status claim = queue_status::success;
    if (limit.none()) {
      rank = take_ticket();
      if (!is_there(rank)) [[unlikely]]
        claim = await_ticket(rank);
    } else {
      claim = claim_within(limit, rank);
    }
    if (claim == queue_status::success) [[likely]]
      use(rank, f);
    return claim;
  }

  queue_status claim_within(const wait_limit& limit, rank_t& rank) {
    for (;;) {
      const queue_status claim = try_claim(rank);
      if (claim == queue_status::success || claim == queue_status::closed) return claim;
      if (limit.over() || !await_head(limit)) return claim;
    }
  }

  // How a consumer without a ticket waits: until the rank at head_ is resolved, or claimed by another thread.
  class pop_watch {
   public:
    using policy = Wait;
    explicit pop_watch(spmc_queue& queue, bool /*sleeps*/ = true) noexcept
        : queue_(queue), head_(queue.head_.load(std::memory_order_relaxed)) {}
    // look() comes first: if the rank's item has been taken, the load that sees the freed cell also makes the new head_
    // visible.
    bool ready() const noexcept {
      return queue_.look(head_) != rank_state::unknown || queue_.head_.load(std::memory_order_relaxed) != head_;
    }
    void before_sleep() noexcept {}
    std::uint32_t key() const noexcept { return spmc_queue::key(head_); }
    // A listener stays while head_ moves.
    std::uint32_t listen_bits() const noexcept { return eventcount::all_keys; }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(spmc_queue& queue) noexcept { return queue.consumers_; }

   private:
    spmc_queue& queue_;
    const rank_t head_;
  };

  // Returns false if the limit expired first.
  MUSTER_COLD bool await_head(wait_limit limit) {
    const pop_watch watch(*this);
    if (!limit.template await<Wait>(watch.events(), watch.key(), [&] { return watch.ready(); })) return false;
    consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
    return true;
  }

  template <bool Exact, class OutputIt>
  std::size_t take_up_to(OutputIt& out, std::size_t count, queue_status& status) {
    constexpr bool safe = detail::takes_without_throwing<T, OutputIt>;
    auto&& to = detail::local_copy(out);
    std::size_t taken = 0;
    while (taken < (safe ? 1 : count)) {
      rank_t first = 0;
      std::size_t run = 0;
      const std::size_t most = safe ? count : 1;
      if (!claim_at_once(most, first, run)) [[unlikely]]
        if (status = claim<Exact>(most, first, run); status != queue_status::success) break;
      taken += take_run(to, first, run);
    }
    detail::store_back(to, out);
    return taken;
  }

  // Takes the items of claimed ranks. Returns how many, as gaps have none.
  template <class OutputIt>
  MUSTER_HOT std::size_t take_run(OutputIt& out, rank_t first, std::size_t count) {
    std::size_t gaps = 0;
    for (rank_t rank = first; rank != first + count; ++rank) {
      cell& c = cells_[rank];
      // As in claim_item.
      if (c.word.load(std::memory_order_relaxed) == published(rank)) [[likely]]
        detail::take_to(c.item, out, [&c] { c.word.store(0, std::memory_order_release); });  // (4)
      else ++gaps;
    }
    return count - gaps;
  }

  // Read-only after construction.
  const ring<cell, Layout> cells_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see temporal_slip

  // The consumers' line: the next rank to claim. Changed by fetch-add and by compare-exchange.
  alignas(isolation_size) sync::atomic<rank_t> head_;
  temporal_slip consumer_slip_;

  // The producer's lines.
  // tail_: one past the last rank the producer began; ranks before it are or will be resolved. Other threads only read
  // it.
  alignas(isolation_size) sync::atomic<rank_t> tail_;
  rank_t head_seen_;                 // the last head_ seen
  rank_t limit_;                     // ranks before it fit: head_seen_ + capacity_ + the gaps after head_seen_
  detail::heap_array<rank_t> gaps_;  // those gaps, oldest first: gap_first_ … gap_last_ − 1, modulo the ring's size
  std::size_t gap_first_ = 0;
  std::size_t gap_last_ = 0;
  temporal_slip producer_slip_;
  detail::exclusive_use_check producer_;

  // Written rarely. consumers_, producers_: the sleepers; gap_: the last rank skipped; end_: the rank after the last.
  alignas(isolation_size) eventcount consumers_;
  eventcount producers_;
  sync::atomic<rank_t> gap_;
  sync::atomic<rank_t> end_;
};

}  // namespace muster::inline MUSTER_ABI
