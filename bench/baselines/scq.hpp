// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scq.hpp: SCQ, the scalable circular queue of Nikolaev, "A Scalable, Portable, and Memory-Efficient Lock-Free FIFO
// Queue", DISC 2019. Bounded, strict FIFO.
//
// Faithful to  the paper: an array of items, a ring of the indices in use, and a ring of the free ones. A ring for n
//              indices has 2n entries of one word, with a cycle, a safe bit and an index. A fetch-add on
//              head or tail gives each operation an entry. A dequeuer that comes first moves the entry to its cycle, or
//              marks it unsafe. The threshold ends the search of dequeuers in an empty ring after 3n entries. Entries
//              that follow each other lie in different lines.
// Differs      as in LCRQ, a dequeuer waits a little for an enqueuer that has its ticket already. A consumed entry has
//              the same mark as one that never had an index.
// Needs        a capacity that is at least the number of threads, as in the paper's proof.
// Waiting      Pause::turn() while a dequeuer waits for the enqueuer of its entry, at most `wait` times. try_push and
//              try_pop wait for nothing else. A push may find the queue full while a pop still has an index in hand.
// Memory       the capacity is rounded up to a power of two, at least 2; 32 bytes for an item of 8.
// Order        sequentially consistent. An item belongs to the thread that has its index.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>    // isolation_size, line_size
#include <muster/base/config.hpp>  // MUSTER_HOT
#include <muster/base/sync.hpp>    // sync::atomic, sync::cell

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

struct scq_limits {
  unsigned wait = 16;  // turns that a dequeuer gives an enqueuer that has its ticket
};

/// A queue of the numbers 0 to n - 1, each of which is in it at most once. n is a power of two, at least 2.
template <class Pause>
class scq_ring {
  using word = std::uint64_t;

 public:
  using limits = scq_limits;
  static constexpr bool available = true;
  static constexpr bool orders_items = true;  // in a way that a thread sanitizer sees

  /// `full`: with all numbers, in order.
  scq_ring(word n, const limits& l, bool full)
      : bits_(static_cast<unsigned>(std::countr_zero(2 * n))),
        wait_(l.wait),
        spent_(3 * static_cast<std::int64_t>(n) - 1),
        lines_(std::max<word>(2 * n / in_line, 1)),
        entries_(std::make_unique<line[]>(lines_)),
        tail_(full ? 3 * n : 2 * n),
        head_(2 * n),
        threshold_(full ? spent_ : -1) {
    for (word i = 0; i < 2 * n; ++i) at(i).store(full && i < n ? made(1, true, i) : made(0, true, none()));
  }

  static void turn() { Pause::turn(); }

  /// The same for all threads.
  class user {
   public:
    explicit user(scq_ring& r) : ring_(r) {}
    MUSTER_HOT void push(word index) noexcept { ring_.push(index); }
    MUSTER_HOT bool pop(word& out) noexcept { return ring_.pop(out); }

   private:
    scq_ring& ring_;
  };

 private:
  MUSTER_HOT void push(word index) noexcept {
    for (;;) {
      const word ticket = tail_.fetch_add(1);
      sync::atomic<word>& entry = at(ticket);
      for (word seen = entry.load(); cycle(seen) < lap(ticket) && this->index(seen) == none();) {
        // An unsafe entry may be used only while the dequeuer of our ticket is still to come.
        if (!safe(seen) && head_.load() > ticket) break;
        if (!entry.compare_exchange_strong(seen, made(lap(ticket), true, index))) continue;
        if (threshold_.load() != spent_) threshold_.store(spent_);
        return;
      }
    }
  }
  /// False when the ring is empty.
  MUSTER_HOT bool pop(word& out) noexcept {
    if (threshold_.load() < 0) return false;
    for (;;) {
      const word ticket = head_.fetch_add(1);
      sync::atomic<word>& entry = at(ticket);
      unsigned patience = wait_;
      for (word seen = entry.load(); cycle(seen) <= lap(ticket);) {
        if (cycle(seen) == lap(ticket)) {
          entry.fetch_or(none());
          out = index(seen);
          return true;
        }
        if (index(seen) == none() && patience != 0 && tail_.load() > ticket) {
          --patience;
          Pause::turn();
          seen = entry.load();
          continue;
        }
        // Our enqueuer must not use the entry after us; the dequeuer of an index from an earlier lap still takes it.
        const word passed =
            index(seen) == none() ? made(lap(ticket), safe(seen), none()) : made(cycle(seen), false, index(seen));
        if (entry.compare_exchange_strong(seen, passed)) break;
      }
      const word tail = tail_.load();
      if (tail <= ticket + 1) {
        catch_up(tail, ticket + 1);
        threshold_.fetch_sub(1);
        return false;
      }
      if (threshold_.fetch_sub(1) <= 0) return false;
    }
  }

  static constexpr std::size_t in_line = line_size / sizeof(word);
  struct alignas(line_size) line {
    sync::atomic<word> words[in_line]{};
  };

  // An entry, from the low bits up: the index, `bits_` ones for none; the safe bit; the cycle.
  word none() const noexcept { return (word{1} << bits_) - 1; }
  word made(word cycle, bool safe, word index) const noexcept {
    return cycle << (bits_ + 1) | word{safe} << bits_ | index;
  }
  word index(word entry) const noexcept { return entry & none(); }
  bool safe(word entry) const noexcept { return (entry >> bits_ & 1) != 0; }
  word cycle(word entry) const noexcept { return entry >> (bits_ + 1); }
  word lap(word ticket) const noexcept { return ticket >> bits_; }

  /// As by the paper's Cache_Remap, entries that follow each other lie in different lines.
  sync::atomic<word>& at(word ticket) noexcept {
    const word place = ticket & none();
    return entries_[place % lines_].words[place / lines_];
  }
  /// Dequeuers of an empty ring take head past tail. Puts tail right, so that enqueuers do not find used-up entries.
  void catch_up(word tail, word head) noexcept {
    while (!tail_.compare_exchange_strong(tail, head)) {
      head = head_.load();
      tail = tail_.load();
      if (tail >= head) return;
    }
  }

  const unsigned bits_;
  const unsigned wait_;
  const std::int64_t spent_;  // the threshold after a push: no dequeuer passes more entries before it finds the index
  const word lines_;
  const std::unique_ptr<line[]> entries_;
  alignas(isolation_size) sync::atomic<word> tail_;
  alignas(isolation_size) sync::atomic<word> head_;
  alignas(isolation_size) sync::atomic<std::int64_t> threshold_;
};

/// A bounded queue of two rings of indices: the ones in use, and the free ones.
template <class T, class Ring>
class indexed_queue {
  using slot = std::conditional_t<Ring::orders_items, sync::cell<T>, sync::atomic<T>>;

 public:
  using limits = typename Ring::limits;
  static constexpr bool available = Ring::available;

  explicit indexed_queue(std::size_t capacity, const limits& l = {})
      : size_(std::bit_ceil(std::max<std::size_t>(capacity, 2))),
        items_(std::make_unique<slot[]>(size_)),
        used_(size_, l, false),
        free_(size_, l, true) {
    if (!available) throw std::runtime_error("this queue needs cmpxchg16b: leave it out where available is false");
  }

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(indexed_queue& q) : queue_(q), used_(q.used_), free_(q.free_) {}

    /// False when the queue is full; then `value` keeps its value.
    MUSTER_HOT bool try_push(T& value) {
      std::uint64_t index = 0;
      if (!free_.pop(index)) return false;
      slot& to = queue_.items_[index];
      if constexpr (Ring::orders_items) to.write_ref() = std::move(value);
      else to.store(value, std::memory_order_relaxed);
      used_.push(index);
      return true;
    }
    /// Waits while the queue is full.
    void push(T value) {
      while (!try_push(value)) Ring::turn();
    }
    /// False when the queue is empty.
    MUSTER_HOT bool pop(T& out) {
      std::uint64_t index = 0;
      if (!used_.pop(index)) return false;
      slot& from = queue_.items_[index];
      if constexpr (Ring::orders_items) out = std::move(from.write_ref());
      else out = from.load(std::memory_order_relaxed);
      free_.push(index);
      return true;
    }
    /// Operations on a ring that have asked for help.
    std::uint64_t slow() const noexcept { return used_.slow() + free_.slow(); }

   private:
    indexed_queue& queue_;
    typename Ring::user used_;
    typename Ring::user free_;
  };

 private:
  const std::size_t size_;
  const std::unique_ptr<slot[]> items_;
  Ring used_;
  Ring free_;
};

template <class T, class Pause = cpu_turn>
using scq = indexed_queue<T, scq_ring<Pause>>;

}  // namespace muster::bench::inline MUSTER_ABI
