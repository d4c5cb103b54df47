// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ring_list.hpp: a queue as a list of rings, which lcrq.hpp and lprq.hpp have in common. Unbounded, strict FIFO, of
// 64-bit values up to `Cell::greatest`.
//
// Faithful to  LCRQ, of Morrison and Afek, "Fast Concurrent Queues for x86 Processors", PPoPP 2013: a fetch-add on the
//              ring's head or tail gives each operation a cell; an enqueuer that finds the ring full or has failed too
//              often closes the ring and appends another; a dequeuer waits a little for an enqueuer that has its ticket
//              already, before it passes the cell.
// Differs      A cell remembers the ticket that has used it last, where the paper's has the one that may be next, and
//              tickets begin at the ring's size. A ring is protected by the hazard pointers of reclaim.hpp, and when it
//              is free again it is kept for the next push, up to two per handle. A handle leaves its announcement
//              standing between operations, so that the next one on the same ring needs none. The variant for several
//              sockets (LCRQ+H) is left out. `Counters` can count by batches (funnel.hpp).
// Corrected    in the published pseudo-code:
//              1. A dequeuer that finds a ring empty and then finds a next ring moves head on at once. An item that
//                 came into the ring in between, before the ring was closed, is lost. We look into the ring once more
//                 after we have seen the next one: from then on nothing can come in.
//              2. Head may move past a ring that tail still points to. Then an enqueuer that has announced the ring,
//                 and found it in tail, can still be overlooked by the thread that frees it. We help tail on before we
//                 move head.
//              3. t - h >= R is a comparison of signed numbers: head may be ahead of tail. And fixState must not touch
//                 the tail of a closed ring: with the closed bit as the top bit of an unsigned word it never does.
// Waiting      Pause::turn() while a dequeuer waits for the enqueuer of its cell, at most `wait` times. A lost race
//              takes the next ticket at once, as in the paper.
// Memory       ring size times sizeof(Cell) per ring. A handle holds on to one ring, which may be of the past, until
//              its next operation.
#pragma once

#include "funnel.hpp"
#include "reclaim.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>    // isolation_size
#include <muster/base/config.hpp>  // MUSTER_CHECK
#include <muster/base/sync.hpp>    // sync::atomic

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace muster::bench::inline MUSTER_ABI {

struct ring_limits {
  unsigned attempts = 16;  // tickets that an enqueuer takes before it is starving and closes the ring
  unsigned wait = 16;      // turns that a dequeuer gives an enqueuer that has its ticket
};

/// The result of a dequeuer's look into its cell: its item; there will be none; its enqueuer is late; another thread
/// has changed the cell meanwhile.
enum class cell_state { taken, passed, early, changed };

/// `Cell` has
///   put(ticket, value, token, still_early)   false if another thread has the cell. `token` is of this handle alone
///   take(ticket, out, waits)                 a cell_state; `early` only if `waits()`
template <class Cell, class T, class Pause, class Counters>
class ring_list {
  static_assert(sizeof(T) == sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>, "the items have 64 bits");
  using word = std::uint64_t;
  struct ring;
  using hazards = hazard_domain<ring, 1>;

 public:
  static constexpr bool available = Cell::available;
  /// The greatest bit pattern that can be pushed.
  static constexpr word greatest = Cell::greatest;

  /// `ring_size` is rounded up to a power of two, at least 2.
  explicit ring_list(std::size_t ring_size, ring_limits limits = {})
      : size_(std::bit_ceil(std::max<std::size_t>(ring_size, 2))), limits_(limits) {
    if (!available) throw std::runtime_error("this queue needs cmpxchg16b: leave it out where available is false");
    ring* const first = new ring(size_, counting_);
    first->reset();
    head_.store(first);
    tail_.store(first);
  }
  ring_list(const ring_list&) = delete;
  ring_list& operator=(const ring_list&) = delete;
  ~ring_list() {
    for (ring* r = head_.load(); r != nullptr;) {
      ring* const next = r->next.load();
      delete r;
      r = next;
    }
  }

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(ring_list& q) : queue_(q), owner_(q.hazards_), user_(q.counting_) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;

    /// Aborts when the value's bits are a number above `greatest`.
    void push(T item) {
      const word value = std::bit_cast<word>(item);
      MUSTER_CHECK(value <= greatest, "the queue cannot hold a value above its constant `greatest`: push another one");
      ring* fresh = nullptr;
      for (;;) {
        ring* last = owner_.protect(0, queue_.tail_);
        if (ring* const next = last->next.load(); next != nullptr) {
          queue_.tail_.compare_exchange_strong(last, next);
          continue;
        }
        if (enqueue(*last, value)) break;
        if (fresh == nullptr) {
          fresh = owner_.obtain(queue_.size_, queue_.counting_);
          fresh->reset();
          fresh->cells[0].fill(queue_.size_, value);
          fresh->tail.store(queue_.size_ + 1);
        }
        ring* none = nullptr;
        if (last->next.compare_exchange_strong(none, fresh)) {
          queue_.tail_.compare_exchange_strong(last, fresh);
          fresh = nullptr;
          ++appended_;
          break;
        }
      }
      if (fresh != nullptr) owner_.recycle(fresh);
    }
    /// False when the queue is empty.
    bool pop(T& out) {
      word value = 0;
      for (;;) {
        ring* first = owner_.protect(0, queue_.head_);
        if (dequeue(*first, value)) break;
        ring* const next = first->next.load();
        if (next == nullptr) return false;
        if (dequeue(*first, value)) break;  // correction 1
        ring* lagging = first;
        queue_.tail_.compare_exchange_strong(lagging, next);  // correction 2
        if (queue_.head_.compare_exchange_strong(first, next)) {
          owner_.clear(0);
          owner_.retire(first);
        }
      }
      out = std::bit_cast<T>(value);
      return true;
    }
    /// Rings that this handle has appended.
    std::uint64_t appended() const noexcept { return appended_; }

   private:
    /// False: the ring is closed.
    bool enqueue(ring& r, word value) {
      for (unsigned attempts = 1;; ++attempts) {
        const word ticket = r.tail.fetch_add(user_, 1);
        if ((ticket & closed_bit) != 0) return false;
        if (r.at(ticket).put(ticket, value, std::bit_cast<word>(this), [&] { return r.head.load() <= ticket; }))
          return true;
        const bool full = static_cast<std::int64_t>(ticket - r.head.load()) >= static_cast<std::int64_t>(queue_.size_);
        if (full || attempts >= queue_.limits_.attempts) {
          r.tail.fetch_or(closed_bit);
          return false;
        }
      }
    }
    /// False: the ring is empty.
    bool dequeue(ring& r, word& out) {
      for (;;) {
        const word ticket = r.head.fetch_add(user_, 1);
        unsigned patience = queue_.limits_.wait;
        const auto waits = [&] { return patience != 0 && (r.tail.load() & ~closed_bit) > ticket; };
        for (cell_state found{}; (found = r.at(ticket).take(ticket, out, waits)) != cell_state::passed;) {
          if (found == cell_state::taken) return true;
          if (found == cell_state::changed) continue;
          --patience;
          Pause::turn();
        }
        if ((r.tail.load() & ~closed_bit) <= ticket + 1) {
          fix_state(r);
          return false;
        }
      }
    }

    ring_list& queue_;
    typename hazards::owner owner_;
    typename Counters::user user_;
    std::uint64_t appended_ = 0;
  };

 private:
  static constexpr word closed_bit = word{1} << 63;  // of ring::tail

  // head, tail: the next tickets. next: the ring after this one, set once, and only when the ring is closed.
  struct ring {
    ring(std::size_t size, typename Counters::group& counting)
        : mask(size - 1), cells(std::make_unique<Cell[]>(size)), head(counting), tail(counting) {}
    Cell& at(word ticket) noexcept { return cells[ticket & mask]; }
    void reset() noexcept {
      for (word i = 0; i <= mask; ++i) cells[i].fill(0, Cell::empty);
      head.store(mask + 1);
      tail.store(mask + 1);
      next.store(nullptr, std::memory_order_relaxed);
    }

    const word mask;
    const std::unique_ptr<Cell[]> cells;
    alignas(isolation_size) typename Counters::counter head;
    alignas(isolation_size) typename Counters::counter tail;
    alignas(isolation_size) sync::atomic<ring*> next{nullptr};
  };

  /// Dequeuers of an empty ring take head past tail. Puts tail right, so that enqueuers do not find used-up cells.
  static void fix_state(ring& r) noexcept {
    for (;;) {
      word tail = r.tail.load();
      const word head = r.head.load();
      if (r.tail.load() != tail) continue;
      if (head <= tail) return;  // always so when the ring is closed
      if (r.tail.compare_exchange_strong(tail, head)) return;
    }
  }

  // From head_ the rings lead over tail_ to the last one. head_ never passes tail_.
  alignas(isolation_size) sync::atomic<ring*> head_;
  alignas(isolation_size) sync::atomic<ring*> tail_;
  alignas(isolation_size) const std::size_t size_;
  const ring_limits limits_;
  typename Counters::group counting_;
  hazards hazards_{2, 1};  // rings are large: two spare ones per handle, and free ones are looked for at once
};

/// The place of a cell: the ticket that has used it last, and the unsafe bit.
struct cell_place {
  using word = std::uint64_t;
  static constexpr word unsafe_bit = word{1} << 63;

  explicit cell_place(word both) noexcept : whole(both) {}
  word ticket() const noexcept { return whole & ~unsafe_bit; }
  bool safe() const noexcept { return (whole & unsafe_bit) == 0; }
  word after(word ticket) const noexcept { return (whole & unsafe_bit) | ticket; }

  word whole;
};

}  // namespace muster::bench::inline MUSTER_ABI
