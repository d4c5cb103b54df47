// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mpmc.hpp: bounded FIFO queue from many producers to many consumers.
//
// Order      linearizable FIFO over all producers. Overlapping operations may finish out of order.
// Progress   pop claims in one step, then waits for its item; push waits only for room. try_push, try_pop and close()
//            never wait for another thread; they are lock-free.
// Preempted  a consumer stopped between its claim and the store labelled (8) below holds the cells it claimed (pop_n:
//            up to its count), and producers skip them. If every cell is held, or the next cell that is not held is a
//            lap ahead of the first item, push waits although there is room, and try_push returns busy or full. A
//            producer stopped between taking its rank and (7) delays the consumer of that rank, and the pops that must
//            not pass that rank; other threads continue. If several pushes sleep for room, a pop wakes one of them. If
//            that one is stopped before it takes its rank, the others sleep until the next pop.
// Killed     as preempted, permanently: at most one cell is lost, or in pop_n at most its count of cells, with the
//            items in them. A pop that has claimed the rank of a dead producer never returns.
// Memory     capacity + threads cells, rounded up to a power of two, at least 16; a cell is an item and two words.
//            Besides, up to 64 words. Nothing is allocated after construction.
// Cost       push: O(1), two read-modify-writes, on the tail and the cell; in try_push, and in a queue that is nearly
//            full, the first is repeated if another producer is faster. A held cell costs three more. pop, consume: one
//            fetch-add, and one for each skipped rank. try_pop, timed pops, and pop_n for a run: one compare-exchange,
//            repeated likewise or if another consumer is faster. Waking and waiting: see base/wait.hpp.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc or what an allocator throws. An exception
//            from T's constructor propagates from push, and no item is added. One from T's move propagates from pop,
//            and one from f propagates from consume(f); the item is then lost.
// Use it     when one strict order over several producers matters. One producer: spmc_queue is faster.
// Source     FFQ^m: Arnautov, Felber, Fetzer, Trach, "FFQ: A Fast Single-Producer/Multiple-Consumer Concurrent FIFO
//            Queue", IPDPS 2017, Algorithm 2, with the authors' erratum. Changed (reasons below): the double-word
//            compare-and-set is one of a single word, followed by a second look at the gap; a full queue makes no gaps;
//            a constructor that throws makes one; close() is new.
//
// A producer takes its rank in one step on tail, as in the paper: by fetch-add while there is room for all threads, by
// compare-exchange when the queue is nearly full, so that no producer takes a rank without room. But a thread that is
// suspended before its fetch-add, while others fill the queue, then takes a rank without room. It waits until its rank
// has room, as a pop waits for its item; so only a push without a time limit takes its rank by fetch-add. (It must not
// abandon the rank: once others have taken later ranks, the abandoned rank would be a gap, and this gap would use up
// the place that the next pop frees.)
// The thread that takes a rank must resolve it. For rank r with cell c, the word of c is one of:
//   1. free, for an earlier rank: the producer writes written(r) (1), then reads whether any rank from r on is a gap
//      (2) and, if so, gap(c) (14). If gap(c) < r, it owns the cell until it publishes. If gap(c) >= r, a rank of a
//      later lap is a gap in this cell, and the consumer of r may have moved on. So the producer frees the cell and
//      takes another rank.
//   2. of a later rank: the producer is a lap late. It raises gap(c) to r (3), so that the consumer of r moves on, and
//      takes another rank.
//   3. in use for an earlier rank: a consumer is still reading the item, or a late producer is still writing it. The
//      producer does as in case 2.
// A gap takes no room: a queue with n gaps has room for n more ranks, while there are cells (fits_beside_gaps).
// A consumer that claimed rank r waits until
//   1. c.word = published(r): the item is its own;
//   2. gap(c) >= r, and c.word, read after the gap, is neither published(r) nor written(r): no item will have rank r,
//      so the consumer claims the next rank;
//   3. the queue is closed and r >= end_: no item will have rank r or a later one.
// The paper reads and writes word and gap together, by a double-word compare-and-set. Here the producer writes the word
// (1) and then reads the gap (14), while the consumer reads the gap (5) and then the word (6); all four are
// sequentially consistent. If (14) comes before (5), (6) sees the word; otherwise (14) sees the gap that (5) saw. Both
// may happen: then the producer frees the cell, and the consumer, which saw written(r), waits for that. Almost always
// (2) shows that there is no gap to read: the thread that makes a gap first raises gaps_end_ (13), and then gap(c). If
// (2) comes before (13), it comes before (5) too.
//
// When close() overlaps a push: the push takes its rank, then checks the flag; close() raises the flag, then reads
// tail, which becomes the end. So the push sees the flag, or close() sees its rank. If both happen, the push turns its
// rank into a gap. A rank that a push keeps is before the end, and every rank before the end is resolved.
#pragma once

#include <muster/base/arch.hpp>                    // prefetch_for_write
#include <muster/base/detail/eventcount.hpp>       // eventcount
#include <muster/base/detail/heap_array.hpp>       // heap_array
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/detail/temporal_slip.hpp>    // temporal_slip
#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/queue/detail/item_access.hpp>     // take
#include <muster/queue/detail/operations.hpp>      // queue_operations, wait_limit
#include <muster/queue/detail/ring.hpp>            // ring, rank_t
#include <muster/queue/options.hpp>                // queue_options, layout

#include <cstddef>  // std::size_t

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class mpmc_queue : public queue_operations<mpmc_queue<T, Layout, Wait>, T> {
  using operations = queue_operations<mpmc_queue, T>;
  friend push_operations<mpmc_queue, T>;
  friend pop_operations<mpmc_queue, T>;
  friend consume_operations<mpmc_queue, T>;
  friend detail::watch_access;

 public:
  /// Holds up to `capacity` items. `memory`: an allocator of any type, or a std::pmr::memory_resource*. Throws
  /// std::invalid_argument, whose message names a valid value.
  explicit mpmc_queue(std::size_t capacity, queue_options options = {}, const memory_source& memory = {})
      : cells_(memory,
               detail::ring_cells("mpmc_queue", capacity, options, options.threads, ring<cell, Layout>::cell_size)),
        cell_gaps_(memory, cells_.cells()),
        capacity_(capacity),
        slip_(std::min<std::size_t>(capacity / 4, 1024)),
        spare_(step * options.threads),
        loose_(spare_ + step * std::min(slip_ / 4, (std::max(capacity, options.threads) - options.threads) / 2)),
        head_(options.first_rank * step),
        tail_(options.first_rank * step),
        head_seen_(options.first_rank * step),
        tight_(capacity <= options.threads),
        gaps_end_(options.first_rank * step),
        gap_count_(std::min<std::size_t>(cells_.cells() - capacity, 64)),
        gaps_(memory, gap_count_),
        end_(options.first_rank * step) {
    // As if the ranks of the previous lap had been pushed and popped.
    for (rank_t i = 1; i <= cells_.cells(); ++i) {
      const rank_t rank = (options.first_rank - i) * step;
      at(rank).word.store(free(rank), std::memory_order_relaxed);
      gap_at(rank).store(rank, std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < gap_count_; ++i)
      gaps_[i].store((options.first_rank - 1) * step, std::memory_order_relaxed);
  }

  /// Destroys the remaining items. No thread may be inside an operation.
  ~mpmc_queue() {
    for (std::size_t i = 0; i < cells_.cells(); ++i) {
      cell& c = cells_.at(i);
      const rank_t word = c.word.load(std::memory_order_relaxed);
      if (word == published(rank_of(word))) c.item.write_ref().destroy();
    }
  }

  using operations::pop;  // and push, emplace, push_for, pop_for, consume and others: see detail/operations.hpp

  /// Constructs an item at the end if there is room now. Returns success, full or closed; busy if stopped threads hold
  /// every cell. Places taken by pushes in progress count as items. Lock-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args) {
    const place mine = claim_place(false);
    if (mine.status == queue_status::success) [[likely]]
      publish(mine.rank, std::forward<Args>(args)...);
    return mine.status;
  }

  /// Takes the first item; waits while there is none. Returns no value only when closed and drained.
  MUSTER_HOT queue_result<T> pop() {
    const rank_t rank = take_ticket();
    if (is_there(rank)) [[likely]]
      return take(rank);
    return pop_ticket(rank);
  }

  /// Takes the first item if there is one. Returns the item, empty or closed; busy while the first item is being
  /// written, or while close() or a push that it refuses is in progress. Lock-free.
  MUSTER_HOT queue_result<T> try_pop() {
    if (rank_t rank = 0; claim_at_once(rank)) [[likely]]
      return take(rank);
    return try_pop_first();
  }

  /// Like consume, but does not wait for an item. Returns success, empty, closed or busy, like try_pop. Lock-free,
  /// except for f. While f runs, the item does not count towards the capacity, and its cell counts as held by a stopped
  /// consumer. f may use this queue.
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
      const std::size_t taken = count == 0 ? 0 : take_up_to(out, count, status);
      if (taken != 0 || count == 0 || status == queue_status::closed) return taken;
      await_head(wait_limit{});
    }
  }

  /// As pop_n, without waiting. Lock-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    std::size_t taken = 0;
    queue_status status = queue_status::success;
    while (taken < count && status == queue_status::success) taken += take_up_to(out, count - taken, status);
    return taken;
  }

  /// Refuses further pushes and wakes all waiters. Remaining items can still be popped. Any thread may call it, any
  /// number of times.
  void close() {
    if (!consumers_.raise(closing)) return;
    if (producers_.waiters_after_event() != 0) producers_.wake_all();
    // Relaxed: raise() has made the ranks of pushes that missed the flag visible.
    end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    consumers_.raise(closed);
  }

  /// Returns true if a close() has begun.
  bool is_closed() const noexcept { return (consumers_.flags() & closing) != 0; }
  /// The most items that it holds, as given to the constructor.
  std::size_t capacity() const noexcept { return capacity_; }
  /// The number of items at some recent moment, including pushes in progress and gaps.
  std::size_t size_approx() const noexcept { return std::min(unclaimed(), capacity_); }

  /// Asserts the invariants. No thread may be inside an operation.
  void check() const {
    rank_t rank = head_.load(std::memory_order_relaxed);
    std::size_t items = 0;
    rank_state seen = look(rank);
    for (; is_resolved(seen); rank += step, seen = look(rank)) items += seen == rank_state::ready;
    MUSTER_CHECK(seen == rank_state::end ||
                     (seen == rank_state::unclaimed && !before(rank, tail_.load(std::memory_order_relaxed))),
                 "mpmc_queue: a rank is taken and never resolved");
    MUSTER_CHECK(items <= capacity_, "mpmc_queue: more items than the capacity");
    std::size_t full = 0;
    for (std::size_t i = 0; i < cells_.cells(); ++i) {
      const rank_t word = cells_.at(i).word.load(std::memory_order_relaxed);
      full += word == published(rank_of(word));
    }
    MUSTER_CHECK(items == full, "mpmc_queue: a cell holds an item that no pop would find");
  }

 private:
  // Ranks advance by four. The low bits of a cell's word hold the state of the rank in the other bits.
  static constexpr rank_t step = 4;
  static constexpr rank_t free(rank_t rank) noexcept { return rank; }         // this rank and earlier ones are finished
  static constexpr rank_t written(rank_t rank) noexcept { return rank | 1; }  // claimed; its producer owns `item`
  static constexpr rank_t published(rank_t rank) noexcept { return rank | 2; }  // its consumer owns `item`
  static constexpr rank_t rank_of(rank_t word) noexcept { return word & ~rank_t{3}; }
  static constexpr bool is_free(rank_t word) noexcept { return (word & 3) == 0; }

  // word: as above; its rank only grows.
  struct cell {
    sync::atomic<rank_t> word{0};
    sync::cell<manual_lifetime<T>> item;
  };

  // The producer of the first rank of a line fetches the next line, because (1) waits for its line.
  static constexpr rank_t per_line = ring<cell, Layout>::ranks_per_line;

  static constexpr std::uint32_t closing = eventcount::flag(0);  // no push may keep a rank
  static constexpr std::uint32_t closed = eventcount::flag(1);   // end_ holds the end
  static constexpr std::uint32_t room_key = 0;                   // producers sleep for room
  static constexpr std::uint32_t cell_key = 1;                   // never signalled; see await_cell()
  static constexpr std::uint32_t own_key = 2;                    // a producer with a rank sleeps for its room
  // Consumers without a claim sleep for this key: ranks can be published in any order, so any may be the next.
  static constexpr std::uint32_t head_key = eventcount::keys - 1;
  static constexpr std::uint32_t key(rank_t rank) noexcept { return static_cast<std::uint32_t>(rank / step); }

  sync::atomic<rank_t>& gap_at(rank_t rank) const noexcept { return cell_gaps_[rank / step]; }
  cell& at(rank_t rank) const noexcept { return cells_[rank / step]; }
  rank_t room_end(rank_t head) const noexcept { return head + step * capacity_; }

  struct place {
    queue_status status;
    rank_t rank;
  };

  enum class rank_state { ready, skipped, end, writing, unclaimed };
  static bool is_resolved(rank_state seen) noexcept { return seen == rank_state::ready || seen == rank_state::skipped; }
  static bool must_wait(rank_state seen) noexcept {
    return seen == rank_state::writing || seen == rank_state::unclaimed;
  }

  // --------------------------------------------------------------------------------------------------------- producers

  // Takes a rank and its cell. Returns success, or why there is none. Waits only if `for_ever`: for the room of a rank
  // that it has taken; and briefly if the queue is nearly full, because there every push would have to read head_,
  // which every pop writes.
  MUSTER_HOT place claim_place(bool for_ever) {
    if (rank_t rank = 0; !is_closed() && !tight_.load(std::memory_order_relaxed) && take_rank(rank, for_ever) &&
                         claim(rank) && may_keep(rank)) [[likely]]
      return {queue_status::success, rank};
    if (for_ever && step * slip_ > loose_ && tight_.load(std::memory_order_relaxed) && !is_closed()) slip();
    return claim_place_slowly(for_ever);
  }

  MUSTER_COLD place claim_place_slowly(bool for_ever) {
    for (std::size_t gaps = 0; gaps <= cells_.cells(); ++gaps) {
      if (is_closed()) return {queue_status::closed, 0};
      rank_t rank = 0;
      if (!(for_ever && !tight_.load(std::memory_order_relaxed) ? take_rank(rank, true) : take_rank_with_room(rank)))
        return {is_closed() ? queue_status::closed : queue_status::full, 0};
      if (claim(rank) && may_keep(rank)) return {queue_status::success, rank};
    }
    return {queue_status::busy, 0};
  }

  // Takes the rank at tail_ in one step, and returns true; the caller must then resolve it. Returns false if there was
  // no room, if another thread took the rank first, or if the queue was closed during the wait.
  MUSTER_HOT bool take_rank(rank_t& rank, bool for_ever) {
    if (for_ever) {
      // (9) release: pairs with (12). A producer that finds a later tail also sees the pops that earlier producers saw,
      // so it does not report full for places that were already free.
      rank = tail_.fetch_add(step, std::memory_order_release);
      return knows_room(rank + spare_) || await_own_room(rank);
    }
    rank = tail_.load(std::memory_order_relaxed);
    if (!knows_room(rank)) return false;
    rank_t tail = rank;
    // (9)
    return tail_.compare_exchange_strong(tail, rank + step, std::memory_order_release, std::memory_order_relaxed);
  }

  // As take_rank, but retries until there is no room.
  bool take_rank_with_room(rank_t& rank) {
    // (12) acquire and release: pairs with (9).
    rank = tail_.load(std::memory_order_acquire);
    do {
      if (!has_room(rank)) return false;
      // (12)
    } while (!tail_.compare_exchange_weak(rank, rank + step, std::memory_order_release, std::memory_order_acquire));
    if (before(rank + loose_, room_end(head_seen_.load(std::memory_order_relaxed))))
      tight_.store(false, std::memory_order_relaxed);
    return true;
  }

  // Waits for the room of a rank already taken. Returns false if the queue is closed; the rank is then a gap.
  MUSTER_COLD bool await_own_room(rank_t rank) {
    if (has_room(rank + loose_)) [[likely]]
      return true;
    tight_.store(true, std::memory_order_relaxed);
    if (has_room(rank)) return true;
    producers_.await<Wait>(own_key, [&] { return has_room(rank) || is_closed(); }, no_deadline);
    if (!is_closed()) return true;
    make_gap(rank);
    return false;
  }

  // Takes the cell of a rank already taken. Returns false if the rank is a gap.
  MUSTER_HOT bool claim(rank_t rank) noexcept {
    cell& c = at(rank);
    if (rank / step % per_line == 0) muster::prefetch_for_write(&at(rank + step * per_line));
    // The word has this value unless a thread was a lap late. Guessing it avoids a load, so the line is fetched only
    // once, for writing.
    rank_t word = free(rank - step * cells_.cells());
    // (1) seq_cst: pairs with (6) and, as an acquire, with (8). The consumer has moved the old item out.
    if (!c.word.compare_exchange_strong(word, written(rank), std::memory_order_seq_cst, std::memory_order_relaxed))
        [[unlikely]]
      if (!claim_late(rank, word)) return false;
    // (2) seq_cst: pairs with (13). Must be neither weakened nor omitted: see the top of the file.
    if (!before(rank, gaps_end_.load(std::memory_order_seq_cst))) [[likely]]
      return true;
    return claim_among_gaps(rank);
  }

  // The last part of claim(), if some later rank may be a gap. Returns false if that gap may be in the same cell.
  MUSTER_COLD bool claim_among_gaps(rank_t rank) noexcept {
    // (14) seq_cst: pairs with (5). As (2), for this cell.
    if (before(gap_at(rank).load(std::memory_order_seq_cst), rank)) return true;
    give_back(rank);
    return false;
  }

  // As claim(), if the cell's word is `word` and not that of the previous lap.
  MUSTER_COLD bool claim_late(rank_t rank, rank_t word) noexcept {
    while (is_free(word) && before(word, rank)) {
      // (1)
      if (at(rank).word.compare_exchange_strong(word, written(rank), std::memory_order_seq_cst,
                                                std::memory_order_relaxed))
        return true;
    }
    make_gap(rank);
    return false;
  }

  // Returns true if a claimed rank may have an item. Returns false if close() has begun; the rank is then a gap.
  MUSTER_HOT bool may_keep(rank_t rank) noexcept {
    if (consumers_.waiters_after_event(closing) == 0) [[likely]]
      return true;
    make_gap(rank);
    give_back(rank);
    return false;
  }

  // Signals that there may be room now.
  void signal_room() noexcept {
    if constexpr (Wait::parks)
      if (const std::uint32_t sleepers = producers_.waiters_after_event(); sleepers != 0) [[unlikely]] {
        if (eventcount::wakes(sleepers, room_key)) producers_.wake_one(room_key);
        if (eventcount::wakes(sleepers, own_key)) producers_.wake(own_key);
      }
  }

  // Returns true if an item of this rank fits, judging by head_seen_.
  MUSTER_HOT bool knows_room(rank_t rank) const noexcept {
    // Relaxed: any value that head_ has had is a valid bound, so two threads that store may also move head_seen_ back.
    return before(rank, room_end(head_seen_.load(std::memory_order_relaxed)));
  }

  // Returns true if an item of this rank fits. Reads head_ only if head_seen_ does not suffice.
  bool has_room(rank_t rank) noexcept {
    if (knows_room(rank)) return true;
    rank_t head = head_.load(std::memory_order_relaxed);
    // There may be no consumer to claim the gaps at the front, so a producer that finds no room claims them.
    while (!before(rank, room_end(head)) && look(head) == rank_state::skipped)
      if (head_.compare_exchange_strong(head, head + step, std::memory_order_relaxed)) {
        claimed(1);
        head += step;
      }
    head_seen_.store(head, std::memory_order_relaxed);
    return before(rank, room_end(head)) || fits_beside_gaps(rank, head);
  }

  std::size_t free_places() noexcept {
    const rank_t tail = tail_.load(std::memory_order_relaxed);
    if (!has_room(tail)) return 0;
    const rank_t head = head_.load(std::memory_order_relaxed);
    head_seen_.store(head, std::memory_order_relaxed);  // so that the next push after a slip knows all the room
    const rank_t end = room_end(head);
    return before(tail, end) ? (end - tail) / step : 0;
  }

  // How a producer waits for room, or for close().
  class push_watch {
   public:
    using policy = Wait;
    explicit push_watch(mpmc_queue& queue) noexcept : queue_(queue) {}
    bool ready() const noexcept {
      return queue_.has_room(queue_.tail_.load(std::memory_order_relaxed)) || queue_.is_closed();
    }
    void before_sleep() noexcept {}
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(room_key); }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(mpmc_queue& queue) noexcept { return queue.producers_; }

   private:
    mpmc_queue& queue_;
  };

  // Waits for room or for close(). Returns false if the limit expired first.
  MUSTER_COLD bool await_room(wait_limit limit) {
    const auto ready = [this] { return has_room(tail_.load(std::memory_order_relaxed)) || is_closed(); };
    if (!limit.template await<Wait>(producers_, room_key, ready)) return false;
    slip();
    return true;
  }

  void slip() noexcept {
    producer_slip_.after_wait(slip_, [this] { return free_places(); });
  }

  // Polls while stopped threads hold every cell, because freeing a cell does not signal cell_key. Returns false if the
  // limit expired.
  MUSTER_COLD bool await_cell(wait_limit limit) {
    const auto ready = [this] {
      const rank_t rank = tail_.load(std::memory_order_relaxed);
      return is_free(at(rank).word.load(std::memory_order_relaxed)) || is_closed();
    };
    return limit.template poll<Wait>(producers_, cell_key, ready);
  }

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args) {
    place mine = claim_place(limit.none());
    if (mine.status != queue_status::success) [[unlikely]]
      mine = await_place(mine.status, limit);
    if (mine.status == queue_status::success) [[likely]]
      publish(mine.rank, std::forward<Args>(args)...);
    return mine.status;
  }

  // Called after claim_place() failed.
  MUSTER_COLD place await_place(queue_status why, wait_limit limit) {
    while (why != queue_status::closed && !limit.over() &&
           (why == queue_status::full ? await_room(limit) : await_cell(limit))) {
      if (const place mine = claim_place_slowly(limit.none()); mine.status == queue_status::success) return mine;
      else why = mine.status;
    }
    return {why, 0};
  }

  // Writes the item of a claimed rank.
  template <class... Args>
  MUSTER_HOT void publish(rank_t rank, Args&&... args) {
    cell& c = at(rank);
    if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
      c.item.write_ref().construct(std::forward<Args>(args)...);
    } else {
      MUSTER_TRY { c.item.write_ref().construct(std::forward<Args>(args)...); }
      MUSTER_CATCH_ALL {
        make_gap(rank);
        give_back(rank);
        MUSTER_RETHROW;
      }
    }
    // (7) release: pairs with (4). The item is complete before its consumer can see it.
    c.word.store(published(rank), std::memory_order_release);
    signal_rank(rank);
  }

  MUSTER_HOT void signal_rank(rank_t rank) noexcept {
    if constexpr (Wait::parks)
      if (const std::uint32_t sleepers = consumers_.waiters_after_event(); sleepers != 0) [[unlikely]]
        wake_for(rank, sleepers);
  }

  MUSTER_COLD void wake_for(rank_t rank, std::uint32_t sleepers) noexcept {
    if (eventcount::wakes(sleepers, key(rank))) consumers_.wake(key(rank));
    if (eventcount::wakes(sleepers, head_key)) consumers_.wake(head_key);
  }

  // -------------------------------------------------------------------------------------------------------------- gaps

  // Ensures that no item will have this rank, unless its producer is already writing it.
  MUSTER_COLD void make_gap(rank_t rank) noexcept {
    // (13) seq_cst: pairs with (2). Comes before (3), so that a producer which misses it has written its word before a
    // consumer can see the gap.
    rank_t end = gaps_end_.load(std::memory_order_seq_cst);
    while (!before(rank, end)) {
      // (13)
      if (gaps_end_.compare_exchange_weak(end, rank + step, std::memory_order_seq_cst, std::memory_order_seq_cst))
        break;
    }
    sync::atomic<rank_t>& gap = gap_at(rank);
    rank_t known = gap.load(std::memory_order_relaxed);
    while (before(known, rank)) {
      // (3) release: pairs with (5). If a consumer sees the gap, (13) comes before its (6).
      if (gap.compare_exchange_weak(known, rank, std::memory_order_release, std::memory_order_relaxed)) break;
    }
    gaps_[gaps_made_.fetch_add(1, std::memory_order_relaxed) % gap_count_].store(rank, std::memory_order_relaxed);
    signal_rank(rank);
    signal_room();  // a gap takes no room
  }

  // Frees the cell of a claimed rank that is a gap.
  MUSTER_COLD void give_back(rank_t rank) noexcept {
    at(rank).word.store(free(rank), std::memory_order_release);  // (8)
    signal_rank(rank);
    signal_room();
  }

  // Returns true if an item of this rank fits because some earlier ranks are gaps. `head`: a value that head_ has had.
  MUSTER_COLD bool fits_beside_gaps(rank_t rank, rank_t head) const noexcept {
    // All relaxed: a gap not yet seen counts as an item, and the thread that made it wakes the sleepers.
    if (!before(head, gaps_end_.load(std::memory_order_relaxed))) [[likely]]
      return false;
    rank_t end = room_end(head);
    for (std::size_t i = 0; i < gap_count_; ++i) {
      const rank_t gap = gaps_[i].load(std::memory_order_relaxed);
      if (!before(gap, head) && before(gap, rank)) end += step;
    }
    return before(rank, end) && before(rank, head + step * cells_.cells());
  }

  // --------------------------------------------------------------------------------------------------------- consumers

  rank_state look(rank_t rank) const noexcept {
    const cell& c = at(rank);
    // (4) acquire: pairs with (7).
    rank_t word = c.word.load(std::memory_order_acquire);
    if (word == published(rank)) return rank_state::ready;
    // (5) seq_cst: pairs with (14) and, as an acquire, with (3).
    if (!before(gap_at(rank).load(std::memory_order_seq_cst), rank)) {
      // (6) seq_cst: pairs with (1). An acquire is not enough: see the top.
      word = c.word.load(std::memory_order_seq_cst);
      if (word == published(rank)) return rank_state::ready;
      return word == written(rank) ? rank_state::writing : rank_state::skipped;
    }
    if ((consumers_.flags() & closed) != 0 && !before(rank, end_.load(std::memory_order_relaxed)))
      return rank_state::end;
    return before(rank_of(word), rank) ? rank_state::unclaimed : rank_state::writing;
  }

  // Called after head_ has moved by `ranks`: that many producers now have room, and some may be asleep.
  MUSTER_HOT void claimed(std::size_t ranks) noexcept {
    if constexpr (Wait::parks)
      for (; ranks != 0 && producers_.waiters_after_event() != 0; --ranks) [[unlikely]]
        signal_room();
  }

  std::size_t unclaimed() const noexcept {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const rank_t tail = ((consumers_.flags() & closed) != 0 ? end_ : tail_).load(std::memory_order_relaxed);
    return before(head, tail) ? (tail - head) / step : 0;
  }

  // Claims the next rank, whatever its state.
  MUSTER_HOT rank_t take_ticket() noexcept {
    // (10) release: pairs with (11). The item's visibility is (4).
    const rank_t rank = head_.fetch_add(step, std::memory_order_release);
    claimed(1);
    return rank;
  }

  // Returns true if the item of `rank` is there.
  MUSTER_HOT bool is_there(rank_t rank) const noexcept {
    // (4)
    return at(rank).word.load(std::memory_order_acquire) == published(rank);
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
          rank = head_.fetch_add(step, std::memory_order_relaxed);  // continues the release sequence of (10)
          claimed(1);
          break;
        case rank_state::writing:
        case rank_state::unclaimed:
          tell_of_head();
          consumers_.await<Wait>(key(rank), [&] { return !must_wait(look(rank)); }, no_deadline);
          consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
      }
    }
  }

  // Called after claiming an unresolved rank: consumers that wait without a claim must check the next rank. It may have
  // been published already, and then no push signals it.
  void tell_of_head() noexcept {
    if constexpr (Wait::parks)
      if (consumers_.waiters_after_event(eventcount::bit(head_key)) != 0) consumers_.wake(head_key);
  }

  MUSTER_HOT queue_result<T> take(rank_t rank) {
    cell& c = at(rank);
    // (8) release: pairs with (1).
    return detail::take(c.item, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });
  }

  template <class F>
  MUSTER_HOT void use(rank_t rank, F& f) {
    cell& c = at(rank);
    // (8)
    detail::use_in_place(c.item, f, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });
  }

  // Claims 1 to `most` consecutive resolved ranks from head_ on, including gaps. Returns success, or why there are
  // none.
  queue_status claim_up_to(std::size_t most, rank_t& first, std::size_t& count) noexcept {
    for (;;) {
      // (11) acquire: pairs with (10). If the thread that took the last item had seen close(), no thread that sees its
      // claim finds the queue empty and open.
      rank_t head = head_.load(std::memory_order_acquire);
      const rank_state first_look = look(head);
      if (first_look == rank_state::end) return queue_status::closed;
      if (must_wait(first_look)) {
        // If no push has taken this rank and close() has not begun, the queue is empty.
        const bool taken = before(head, tail_.load(std::memory_order_relaxed));
        if (!taken && (consumers_.flags() & closing) == 0) return queue_status::empty;
        // If head_ has not moved, its rank was the first at the moment of the look.
        if (head_.load(std::memory_order_relaxed) != head) continue;
        // If no push has taken the rank, it may be the end of the queue, which close() may have stored by now.
        if (taken || must_wait(look(head))) return queue_status::busy;
        continue;
      }
      // Ranks are resolved in any order, so each must be checked.
      std::size_t run = 1;
      while (run < most && is_resolved(look(head + run * step))) ++run;
      // (10)
      if (head_.compare_exchange_strong(head, head + run * step, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        claimed(run);
        first = head;
        count = run;
        return queue_status::success;
      }
      sync::relax();
    }
  }

  // Claims the first rank if its item is there and no other consumer claims it first.
  MUSTER_HOT bool claim_at_once(rank_t& rank) noexcept {
    const rank_t first = head_.load(std::memory_order_relaxed);
    rank_t head = first;
    // (10)
    if (!is_there(first) ||
        !head_.compare_exchange_strong(head, first + step, std::memory_order_release, std::memory_order_relaxed))
      return false;
    claimed(1);
    rank = first;
    return true;
  }

  // Claims the first rank with an item. Returns success, empty, closed or busy.
  MUSTER_COLD queue_status claim_item(rank_t& rank) noexcept {
    for (;;) {
      std::size_t count = 0;
      const queue_status claim = claim_up_to(1, rank, count);
      // A claimed rank without an item is a gap. Relaxed: look() made the resolved rank visible before the claim.
      if (claim != queue_status::success || at(rank).word.load(std::memory_order_relaxed) == published(rank))
        return claim;
    }
  }

  // As claim_item, but the usual case is inlined.
  MUSTER_HOT queue_status try_claim(rank_t& rank) noexcept {
    if (claim_at_once(rank)) [[likely]]
      return queue_status::success;
    return claim_item(rank);
  }

  MUSTER_COLD queue_result<T> try_pop_first() {
    rank_t rank = 0;
    if (const queue_status claim = claim_item(rank); claim != queue_status::success) return claim;
    return take(rank);
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
    explicit pop_watch(mpmc_queue& queue, bool /*sleeps*/ = true) noexcept
        : queue_(queue), head_(queue.head_.load(std::memory_order_relaxed)) {}
    // look() comes first: if the rank's item has been taken, the load that sees the freed cell also makes the new head_
    // visible.
    bool ready() const noexcept {
      return !must_wait(queue_.look(head_)) || queue_.head_.load(std::memory_order_relaxed) != head_;
    }
    void before_sleep() noexcept {}
    std::uint32_t key() const noexcept { return head_key; }
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(head_key); }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(mpmc_queue& queue) noexcept { return queue.consumers_; }

   private:
    mpmc_queue& queue_;
    const rank_t head_;
  };

  // Returns false if the limit expired first.
  MUSTER_COLD bool await_head(wait_limit limit) {
    const pop_watch watch(*this);
    if (!limit.template await<Wait>(watch.events(), watch.key(), [&] { return watch.ready(); })) return false;
    consumer_slip_.after_wait(slip_, [this] { return unclaimed(); });
    return true;
  }

  template <class OutputIt>
  std::size_t take_up_to(OutputIt& out, std::size_t count, queue_status& status) {
    constexpr bool safe = detail::takes_without_throwing<T, OutputIt>;
    auto&& to = detail::local_copy(out);
    std::size_t taken = 0;
    while (taken < (safe ? 1 : count)) {
      rank_t first = 0;
      std::size_t run = 0;
      status = claim_up_to(safe ? std::min(count, cells_.cells()) : 1, first, run);
      if (status != queue_status::success) break;
      for (rank_t rank = first; rank != first + run * step; rank += step) {
        cell& c = at(rank);
        // As in claim_item.
        if (c.word.load(std::memory_order_relaxed) != published(rank)) continue;
        // (8)
        detail::take_to(c.item, to, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });
        ++taken;
      }
    }
    detail::store_back(to, out);
    return taken;
  }

  // Read-only after construction.
  const ring<cell, Layout> cells_;
  // The gap of each cell: every rank of the cell up to it has been claimed or will have no item. It only grows. The
  // gaps are not in the cells: together with a small item and its word, a cell would have three words, and a quarter of
  // the cells would lie in two lines.
  const ring<sync::atomic<rank_t>, layout::packed> cell_gaps_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see temporal_slip
  const rank_t spare_;      // ranks for all threads
  const rank_t loose_;      // room required for taking ranks by fetch-add

  // The consumers' line: the next rank to claim.
  alignas(isolation_size) sync::atomic<rank_t> head_;
  temporal_slip consumer_slip_;

  // The producers' line: the next rank to take. Every earlier rank belongs to a producer or is resolved.
  alignas(isolation_size) sync::atomic<rank_t> tail_;

  // The producers' hints, which may be stale. head_seen_: a value that head_ has had. tight_: there may not be room for
  // all threads. If it is wrongly false, a push takes a rank and waits for the room.
  alignas(isolation_size) sync::atomic<rank_t> head_seen_;
  sync::atomic<bool> tight_;
  // After every gap: raised before the gap is made.
  sync::atomic<rank_t> gaps_end_;
  temporal_slip producer_slip_;

  // The latest gaps, each rank once. Gaps beyond gap_count_ take room.
  const std::size_t gap_count_;
  const detail::heap_array<sync::atomic<rank_t>> gaps_;
  sync::atomic<std::size_t> gaps_made_{0};

  // Written rarely: the sleepers, and the rank after the last.
  alignas(isolation_size) eventcount consumers_;
  eventcount producers_;
  sync::atomic<rank_t> end_;
};

}  // namespace muster::inline MUSTER_ABI
