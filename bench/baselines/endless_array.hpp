// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// endless_array.hpp: the array of wf_queue.hpp: cells numbered by tickets, in segments of a list that grows at one end
// and is freed from the other.
//
// Two counters, `tail` and `head`, give out tickets. An operation says which segments it needs, which are its own and
// all behind it, and takes its first ticket. A cleaner writes down up to where operations need nothing, as far as it
// can see. That is never beyond the cell of an operation that has its ticket: either the counters were not yet there
// when it looked, or it sees what the operation needs. Then it adds zero to both counters, looks again, and frees what
// is below both. Of an operation's first ticket and the cleaner's zero one comes first. If it is the ticket, the
// cleaner sees at its second look what is needed; if it is the zero, the operation reads what is written down, and
// starts there.
//
// A helper takes over what its peer needs while the peer is at work. So the second look is two: the first may come too
// early for the helper and too late for the peer.
//
// Waiting      there is none. An operation that stops in the middle holds back its segment and all behind it; a cleaner
//              that stops ends all cleaning.
// Memory       a visitor keeps two segments that are free. The others go back to delete.
// Order        sequentially consistent but for announcements, which the counters order. A segment that is new or free
//              belongs to one thread.
#pragma once

#include "registry.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// `Cell` has a function reset(), which puts it into the state of a new one.
template <class Cell, std::size_t SegmentSize>
class endless_array {
  struct record;

 public:
  using word = std::uint64_t;
  struct segment;
  struct position {
    segment* at = nullptr;
    word id = 0;  // that of `at`, which may be gone
  };

  endless_array() : unfreed_(new segment) { oldest_.store(unfreed_); }
  endless_array(const endless_array&) = delete;
  endless_array& operator=(const endless_array&) = delete;
  /// No visitor is left.
  ~endless_array() {
    while (unfreed_ != nullptr) delete std::exchange(unfreed_, unfreed_->next.load());
  }

  /// The segment of a ticket.
  static constexpr word segment_of(word ticket) noexcept { return ticket / SegmentSize; }

  /// The view of one user-level thread, with its free segments.
  class visitor {
   public:
    explicit visitor(endless_array& a) : array_(a), mine_(a.records_.join()) {}
    visitor(const visitor&) = delete;
    visitor& operator=(const visitor&) = delete;
    ~visitor() { registry<record>::leave(mine_); }

    /// Begins an operation and returns its first ticket, from `counter`. `own` becomes a place from which its cell is
    /// reached.
    word begin(position& own, sync::atomic<word>& counter) {
      mine_.needs.store(own.id, std::memory_order_release);
      const word ticket = counter.fetch_add(1);
      if (own.at == nullptr || own.id < array_.oldest_id_.load()) {
        own.at = array_.oldest_.load();
        own.id = own.at->id;
      }
      return ticket;
    }
    /// Ends it: its cells may go.
    void end() noexcept { mine_.needs.store(nothing, std::memory_order_release); }
    /// For an operation under way that goes back. After this call the caller sees that another operation
    /// still needs them.
    void need_from(word id) { mine_.needs.store(std::min(mine_.needs.load(std::memory_order_relaxed), id)); }

    /// The cell of a ticket; the list is made longer where it ends before. `from` moves on to the cell's segment.
    Cell& find(position& from, word ticket) {
      while (from.id < segment_of(ticket)) {
        segment* next = from.at->next.load();
        if (next == nullptr) {
          segment* const fresh = obtain();
          fresh->id = from.id + 1;
          if (from.at->next.compare_exchange_strong(next, fresh)) next = fresh;
          else keep(fresh);
        }
        from = {next, from.id + 1};
      }
      return from.at->cells[ticket % SegmentSize];
    }

    /// Between operations: frees segments that no operation needs, if `own` shows that there are enough of them and no
    /// other thread is freeing.
    void clean(const position& own) {
      endless_array& a = array_;
      if (own.id <= a.oldest_id_.load() + 2 * a.records_.size() || a.cleaning_.exchange(true)) return;
      const word limit = a.needed(segment_of(std::min(a.tail.load(), a.head.load())));
      position first{a.oldest_.load(), a.oldest_id_.load()};
      const word before = first.id;
      while (first.id < limit) {
        segment* const next = first.at->next.load();
        if (next == nullptr) break;
        first = {next, first.id + 1};
      }
      if (first.id != before) {
        a.oldest_.store(first.at);
        a.oldest_id_.store(first.id);
        a.tail.fetch_add(0);
        a.head.fetch_add(0);
      }
      const word free_below = a.needed(a.needed(first.id));
      while (a.unfreed_->id < free_below) keep(std::exchange(a.unfreed_, a.unfreed_->next.load()));
      a.cleaning_.store(false);
    }

   private:
    segment* obtain() {
      if (mine_.spare.empty()) return new segment;
      segment* const s = mine_.spare.back().release();
      mine_.spare.pop_back();
      s->next.store(nullptr, std::memory_order_relaxed);
      for (Cell& c : s->cells) c.reset();
      return s;
    }
    void keep(segment* s) {
      if (mine_.spare.size() < 2) mine_.spare.emplace_back(s);
      else delete s;
    }

    endless_array& array_;
    record& mine_;
  };

  /// The next tickets; 0 is none.
  alignas(isolation_size) sync::atomic<word> tail{1};
  alignas(isolation_size) sync::atomic<word> head{1};

 private:
  static constexpr word nothing = std::numeric_limits<word>::max();

  // needs: the owner writes, cleaners read: no segment below that is used. spare is the owner's.
  struct record : registered<record> {
    alignas(isolation_size) sync::atomic<word> needs{nothing};
    std::vector<std::unique_ptr<segment>> spare{};
  };

  /// The least of `limit` and what operations under way need.
  word needed(word limit) {
    records_.for_each([&](record& r) { limit = std::min(limit, r.needs.load()); });
    return limit;
  }

  // Where operations start whose own segment is older than that. Both only grow; the number is written last.
  alignas(isolation_size) sync::atomic<segment*> oldest_{nullptr};
  sync::atomic<word> oldest_id_{0};
  alignas(isolation_size) sync::atomic<bool> cleaning_{false};
  segment* unfreed_;  // the first segment that there is; belongs to the one who has set cleaning_
  registry<record> records_;
};

// id: the tickets of its cells, divided by its size. next: set once.
template <class Cell, std::size_t SegmentSize>
struct endless_array<Cell, SegmentSize>::segment {
  word id = 0;
  sync::atomic<segment*> next{nullptr};
  std::array<Cell, SegmentSize> cells{};
};

}  // namespace muster::bench::inline MUSTER_ABI
