// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spsc.hpp: bounded FIFO queue from one producer to one consumer.
//
// Order      linearizable FIFO.
// Progress   try_push and try_pop are wait-free; push waits only while the queue is full, pop only while it is empty.
// Preempted  a stopped side blocks the other only once the queue is full or empty.
// Killed     as preempted; an item that was being written or read is lost with its thread.
// Memory     capacity cells, rounded up to a power of two; nothing is allocated after construction.
// Cost       push, pop and their forms: O(1), without a read-modify-write; a full fence if try_push finds no room, or
//            try_pop no item. push_n shows a run of up to 256 items by one store, unless the iterator is single-pass;
//            pop_n frees the cells of all that it takes by one. Construction: O(cells). Waking and waiting: see
//            base/wait.hpp.
// Errors     the constructor throws std::invalid_argument, std::bad_alloc or what an allocator throws. If T's
//            constructor throws, push rethrows and the queue is unchanged. If T's move throws, pop rethrows and that
//            item is lost; consume(f) if f throws.
// Use it     between two threads. More consumers: spmc_queue. More producers: mpmc_queue.
// Source     Lamport, "Specifying Concurrent Program Modules", TOPLAS 1983, with the bounds cached by both sides
//            (MCRingBuffer: Lee, Bu, Chandranmenon, IPDPS 2010). With one consumer, FFQ needs neither gaps nor ranks in
//            the cells: a slow consumer is always at the head, so head alone determines which cells are free.
//            bench/baselines has FFQ^s as printed; the experiment queue/one-to-one measures both.
//
// When close() overlaps a push: the push announces its rank in begun_, then checks the flag `closing`; close() raises
// that flag, then reads begun_, then raises `closed`. So either the push sees the flag and withdraws its announcement,
// or every thread that sees `closed` sees the announcement. The queue is drained when it is closed, empty, and nothing
// is announced.
#pragma once

#include <muster/base/arch.hpp>                    // prefetch_for_write
#include <muster/base/detail/eventcount.hpp>       // eventcount
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/detail/scope_exit.hpp>       // scope_exit
#include <muster/base/detail/temporal_slip.hpp>    // temporal_slip
#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/queue/detail/exclusive_use.hpp>   // exclusive_use_check
#include <muster/queue/detail/item_access.hpp>     // take
#include <muster/queue/detail/operations.hpp>      // queue_operations, wait_limit
#include <muster/queue/detail/ring.hpp>            // ring, rank_t
#include <muster/queue/options.hpp>                // queue_options, layout

#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::move

namespace muster::inline MUSTER_ABI {

template <class T, class Layout = layout::packed, class Wait = wait::spin_then_park>
class spsc_queue : public queue_operations<spsc_queue<T, Layout, Wait>, T> {
  using operations = queue_operations<spsc_queue, T>;
  friend push_operations<spsc_queue, T>;
  friend pop_operations<spsc_queue, T>;
  friend consume_operations<spsc_queue, T>;
  friend detail::watch_access;

 public:
  /// Holds up to `capacity` items. `memory`: an allocator of any type, or a std::pmr::memory_resource*. Throws
  /// std::invalid_argument, whose message names a valid value.
  explicit spsc_queue(std::size_t capacity, queue_options options = {}, const memory_source& memory = {})
      : cells_(memory, detail::ring_cells("spsc_queue", capacity, options, 0,
                                          ring<sync::cell<manual_lifetime<T>>, Layout>::cell_size)),
        capacity_(capacity),
        slip_(std::min<std::size_t>(capacity / 4, 1024)),
        tail_(options.first_rank),
        copies_from_(options.first_rank),
        head_(options.first_rank),
        limit_(options.first_rank + capacity),
        begun_(options.first_rank),
        tail_seen_(options.first_rank) {}
  /// Destroys the remaining items. No thread may be inside an operation.
  ~spsc_queue() {
    const rank_t tail = tail_.load(std::memory_order_relaxed);
    for (rank_t rank = head_.load(std::memory_order_relaxed); rank != tail; ++rank) cells_[rank].write_ref().destroy();
  }

  using operations::pop;  // and push, emplace, push_for, pop_for, consume and others: see detail/operations.hpp

  /// Producer only. Constructs an item at the end if there is room now. Returns success, full or closed. Wait-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args) {
    const auto inside = producer_entry_.enter(second_producer);
    const rank_t rank = next();
    if (!has_room(rank)) [[unlikely]]
      if (const queue_status room = look_again(); room != queue_status::success) return room;
    return publish(rank, std::forward<Args>(args)...);
  }

  /// Producer only. Pushes `count` items starting at `first`, waiting for room. Returns the number pushed, which is
  /// smaller only if the queue is closed. Items become visible in batches: after the last one, when the queue is full,
  /// and every 256. Items of a single-pass iterator become visible one by one, each before the iterator is incremented.
  /// If a constructor throws, the items before it have been pushed.
  template <class InputIt>
  std::size_t push_n(InputIt first, std::size_t count) {
    const auto inside = producer_entry_.enter(second_producer);
    std::size_t done = 0;
    while (done < count) {
      if (!has_room(next())) [[unlikely]]
        if (await_room(wait_limit{}) != queue_status::success) break;
      const std::size_t run = publish_some(first, count - done, done != 0);
      if (run == 0) break;
      done += run;
    }
    return done;
  }

  /// Producer only. As push_n, without waiting: pushes as many as fit.
  template <class InputIt>
  std::size_t try_push_n(InputIt first, std::size_t count) {
    const auto inside = producer_entry_.enter(second_producer);
    std::size_t done = 0;
    while (done < count && has_room(next())) {
      const std::size_t run = publish_some(first, count - done, done != 0);
      if (run == 0) break;
      done += run;
    }
    return done;
  }

  /// Consumer only. Takes the first item; waits while there is none. Returns no value only when closed and drained.
  MUSTER_HOT queue_result<T> pop() { return pop_within(wait_limit{}); }
  /// Consumer only. Takes the first item if there is one. Returns the item, empty or closed; or busy while a close(),
  /// or a push that overlapped a close(), is in progress. Wait-free.
  MUSTER_HOT queue_result<T> try_pop() {
    const auto inside = consumer_entry_.enter(second_consumer);
    const rank_t rank = first();
    if (rank == tail_seen_) [[unlikely]] {
      if (const queue_status item = find_item(); item != queue_status::success) return item;
      return take_first(rank);
    }
    return take(rank);
  }

  /// Consumer only. Returns the first item, which stays in the queue, or null if there is none now. The consumer may
  /// read and change the item until it pops or consumes it. Wait-free.
  MUSTER_HOT T* front() {
    const auto inside = consumer_entry_.enter(second_consumer);
    const rank_t rank = first();
    if (rank == tail_seen_) [[unlikely]]
      if (find_item() != queue_status::success) return nullptr;
    return std::addressof(cells_[rank].write_ref().value);
  }
  /// Consumer only. As consume, if there is an item. Returns success, empty, closed or busy, as try_pop. Wait-free,
  /// except for f. The item counts towards the capacity until f has returned, and f must not pop or consume here.
  template <class F>
  MUSTER_HOT queue_status try_consume(F&& f) {
    const auto inside = consumer_entry_.enter(second_consumer);
    const rank_t rank = first();
    if (rank == tail_seen_) [[unlikely]]
      if (const queue_status item = find_item(); item != queue_status::success) return item;
    use(rank, f);
    return queue_status::success;
  }

  /// Consumer only. Takes 1 to `count` items, waiting for the first. Returns 0 only when closed and drained, or if
  /// `count` is 0.
  template <class OutputIt>
  std::size_t pop_n(OutputIt out, std::size_t count) {
    const auto inside = consumer_entry_.enter(second_consumer);
    if (count == 0) return 0;
    if (!has_item(first())) [[unlikely]]
      if (await_item(wait_limit{}) != queue_status::success) return 0;
    return take_run(out, count);
  }

  /// Consumer only. As pop_n, without waiting. Wait-free.
  template <class OutputIt>
  std::size_t try_pop_n(OutputIt out, std::size_t count) {
    const auto inside = consumer_entry_.enter(second_consumer);
    std::size_t taken = 0;
    while (taken < count && has_item(first())) taken += take_run(out, count - taken);
    return taken;
  }

  /// Refuses further pushes and wakes both sides. Remaining items can still be popped. Any thread may call it, any
  /// number of times.
  void close() {
    if (!consumer_.raise(closing)) return;
    // Makes an announcement that missed the flag visible to every thread that sees `closed`.
    static_cast<void>(begun_.load(std::memory_order_relaxed));
    consumer_.raise(closed);
    if (producer_.waiters_after_event() != 0) producer_.wake_all();
  }

  /// Returns true if a close() has begun.
  bool is_closed() const noexcept { return (consumer_.flags() & closing) != 0; }
  /// The most items that it holds, as given to the constructor.
  std::size_t capacity() const noexcept { return capacity_; }
  /// The number of items at some recent moment.
  std::size_t size_approx() const noexcept {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const rank_t tail = tail_.load(std::memory_order_relaxed);
    return before(head, tail) ? std::min<std::size_t>(tail - head, capacity_) : 0;
  }

  /// Asserts the invariants. No thread may be inside an operation.
  void check() const {
    const rank_t head = head_.load(std::memory_order_relaxed);
    const rank_t tail = tail_.load(std::memory_order_relaxed);
    MUSTER_CHECK(tail - head <= capacity_, "spsc_queue: more items than the capacity");
    MUSTER_CHECK(begun_.load(std::memory_order_relaxed) == tail, "spsc_queue: a push has begun and not ended");
    MUSTER_CHECK(!before(tail, tail_seen_), "spsc_queue: the consumer has seen items that are not there");
    MUSTER_CHECK(!before(head + capacity_, limit_), "spsc_queue: the producer has seen room that is not there");
  }

 private:
  static constexpr std::uint32_t closing = eventcount::flag(0);  // no push may begin
  static constexpr std::uint32_t closed = eventcount::flag(1);   // and begun_ has been read
  static constexpr std::uint32_t only_key = 0;                   // one sleeper on each side
  static constexpr std::size_t longest_run = 256;                // items that push_n writes before it shows them
  // Prefetch distance; the first rank of a line fetches. The producer's stores retire in order, so a line that is still
  // in the consumer's cache delays all later stores. Prefetching it makes a push twice as fast.
  static constexpr rank_t per_line = ring<sync::cell<manual_lifetime<T>>, Layout>::ranks_per_line;
  static constexpr rank_t ahead = 4 * per_line;
  static constexpr const char* second_producer =
      "spsc_queue: a second thread pushes while one is inside push; use mpmc_queue, or one queue per producer";
  static constexpr const char* second_consumer =
      "spsc_queue: a second thread pops while one is inside pop; use spmc_queue";

  static constexpr rank_t copies = 4;
  static constexpr bool has_copies =
      std::is_trivially_copyable_v<T> && std::is_move_constructible_v<T> && sizeof(T) <= sizeof(std::uint64_t);
  // The builtin, because <cstring> is 400 lines.
  static std::uint64_t word_of(const T& item) noexcept {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, &item, sizeof(T));
    return word;
  }
  static T item_of(std::uint64_t word) noexcept {
    manual_lifetime<T> item;
    __builtin_memcpy(std::addressof(item.value), &word, sizeof(T));
    return std::move(item.value);
  }

  enum class rank_state { ready, end, busy, unknown };
  rank_t first() const noexcept { return head_.load(std::memory_order_relaxed); }  // for the consumer
  rank_t next() const noexcept { return tail_.load(std::memory_order_relaxed); }   // for the producer

  // ---------------------------------------------------------------------------------------------------------- producer

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args) {
    const auto inside = producer_entry_.enter(second_producer);
    const rank_t rank = next();
    if (!has_room(rank)) [[unlikely]]
      if (const queue_status room = await_room(limit); room != queue_status::success) return room;
    return publish(rank, std::forward<Args>(args)...);
  }

  // How a producer waits for room, or for close().
  class push_watch {
   public:
    using policy = Wait;
    explicit push_watch(spsc_queue& queue) noexcept : queue_(queue) {}
    bool ready() const noexcept { return queue_.has_room(queue_.next()) || queue_.is_closed(); }
    void before_sleep() noexcept {}
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(only_key); }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(spsc_queue& queue) noexcept { return queue.producer_; }

   private:
    spsc_queue& queue_;
  };

  // Waits for room: success, full if the limit expired first, or closed.
  MUSTER_COLD queue_status await_room(wait_limit limit) {
    const auto ready = [this] { return has_room(next()) || is_closed(); };
    if (!limit.template await<Wait>(producer_, only_key, ready)) return look_again();
    if (is_closed()) return queue_status::closed;
    producer_slip_.after_wait(slip_, [this] { return refresh_room(); });
    return queue_status::success;
  }

  // Called after has_room() failed: success if there is room by now, else full or closed.
  MUSTER_COLD queue_status look_again() noexcept {
    if (is_closed()) return queue_status::closed;
    // (5) full_fence: pairs with (6). If the producer reports full and the consumer reports empty, the later of the two
    // sees the other's earlier operations. Without the fences no single order of all operations might explain both.
    sync::full_fence();
    return refresh_room() != 0 ? queue_status::success : queue_status::full;
  }

  // Returns true if an item fits at `rank`, which is next().
  MUSTER_HOT bool has_room(rank_t rank) noexcept {
    if (rank != limit_) [[likely]]
      return true;
    return refresh_room() != 0;
  }

  // Returns how many items fit now.
  std::size_t refresh_room() noexcept {
    // (1) acquire: pairs with (4). The consumer has moved out the items before head_.
    limit_ = head_.load(std::memory_order_acquire) + capacity_;
    return static_cast<std::size_t>(limit_ - next());
  }

  template <class... Args>
  MUSTER_HOT queue_status publish(rank_t rank, Args&&... args) {
    if (rank % per_line == 0) muster::prefetch_for_write(&cells_[rank + ahead]);
    if (!announce(rank + 1)) [[unlikely]]
      return queue_status::closed;
    if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {
      cells_[rank].write_ref().construct(std::forward<Args>(args)...);
    } else {
      MUSTER_TRY { cells_[rank].write_ref().construct(std::forward<Args>(args)...); }
      MUSTER_CATCH_ALL {
        withdraw(rank);
        MUSTER_RETHROW;
      }
    }
    // (7) release: pairs with (8). A consumer that reads this copy also sees a tail_ of at least `rank`.
    if constexpr (has_copies)
      copies_[rank % copies].store(word_of(cells_[rank].read_ref().value), std::memory_order_release);
    show(rank + 1);
    return queue_status::success;
  }

  // Announces that the ranks before `end` will be shown. Returns false, with nothing announced, if close() has begun.
  MUSTER_HOT bool announce(rank_t end) noexcept {
    begun_.store(end, std::memory_order_relaxed);
    if (consumer_.waiters_after_event(closing) == 0) [[likely]]
      return true;
    withdraw(next());
    return false;
  }

  // Withdraws the announcement of the ranks from `end` on. A consumer may be waiting for that.
  MUSTER_COLD void withdraw(rank_t end) noexcept {
    begun_.store(end, std::memory_order_relaxed);
    if (consumer_.waiters_after_event(eventcount::all_keys) != 0) consumer_.wake_all();
  }

  // Makes the ranks before `end` visible to the consumer.
  MUSTER_HOT void show(rank_t end) noexcept {
    // (2) release: pairs with (3). The items are complete before the consumer can see them.
    tail_.store(end, std::memory_order_release);
    if constexpr (Wait::parks)
      if (consumer_.waiters_after_event() != 0) [[unlikely]]
        consumer_.wake(only_key);
  }

  // The same for items that have no copies.
  void show_run(rank_t end) noexcept {
    if constexpr (has_copies) copies_from_.store(end, std::memory_order_relaxed);  // seen by (3) together with tail_
    show(end);
  }

  // Publishes items into known room. Returns how many; 0 if closed. A single-pass iterator is incremented only on the
  // next call (`again`), before anything is announced, because the increment may wait or throw.
  template <class InputIt>
  std::size_t publish_some(InputIt& first, std::size_t count, bool again) {
    if constexpr (detail::is_multipass<InputIt>) {
      return publish_run(first, count, again);
    } else {
      if (is_closed()) return 0;  // so no item is read and then dropped
      if (again) ++first;
      return publish(next(), *first) == queue_status::success ? 1 : 0;
    }
  }

  // Writes items and shows them together. Leaves `first` at the last one.
  template <class ForwardIt>
  std::size_t publish_run(ForwardIt& first, std::size_t count, bool again) {
    const rank_t begin = next();
    const rank_t end = begin + std::min<rank_t>(std::min<rank_t>(count, limit_ - begin), longest_run);
    ForwardIt item = std::move(first);  // a local copy stays in a register; before announce(), as this may throw
    if (!announce(end)) [[unlikely]]
      return 0;
    rank_t filled = begin;
    MUSTER_TRY {
      while (filled != end) {
        if (filled % per_line == 0) muster::prefetch_for_write(&cells_[filled + ahead]);
        if (again) ++item;
        again = true;
        cells_[filled].write_ref().construct(*item);
        ++filled;
      }
    }
    MUSTER_CATCH_ALL {
      show_run(filled);
      withdraw(filled);
      MUSTER_RETHROW;
    }
    show_run(end);
    first = std::move(item);
    return end - begin;
  }

  // ------------------------------------------------------------------------------------------------------------
  // consumer

  // Returns true if there is an item at `rank`, which is first().
  MUSTER_HOT bool has_item(rank_t rank) noexcept {
    if (rank != tail_seen_) [[likely]]
      return true;
    return refresh_items() != 0;
  }

  // Returns how many items there are now.
  std::size_t refresh_items() noexcept {
    // (3) acquire: pairs with (2).
    tail_seen_ = tail_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(tail_seen_ - first());
  }

  rank_state look() noexcept {
    if (has_item(first())) [[likely]]
      return rank_state::ready;
    const std::uint32_t flags = consumer_.flags();
    if (flags == 0) return rank_state::unknown;
    if ((flags & closed) == 0) return rank_state::busy;
    // Later announcements will be withdrawn. Earlier ones are visible here: either they were taken or withdrawn, or
    // begun_ differs from tail_seen_.
    return begun_.load(std::memory_order_relaxed) == tail_seen_ ? rank_state::end : rank_state::busy;
  }

  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit) {
    const auto inside = consumer_entry_.enter(second_consumer);
    const rank_t rank = first();
    if (rank == tail_seen_) [[unlikely]] {
      if (refresh_items() == 0)
        if (const queue_status item = await_item(limit); item != queue_status::success) return item;
      return take_first(rank);
    }
    return take(rank);
  }

  template <class F>
  MUSTER_HOT queue_status consume_within(const wait_limit& limit, F& f) {
    const auto inside = consumer_entry_.enter(second_consumer);
    const rank_t rank = first();
    if (!has_item(rank)) [[unlikely]]
      if (const queue_status item = await_item(limit); item != queue_status::success) return item;
    use(rank, f);
    return queue_status::success;
  }

  // Waits for an item: success, empty or busy if the limit expired first, or closed.
  MUSTER_COLD queue_status await_item(wait_limit limit) {
    rank_state seen = rank_state::unknown;
    const auto ready = [&] { return (seen = look()) == rank_state::ready || seen == rank_state::end; };
    if (!limit.template await<Wait>(consumer_, only_key, ready)) return find_item();
    if (seen == rank_state::end) return queue_status::closed;
    consumer_slip_.after_wait(slip_, [this] { return refresh_items(); });
    return queue_status::success;
  }

  // How select() waits for an item or the end.
  class pop_watch {
   public:
    using policy = Wait;
    explicit pop_watch(spsc_queue& queue, bool /*sleeps*/ = true) noexcept : queue_(queue) {}
    bool ready() noexcept {
      const rank_state seen = queue_.look();
      return seen == rank_state::ready || seen == rank_state::end;
    }
    void before_sleep() noexcept {}
    std::uint32_t key() const noexcept { return only_key; }
    std::uint32_t listen_bits() const noexcept { return eventcount::bit(only_key); }
    eventcount& events() const noexcept { return events_of(queue_); }
    static eventcount& events_of(spsc_queue& queue) noexcept { return queue.consumer_; }

   private:
    spsc_queue& queue_;
  };

  // Returns success if there is an item, else empty, busy or closed.
  MUSTER_COLD queue_status find_item() noexcept {
    rank_state seen = look();
    if (seen == rank_state::unknown) {
      // (6) full_fence: pairs with (5).
      sync::full_fence();
      seen = look();
    }
    if (seen == rank_state::ready) return queue_status::success;
    if (seen == rank_state::end) return queue_status::closed;
    return seen == rank_state::busy ? queue_status::busy : queue_status::empty;
  }

  // Takes the item of `rank`, which is first(), after a look at tail_. If only a few items are there, takes the copy
  // beside tail_, whose line this thread has just fetched, and spares both sides the transfer of the cell's line: the
  // usual case where requests wait for answers.
  MUSTER_COLD queue_result<T> take_first(rank_t rank) {
    if constexpr (has_copies) {
      if (tail_seen_ - rank < copies && !before(rank, copies_from_.load(std::memory_order_relaxed))) {
        // (8) acquire: pairs with (7). If this is already the copy of a later rank, the next load sees that rank.
        const std::uint64_t word = copies_[rank % copies].load(std::memory_order_acquire);
        if (tail_.load(std::memory_order_relaxed) - rank < copies) {
          tail_seen_ = rank + 1;  // so that the next pop comes here too
          give_back(rank + 1);
          return queue_result<T>(std::in_place, item_of(word));
        }
      }
    }
    return take(rank);
  }

  MUSTER_HOT queue_result<T> take(rank_t rank) {
    fetch_ahead(rank);
    return detail::take(cells_[rank], [this, rank] {
      leave(rank);
      give_back(rank + 1);
    });
  }

  template <class F>
  MUSTER_HOT void use(rank_t rank, F& f) {
    fetch_ahead(rank);
    detail::use_in_place(cells_[rank], f, [this, rank] {
      leave(rank);
      give_back(rank + 1);
    });
  }

  // Fetches only lines that are known to be complete, so as not to take a line that the producer is still writing.
  MUSTER_HOT void fetch_ahead(rank_t rank) noexcept {
    if (rank % per_line == 0 && before(rank + ahead, tail_seen_)) muster::prefetch_for_write(&cells_[rank + ahead]);
  }

  // Called after the item has been moved out. Writes to the last cell of each line.
  MUSTER_HOT void leave(rank_t rank) noexcept {
    if ((rank + 1) % per_line == 0) leave_modified(&cells_[rank].write_ref(), 1);
  }

  // Frees the cells of the ranks before `end`.
  MUSTER_HOT void give_back(rank_t end) noexcept {
    // (4) release: pairs with (1). The items have been moved out before the producer can overwrite them.
    head_.store(end, std::memory_order_release);
    if constexpr (Wait::parks)
      if (producer_.waiters_after_event() != 0) [[unlikely]]
        producer_.wake(only_key);
  }

  // Takes items known to be there and frees their cells together, even if the output throws.
  template <class OutputIt>
  std::size_t take_run(OutputIt& out, std::size_t count) {
    const rank_t begin = first();
    const rank_t end = begin + std::min<rank_t>(count, tail_seen_ - begin);
    rank_t emptied = begin;
    const detail::scope_exit done([&] { give_back(emptied); });
    auto&& to = detail::local_copy(out);
    while (emptied != end) {
      fetch_ahead(emptied);
      detail::take_to(cells_[emptied], to, [&] { leave(emptied++); });
    }
    detail::store_back(to, out);
    return end - begin;
  }

  // The cells of ranks head_ … tail_ − 1 belong to the consumer, the others to the producer.
  const ring<sync::cell<manual_lifetime<T>>, Layout> cells_;
  const std::size_t capacity_;
  const std::size_t slip_;  // see temporal_slip

  alignas(isolation_size) sync::atomic<rank_t> tail_;
  // Beside tail_, copies of the newest items, if they are small: that of rank r is in copies_[r % copies] until rank
  // r + copies is written. Ranks before copies_from_ may have none.
  sync::atomic<rank_t> copies_from_;
  sync::atomic<std::uint64_t> copies_[has_copies ? copies : 1];
  alignas(isolation_size) sync::atomic<rank_t> head_;

  // The producer's line, then the consumer's. begun_ is one past the last rank that the producer began to write, and
  // equals tail_ between pushes. Others read it only while the queue is being closed. It is not beside tail_: a
  // waiting consumer would take that line away between the stores to the two.
  alignas(isolation_size) rank_t limit_;  // ranks before it fit: the last head_ seen + capacity_
  sync::atomic<rank_t> begun_;
  temporal_slip producer_slip_;
  detail::exclusive_use_check producer_entry_;
  alignas(isolation_size) rank_t tail_seen_;  // ranks before it are published: the last tail_ seen
  temporal_slip consumer_slip_;
  detail::exclusive_use_check consumer_entry_;

  // Written rarely: the sleepers, and whether the queue is closed.
  alignas(isolation_size) eventcount consumer_;
  eventcount producer_;
};

}  // namespace muster::inline MUSTER_ABI
