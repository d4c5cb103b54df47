// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lcrq.hpp: LCRQ, the list of concurrent ring queues of Morrison and Afek, "Fast Concurrent Queues for x86 Processors",
// PPoPP 2013. Unbounded, strict FIFO, of 64-bit values other than `lcrq::empty`.
//
// Faithful to  the paper's CRQ and LCRQ: a fetch-add on the ring's head or tail gives each operation a cell; value,
//              safe bit and index of a cell change together by a double-word compare-and-swap; a dequeuer that comes
//              first turns the cell's index to the next lap or marks it unsafe; an enqueuer that finds the ring full or
//              has failed too often closes the ring and appends another; a dequeuer waits a little for an enqueuer that
//              has its ticket already, before it turns the cell.
// Differs      a ring is protected by the hazard pointers of reclaim.hpp, and when it is free again it is kept for the
//              next push, up to two per handle. A handle leaves its announcement standing between operations, so that
//              the next one on the same ring needs none. The variant for several sockets (LCRQ+H) is left out.
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
// Memory       ring size times CellAlign per ring; a line per cell by default. A handle holds on to one ring, which may
//              be of the past, until its next operation.
// Needs        x86-64. Elsewhere `available` is false and the constructor throws std::runtime_error. A thread sanitizer
//              does not see the double-word operation as a synchronization; nothing in here depends on that, but
//              memory that a value points to would need an order of its own in such a build.
#pragma once

#include "double_word.hpp"
#include "reclaim.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>    // isolation_size, line_size
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

struct lcrq_limits {
  unsigned attempts = 16;  // tickets that an enqueuer takes before it is starving and closes the ring
  unsigned wait = 16;      // turns that a dequeuer gives an enqueuer that has its ticket
};

template <class T = std::uint64_t, class Pause = cpu_turn, std::size_t CellAlign = line_size>
class lcrq {
  static_assert(sizeof(T) == sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>, "lcrq holds 64-bit values");
  static_assert(CellAlign >= 16, "the double-word operation needs 16-byte alignment");
  using word = std::uint64_t;
  struct ring;
  using hazards = hazard_domain<ring, 1>;

 public:
  static constexpr bool available = double_words;
  /// The bit pattern that cannot be pushed.
  static constexpr word empty = ~word{0};

  /// `ring_size` is rounded up to a power of two, at least 2.
  explicit lcrq(std::size_t ring_size, lcrq_limits limits = {})
      : size_(std::bit_ceil(std::max<std::size_t>(ring_size, 2))), limits_(limits) {
    if (!available) throw std::runtime_error("lcrq needs cmpxchg16b: leave it out where lcrq::available is false");
    ring* const first = new ring(size_);
    first->reset();
    head_.store(first);
    tail_.store(first);
  }
  lcrq(const lcrq&) = delete;
  lcrq& operator=(const lcrq&) = delete;
  ~lcrq() {
    for (ring* r = head_.load(); r != nullptr;) {
      ring* const next = r->next.load();
      delete r;
      r = next;
    }
  }

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(lcrq& q) : queue_(q), owner_(q.hazards_) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;

    /// Aborts when the value has the bits of `empty`.
    void push(T item) {
      const word value = std::bit_cast<word>(item);
      MUSTER_CHECK(value != empty, "lcrq cannot hold the value lcrq::empty: push another one");
      ring* fresh = nullptr;
      for (;;) {
        ring* last = owner_.protect(0, queue_.tail_);
        if (ring* const next = last->next.load(); next != nullptr) {
          queue_.tail_.compare_exchange_strong(last, next);
          continue;
        }
        if (queue_.enqueue(*last, value)) break;
        if (fresh == nullptr) {
          fresh = owner_.obtain(queue_.size_);
          fresh->reset();
          fresh->cells[0].value.store(value, std::memory_order_relaxed);
          fresh->tail.store(1, std::memory_order_relaxed);
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
      for (;;) {
        ring* first = owner_.protect(0, queue_.head_);
        word value = queue_.dequeue(*first);
        if (value == empty) {
          ring* const next = first->next.load();
          if (next == nullptr) break;
          value = queue_.dequeue(*first);  // correction 1
          if (value == empty) {
            ring* lagging = first;
            queue_.tail_.compare_exchange_strong(lagging, next);  // correction 2
            if (queue_.head_.compare_exchange_strong(first, next)) {
              owner_.clear(0);
              owner_.retire(first);
            }
            continue;
          }
        }
        out = std::bit_cast<T>(value);
        return true;
      }
      return false;
    }
    /// Rings that this handle has appended.
    std::uint64_t appended() const noexcept { return appended_; }

   private:
    lcrq& queue_;
    typename hazards::owner owner_;
    std::uint64_t appended_ = 0;
  };

 private:
  static constexpr word unsafe_bit = word{1} << 63;  // of cell::place
  static constexpr word closed_bit = word{1} << 63;  // of ring::tail

  // value: the item, or empty. place: the index, which only grows, and the unsafe bit. The cell of index i can take the
  // item of ticket i, or of a later ticket for the same cell; with an item in it, i is the item's ticket.
  struct alignas(CellAlign) cell {
    alignas(16) sync::atomic<word> value{empty};
    sync::atomic<word> place{0};
  };
  // head, tail: the next tickets. next: the ring after this one, set once, and only when the ring is closed.
  struct ring {
    explicit ring(std::size_t size) : mask(size - 1), cells(std::make_unique<cell[]>(size)) {}
    cell& at(word ticket) noexcept { return cells[ticket & mask]; }
    void reset() noexcept {
      for (word u = 0; u <= mask; ++u) {
        cells[u].value.store(empty, std::memory_order_relaxed);
        cells[u].place.store(u, std::memory_order_relaxed);
      }
      head.store(0, std::memory_order_relaxed);
      tail.store(0, std::memory_order_relaxed);
      next.store(nullptr, std::memory_order_relaxed);
    }

    const word mask;
    const std::unique_ptr<cell[]> cells;
    alignas(isolation_size) sync::atomic<word> head{0};
    alignas(isolation_size) sync::atomic<word> tail{0};
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
  /// False: the ring is closed.
  bool enqueue(ring& r, word value) const noexcept {
    for (unsigned attempts = 1;; ++attempts) {
      const word ticket = r.tail.fetch_add(1);
      if ((ticket & closed_bit) != 0) return false;
      cell& c = r.at(ticket);
      const word held = c.value.load();
      const word place = c.place.load();
      // An unsafe cell may be used only while the dequeuer of our ticket is still to come.
      const bool usable = (place & unsafe_bit) == 0 || r.head.load() <= ticket;
      if (held == empty && (place & ~unsafe_bit) <= ticket && usable && exchange_both(c, empty, place, value, ticket)) {
        return true;
      }
      const bool full = static_cast<std::int64_t>(ticket - r.head.load()) >= static_cast<std::int64_t>(size_);
      if (full || attempts >= limits_.attempts) {
        r.tail.fetch_or(closed_bit);
        return false;
      }
    }
  }
  /// An item, or `empty`.
  word dequeue(ring& r) const noexcept {
    for (;;) {
      const word ticket = r.head.fetch_add(1);
      cell& c = r.at(ticket);
      for (unsigned patience = limits_.wait;;) {
        // The two reads are not one. Where it matters, the exchange below finds out.
        const word held = c.value.load();
        const word place = c.place.load();
        const word index = place & ~unsafe_bit;
        if (index > ticket) break;  // a later dequeuer of this cell was faster
        if (held != empty && index == ticket) {
          if (exchange_both(c, held, place, empty, (place & unsafe_bit) | (ticket + size_))) return held;
        } else if (held != empty) {
          // An item of an earlier lap. Its dequeuer will take it; our enqueuer must not put another here after that.
          if (exchange_both(c, held, place, held, place | unsafe_bit)) break;
        } else if (patience != 0 && (r.tail.load() & ~closed_bit) > ticket) {
          --patience;
          Pause::turn();
        } else if (exchange_both(c, empty, place, empty, (place & unsafe_bit) | (ticket + size_))) {
          break;
        }
      }
      if ((r.tail.load() & ~closed_bit) <= ticket + 1) {
        fix_state(r);
        return empty;
      }
    }
  }

  // From head_ the rings lead over tail_ to the last one. head_ never passes tail_.
  alignas(isolation_size) sync::atomic<ring*> head_;
  alignas(isolation_size) sync::atomic<ring*> tail_;
  alignas(isolation_size) const std::size_t size_;
  const lcrq_limits limits_;
  hazards hazards_{2, 1};  // rings are large: two spare ones per handle, and free ones are looked for at once
};

}  // namespace muster::bench::inline MUSTER_ABI
