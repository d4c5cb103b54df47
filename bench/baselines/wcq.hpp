// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wcq.hpp: wCQ of Nikolaev and Ravindran, "wCQ: A Fast Wait-Free Queue with Bounded Memory Usage", SPAA 2022: SCQ whose
// operations ask for help after some failures. Bounded, strict FIFO.
//
// Faithful to  the paper: the fast path is SCQ's (scq.hpp). A slow operation publishes a request, and its helpers
//              agree on its tickets, one after another: they put the next one, marked as not taken, into the request's
//              word, one of them takes it by a double-word compare-and-swap that adds to the counter and names itself,
//              and the mark is removed before the counter is used for another request. A note beside an entry keeps a
//              late helper from a ticket that another has passed. An item of a slow push is in the ring before its
//              request is finished; who pops it finishes the request.
// Differs      1. A request has a number. A helper that finds another one in its record leaves: the word may then be
//                 that of the next request.
//              2. An operation ends only when its request is finished, never because a helper has seen its end.
//              3. A helper uses the record that a counter names only if the counter still names it after the record
//                 was read; there is one such record for each thread and counter.
//              4. Helpers of a pop need no notes: when one of them has passed a ticket, its enqueuer finds the entry in
//                 the ticket's cycle, or unsafe.
//              5. As in scq.hpp, a dequeuer waits a little for an enqueuer that has its ticket already.
// Needs        x86-64, and a capacity that is at least the number of threads. A thread sanitizer does not see the
//              double-word operation as a synchronization: items are words.
// Waiting      Pause::turn() while a dequeuer waits for the enqueuer of its entry, at most `wait` times. Tests delay
//              operations between two steps by Pause::between().
// Memory       the capacity is rounded up to a power of two, at least 2; 64 bytes for an item of 8, and a record for
//              each thread and ring.
// Order        sequentially consistent.
#pragma once

#include "double_word.hpp"
#include "registry.hpp"
#include "scq.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace muster::bench::inline MUSTER_ABI {

struct wcq_limits {
  unsigned pushes = 16;  // tickets of an operation before it asks for help; at least 1, as the others
  unsigned pops = 64;
  unsigned delay = 64;  // operations of a thread from one look at a peer to the next
  unsigned wait = 16;   // turns that a dequeuer gives an enqueuer that has its ticket
};

/// As scq_ring.
template <class Pause>
class wcq_ring {
  using word = std::uint64_t;
  struct request;

 public:
  using limits = wcq_limits;
  static constexpr bool available = double_words;
  static constexpr bool orders_items = false;

  wcq_ring(word n, const limits& l, bool full)
      : bits_(static_cast<unsigned>(std::countr_zero(2 * n))),
        limits_(l),
        spent_(3 * static_cast<std::int64_t>(n) - 1),
        lines_(std::max<word>(2 * n / in_line, 1)),
        entries_(std::make_unique<line[]>(lines_)),
        threshold_(full ? spent_ : -1) {
    const word marks = safe_bit() | done_bit();
    for (word i = 0; i < 2 * n; ++i) at(i).value.store(full && i < n ? made(1, marks, i) : made(0, marks, none()));
    tail_.count.store(full ? 3 * n : 2 * n);
    head_.count.store(2 * n);
  }

  static void turn() { Pause::turn(); }

  /// One per user-level thread.
  class user {
   public:
    explicit user(wcq_ring& r) : ring_(r), mine_(r.requests_.join()) {}
    user(const user&) = delete;
    user& operator=(const user&) = delete;
    ~user() { registry<request>::leave(mine_); }

    void push(word index) {
      help_a_peer();
      word ticket = 0;
      for (unsigned patience = ring_.limits_.pushes; patience != 0; --patience)
        if (ring_.push_fast(index, ticket)) return;
      ++slow_;
      const word number = publish(mine_.tail_at, ticket, true, index);
      ring_.push_slowly(mine_, mine_, number, ticket, index);
      mine_.number.store(number + 1);
    }
    bool pop(word& out) {
      help_a_peer();
      if (ring_.threshold_.load() < 0) return false;
      word ticket = 0;
      for (unsigned patience = ring_.limits_.pops; patience != 0; --patience)
        if (const std::optional<bool> found = ring_.pop_fast(out, ticket)) return *found;
      ++slow_;
      const word number = publish(mine_.head_at, ticket, false, 0);
      ring_.pop_slowly(mine_, mine_, number, ticket);
      mine_.number.store(number + 1);
      ticket = mine_.head_at.load() >> 2;
      entry& e = ring_.at(ticket);
      const word value = e.value.load();
      if (ring_.cycle(value) != ring_.lap(ticket) || ring_.index(value) == ring_.none()) return false;
      ring_.consume(e, value, ticket);
      out = ring_.index(value);
      return true;
    }
    /// Operations that have published a request.
    std::uint64_t slow() const noexcept { return slow_; }

   private:
    word publish(sync::atomic<word>& at, word ticket, bool pushes, word index) {
      mine_.pushes.store(pushes);
      mine_.index.store(index);
      mine_.first.store(ticket);
      at.store(ticket << 2);
      between();
      return mine_.number.fetch_add(1) + 1;
    }
    void help_a_peer() {
      if (--delay_ != 0) return;
      delay_ = ring_.limits_.delay;
      request& r = *peer_;
      peer_ = &ring_.requests_.after(r);
      const word number = r.number.load();
      if (number % 2 == 0) return;
      between();
      const bool pushes = r.pushes.load();
      const word index = r.index.load();
      const word first = r.first.load();
      if (r.number.load() != number) return;
      if (pushes) ring_.push_slowly(mine_, r, number, first, index);
      else ring_.pop_slowly(mine_, r, number, first);
    }

    wcq_ring& ring_;
    request& mine_;
    request* peer_ = &mine_;
    unsigned delay_ = ring_.limits_.delay;
    std::uint64_t slow_ = 0;
  };

 private:
  // value: from the low bits up the index, the done bit (clear: of a request that may not be finished), the safe bit
  // and the cycle. note: helpers of requests pass this entry in cycles up to this one.
  struct alignas(16) entry {
    sync::atomic<word> value{0};
    sync::atomic<word> note{0};
  };
  static constexpr std::size_t in_line = line_size / sizeof(entry);
  struct alignas(line_size) line {
    entry entries[in_line]{};
  };
  // The step by which a helper takes ticket `count` for the request with the word `at`. serial is odd while it changes.
  struct step {
    sync::atomic<word> serial{0};
    sync::atomic<sync::atomic<word>*> at{nullptr};
    sync::atomic<word> count{0};
  };
  // helping: the step that has made the count what it is, if it may not be finished.
  struct alignas(isolation_size) counter {
    alignas(16) sync::atomic<word> count{0};
    sync::atomic<step*> helping{nullptr};
  };
  // number: odd while the request is open. tail_at, head_at: the ticket of the request, and two marks. first: its first
  // ticket, which is lost already.
  struct alignas(isolation_size) request : registered<request> {
    sync::atomic<word> number{0};
    sync::atomic<bool> pushes{false};
    sync::atomic<word> index{0};
    sync::atomic<word> first{0};
    sync::atomic<word> tail_at{0};
    sync::atomic<word> head_at{0};
    step tail_step{};
    step head_step{};
  };
  static constexpr word finished = 1, open = 2;  // of a request's ticket: it is the last one; it is not taken yet

  word taken() const noexcept { return (word{1} << bits_) - 1; }  // of an index: a dequeuer has had it
  word none() const noexcept { return taken() - 1; }              // of an index: there was none
  word done_bit() const noexcept { return word{1} << bits_; }
  word safe_bit() const noexcept { return word{2} << bits_; }
  word made(word cycle, word marks, word index) const noexcept { return cycle << (bits_ + 2) | marks | index; }
  word index(word value) const noexcept { return value & taken(); }
  word cycle(word value) const noexcept { return value >> (bits_ + 2); }
  word lap(word ticket) const noexcept { return ticket >> bits_; }
  bool vacant(word value) const noexcept { return index(value) >= none(); }
  /// An unsafe entry may be used only while the dequeuer of the ticket is still to come.
  bool usable(word value, word ticket) const noexcept {
    return vacant(value) && ((value & safe_bit()) != 0 || head_.count.load() <= ticket);
  }
  /// The entry after a dequeuer that found nothing: its enqueuer must not use it any more.
  word passed(word value, word ticket) const noexcept {
    return vacant(value) ? made(lap(ticket), (value & safe_bit()) | done_bit(), none()) : value & ~safe_bit();
  }
  entry& at(word ticket) noexcept {
    const word place = ticket & taken();
    return entries_[place % lines_].entries[place / lines_];
  }
  static void between() {
    if constexpr (requires { Pause::between(); }) Pause::between();
  }
  static void finish(sync::atomic<word>& at, word ticket) noexcept {
    word last = ticket << 2;
    at.compare_exchange_strong(last, last | finished);
  }
  void refill() noexcept {
    if (threshold_.load() != spent_) threshold_.store(spent_);
  }
  void catch_up(word tail, word head) noexcept {
    while (tail < head && !tail_.count.compare_exchange_strong(tail, head)) head = head_.count.load();
  }
  void consume(entry& e, word value, word ticket) {
    between();
    if ((value & done_bit()) == 0) requests_.for_each([&](request& r) { finish(r.tail_at, ticket); });
    e.value.fetch_or(taken() | done_bit());
  }

  bool push_fast(word index, word& ticket) {
    ticket = tail_.count.fetch_add(1);
    between();
    entry& e = at(ticket);
    for (word seen = e.value.load(); cycle(seen) < lap(ticket) && usable(seen, ticket);) {
      between();
      if (!e.value.compare_exchange_strong(seen, made(lap(ticket), safe_bit() | done_bit(), index))) continue;
      refill();
      return true;
    }
    return false;
  }
  /// True: `out` is the index. False: the ring is empty. Nothing: the ticket is lost.
  std::optional<bool> pop_fast(word& out, word& ticket) {
    ticket = head_.count.fetch_add(1);
    between();
    entry& e = at(ticket);
    unsigned patience = limits_.wait;
    for (word seen = e.value.load(); cycle(seen) <= lap(ticket);) {
      if (cycle(seen) == lap(ticket)) {
        consume(e, seen, ticket);
        out = index(seen);
        return true;
      }
      if (vacant(seen) && patience != 0 && tail_.count.load() > ticket) {
        --patience;
        Pause::turn();
        seen = e.value.load();
      } else if (e.value.compare_exchange_strong(seen, passed(seen, ticket))) {
        break;
      }
    }
    const word tail = tail_.count.load();
    if (tail <= ticket + 1) {
      catch_up(tail, ticket + 1);
      threshold_.fetch_sub(1);
      return false;
    }
    if (threshold_.fetch_sub(1) <= 0) return false;
    return std::nullopt;
  }

  /// By its owner and by helpers, until it is finished.
  void push_slowly(request& own, request& r, word number, word ticket, word index) {
    word now = ticket << 2;
    while (next_ticket(tail_, own.tail_step, r, number, r.tail_at, now)) {
      if (!put(now >> 2, index)) continue;
      between();
      finish(r.tail_at, now >> 2);
      entry& e = at(now >> 2);
      word value = made(lap(now >> 2), safe_bit(), index);
      e.value.compare_exchange_strong(value, value | done_bit());
      refill();
    }
  }
  void pop_slowly(request& own, request& r, word number, word ticket) {
    word now = ticket << 2;
    while (next_ticket(head_, own.head_step, r, number, r.head_at, now))
      if (look(now >> 2)) finish(r.head_at, now >> 2);
  }
  /// True: the index is in the entry of the ticket. False: no helper puts it there any more.
  bool put(word ticket, word index) {
    entry& e = at(ticket);
    for (;;) {
      const word note = e.note.load();  // before the value: if that has changed since, it was not by this ticket's
      const word value = e.value.load();
      between();
      if (cycle(value) >= lap(ticket) || note >= lap(ticket))
        return cycle(value) == lap(ticket) && this->index(value) != none();
      if (!usable(value, ticket)) {
        if (exchange_both(e, value, note, value, lap(ticket))) return false;
      } else if (exchange_both(e, value, note, made(lap(ticket), safe_bit(), index), note)) {
        return true;
      }
    }
  }
  /// True: there is an index in the entry of the ticket, or the ring is empty.
  bool look(word ticket) {
    entry& e = at(ticket);
    for (word value = e.value.load(); cycle(value) <= lap(ticket); value = e.value.load()) {
      between();
      if (cycle(value) == lap(ticket)) {
        if (index(value) != none()) return true;
        break;
      }
      if (e.value.compare_exchange_strong(value, passed(value, ticket))) break;
    }
    const word tail = tail_.count.load();
    if (tail <= ticket + 1) catch_up(tail, ticket + 1);
    return tail <= ticket + 1 || threshold_.load() < 0;
  }

  /// The count of `c` when no step is under way. Nothing: the request with this word is finished.
  std::optional<word> settled(counter& c, const sync::atomic<word>& at) {
    for (;;) {
      if ((at.load() & finished) != 0) return std::nullopt;
      const word count = c.count.load();
      step* const s = c.helping.load();
      if (s == nullptr) return count;
      const word serial = s->serial.load();
      sync::atomic<word>* const its = s->at.load();
      const word taken_by_it = s->count.load();
      between();
      if (serial % 2 == 0 && s->serial.load() == serial && c.helping.load() == s) {
        word not_taken = taken_by_it << 2 | open;
        its->compare_exchange_strong(not_taken, taken_by_it << 2);
      }
      exchange_both(c, count, std::bit_cast<word>(s), count, 0);
    }
  }

  /// The next ticket of the request, in `now`. False: it is finished. `now` is what this thread knows of the word `at`.
  bool next_ticket(counter& c, step& own, request& r, word number, sync::atomic<word>& at, word& now) {
    word count = 0;
    do {
      const std::optional<word> next = settled(c, at);
      between();
      if (next && at.compare_exchange_strong(now, *next << 2 | open)) {
        now = *next << 2 | open;
      } else {
        now = at.load();
        if (r.number.load() != number || (now & finished) != 0) return false;
        if ((now & open) == 0) return true;
      }
      count = now >> 2;
      own.serial.fetch_add(1);
      own.at.store(&at);
      own.count.store(count);
      own.serial.fetch_add(1);
      between();
    } while (!exchange_both(c, count, word{0}, count + 1, std::bit_cast<word>(&own)));
    if (&c == &head_) threshold_.fetch_sub(1);
    between();
    at.compare_exchange_strong(now, count << 2);
    now = count << 2;
    exchange_both(c, count + 1, std::bit_cast<word>(&own), count + 1, 0);
    return true;
  }

  const unsigned bits_;
  const wcq_limits limits_;
  const std::int64_t spent_;
  const word lines_;
  const std::unique_ptr<line[]> entries_;
  counter tail_;
  counter head_;
  alignas(isolation_size) sync::atomic<std::int64_t> threshold_;
  registry<request> requests_;
};

template <class T, class Pause = cpu_turn>
using wcq = indexed_queue<T, wcq_ring<Pause>>;

}  // namespace muster::bench::inline MUSTER_ABI
