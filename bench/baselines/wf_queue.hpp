// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wf_queue.hpp: the wait-free queue of Yang and Mellor-Crummey, "A Wait-free Queue as Fast as Fetch-and-Add", PPoPP
// 2016. Unbounded, strict FIFO, of 64-bit values other than the two above `wf_queue::greatest`.
//
// Faithful to  the paper's listings: a fetch-add gives an operation a cell of an endless array; a dequeuer that finds
//              its cell without a value closes it; an operation that has lost its cell once and then `patience` times
//              more publishes a request. A dequeuer offers each closed cell to a peer that asks to enqueue, and after
//              each success helps a peer that asks to dequeue. Patience 10 is WF-10.
// Differs      1. As in the authors' program, a dequeuer waits a little before it closes a cell; but only for an
//                 enqueuer that has the cell's ticket already.
//              2. Segments of the array are reclaimed as in the paper, oldest first, up to the least that an operation
//                 under way may need, but by a protocol of our own (endless_array.hpp). In the paper the cleaner moves
//                 other threads' pointers; here a thread finds out by itself that its pointer is of the past. The order
//                 between announcement and ticket is that of x86 there; here the tickets give it, on any machine, at
//                 no cost. Hazard pointers (reclaim.hpp) protect a segment, but not the segments reached from it.
// Corrected    A cell names the request that it is offered to by the request's number, where the paper's points to the
//              enqueuer's only record. With that, a helper of a dequeuer that comes late to a cell which others have
//              left finds the enqueuer's next request there, and puts a value where no thread looks any more. Here a
//              request is found by its number, in a pass over all records.
//              Left as it is: a thread that stops in the middle of an operation or of cleaning holds back memory. No
//              thread waits for it, but memory is not bounded; where it is, the queue is not wait-free.
// Waiting      Pause::turn() while a dequeuer waits for the enqueuer of its cell, at most `wait` times. Tests delay
//              operations between two steps by Pause::between().
// Memory       SegmentSize times CellAlign per segment, 64 KiB by default; a handle keeps two that are free.
// Order        everything is sequentially consistent, as in the proofs of the paper.
#pragma once

#include "endless_array.hpp"
#include "registry.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>    // isolation_size, line_size
#include <muster/base/config.hpp>  // MUSTER_CHECK
#include <muster/base/sync.hpp>    // sync::atomic

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace muster::bench::inline MUSTER_ABI {

struct wf_limits {
  unsigned patience = 10;  // further tickets that an operation takes before it asks for help
  unsigned wait = 16;      // turns that a dequeuer gives an enqueuer that has its ticket
};

template <class T = std::uint64_t, class Pause = cpu_turn, std::size_t SegmentSize = 1024,
          std::size_t CellAlign = line_size>
class wf_queue {
  static_assert(sizeof(T) == sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>, "wf_queue holds 64-bit values");
  using word = std::uint64_t;
  struct cell;
  struct dequeue_request;
  struct record;
  using array = endless_array<cell, SegmentSize>;
  using position = typename array::position;

 public:
  /// The greatest bit pattern that can be pushed.
  static constexpr word greatest = std::numeric_limits<word>::max() - 2;

  explicit wf_queue(wf_limits limits = {}) : limits_(limits) {}
  wf_queue(const wf_queue&) = delete;
  wf_queue& operator=(const wf_queue&) = delete;

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(wf_queue& q) : queue_(q), view_(q.cells_), mine_(q.records_.join()) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() { registry<record>::leave(mine_); }

    /// Aborts when the value's bits are a number above `greatest`.
    void push(T item) {
      const word value = std::bit_cast<word>(item);
      MUSTER_CHECK(value <= greatest, "wf_queue cannot hold a value above wf_queue::greatest: push another one");
      word ticket = view_.begin(tail_, queue_.cells_.tail);
      for (unsigned patience = queue_.limits_.patience;; --patience) {
        between();
        word none = untouched;
        if (view_.find(tail_, ticket).value.compare_exchange_strong(none, value)) break;
        if (patience == 0) {
          push_slowly(value, ticket);
          break;
        }
        ticket = queue_.cells_.tail.fetch_add(1);
      }
      view_.end();
    }
    /// False when the queue is empty.
    bool pop(T& out) {
      const word before = head_.id;
      word ticket = view_.begin(head_, queue_.cells_.head);
      word value = untouched;
      for (unsigned patience = queue_.limits_.patience;; --patience) {
        between();
        cell& c = view_.find(head_, ticket);
        value = settle(c, ticket);
        word none = 0;
        if (value == untouched || (value != closed && c.dequeue.compare_exchange_strong(none, ticket))) break;
        if (patience == 0) {
          value = pop_slowly(ticket);
          break;
        }
        ticket = queue_.cells_.head.fetch_add(1);
      }
      if (value != untouched) {
        help(*dequeue_peer_);
        dequeue_peer_ = &queue_.records_.after(*dequeue_peer_);
      }
      view_.end();
      if (head_.id != before) view_.clean(head_);
      if (value != untouched) out = std::bit_cast<T>(value);
      return value != untouched;
    }
    /// Operations of this handle that have published a request.
    std::uint64_t slow_pushes() const noexcept { return slow_pushes_; }
    std::uint64_t slow_pops() const noexcept { return slow_pops_; }

   private:
    void push_slowly(word value, word id) {
      ++slow_pushes_;
      enqueue_request& mine = mine_.enqueue;
      mine.value.store(value);
      mine.state.store(pending | id);
      position at = tail_;  // the helpers' cell may be in an earlier segment than the last ticket's
      do {
        const word ticket = queue_.cells_.tail.fetch_add(1);
        cell& c = view_.find(at, ticket);
        word none = 0;
        // A thread that closes the cell after we have found it open sees our request in it.
        if (c.enqueue.compare_exchange_strong(none, id) && c.value.load() == untouched) {
          word state = pending | id;
          mine.state.compare_exchange_strong(state, ticket);
        }
        between();
      } while ((mine.state.load() & pending) != 0);
      const word ticket = mine.state.load();
      queue_.commit(view_.find(tail_, ticket), value, ticket);
    }
    word pop_slowly(word id) {
      ++slow_pops_;
      dequeue_request& mine = mine_.dequeue;
      mine.id.store(id);
      mine.from.store(head_.at);
      mine.state.store(pending | id);
      serve(mine, id, head_);
      between();
      const word ticket = mine.state.load();
      const word value = view_.find(head_, ticket).value.load();
      raise(queue_.cells_.head, ticket + 1);
      return value == closed ? untouched : value;
    }
    /// The item in the cell; or `closed`, when there will be none, and `untouched`, when the queue was empty as well.
    word settle(cell& c, word ticket) {
      word value = c.value.load();
      for (unsigned turns = queue_.limits_.wait; turns != 0 && value == untouched; --turns) {
        if (queue_.cells_.tail.load() <= ticket) break;
        Pause::turn();
        value = c.value.load();
      }
      between();
      if (value == untouched && c.value.compare_exchange_strong(value, closed)) value = closed;
      if (value != closed) return value;
      if (c.enqueue.load() == 0) offer(c, ticket);
      if (const word id = c.enqueue.load(); id != no_request) complete(c, ticket, id);
      value = c.value.load();
      return value == closed && queue_.cells_.tail.load() <= ticket ? untouched : value;
    }
    /// Offers a closed cell to a peer that asks to enqueue, if there is one.
    void offer(cell& c, word ticket) {
      word state = enqueue_peer_->enqueue.state.load();
      if (unhelped_ != 0 && unhelped_ != (state & ~pending)) {
        unhelped_ = 0;
        enqueue_peer_ = &queue_.records_.after(*enqueue_peer_);
        state = enqueue_peer_->enqueue.state.load();
      }
      between();
      const word id = state & ~pending;
      word none = 0;
      if ((state & pending) != 0 && id <= ticket && !c.enqueue.compare_exchange_strong(none, id))
        unhelped_ = id;  // this peer next again
      else enqueue_peer_ = &queue_.records_.after(*enqueue_peer_);
      none = 0;
      c.enqueue.compare_exchange_strong(none, no_request);
    }
    /// Puts the value of a request into the cell that is offered to it, unless the request has another cell.
    void complete(cell& c, word ticket, word id) {
      queue_.records_.for_each([&](record& r) {
        word state = r.enqueue.state.load();
        between();
        const word value = r.enqueue.value.load();  // of that request, if its state is the same below
        between();
        if (state == (pending | id) && r.enqueue.state.compare_exchange_strong(state, ticket)) state = ticket;
        // As long as the cell is closed, the request's owner is not done with it.
        if (state == ticket && c.value.load() == closed) queue_.commit(c, value, ticket);
      });
    }
    void help(record& peer) {
      dequeue_request& r = peer.dequeue;
      word state = r.state.load();
      const word id = r.id.load();
      if ((state & pending) == 0 || (state & ~pending) < id) return;
      const position from{r.from.load(), array::segment_of(id)};
      view_.need_from(from.id);
      between();
      // Still under way, so its owner's announcement stood when ours was out.
      state = r.state.load();
      if ((state & pending) != 0 && r.id.load() == id) serve(r, id, from);
    }
    /// Until the request with that number is answered: finds a candidate, that is, a cell with an item that is not
    /// taken yet or one that shows that the queue is empty, announces it, and takes the announced one's item for the
    /// request.
    void serve(dequeue_request& r, word id, position from) {
      word state = r.state.load();
      word prior = id;
      word visited = id;
      for (word candidate = 0;;) {
        for (position at = from; candidate == 0 && state == (pending | prior);) {
          cell& c = view_.find(at, ++visited);
          const word value = settle(c, visited);
          between();
          if (value == untouched || (value != closed && c.dequeue.load() == 0)) candidate = visited;
          else state = r.state.load();
        }
        if (candidate != 0) {
          word expected = pending | prior;
          r.state.compare_exchange_strong(expected, pending | candidate);
          state = r.state.load();
        }
        if ((state & pending) == 0 || r.id.load() != id) return;
        const word announced = state & ~pending;
        cell& c = view_.find(from, announced);
        between();
        word none = 0;
        if (c.value.load() == closed || c.dequeue.compare_exchange_strong(none, id) || none == id) {
          between();
          r.state.compare_exchange_strong(state, announced);
          return;
        }
        prior = announced;
        if (announced >= visited) {
          visited = announced;
          candidate = 0;
        }
      }
    }

    wf_queue& queue_;
    typename array::visitor view_;
    record& mine_;
    position tail_{};
    position head_{};
    record* enqueue_peer_ = &mine_;
    word unhelped_ = 0;  // the number of the peer's request that this handle could not offer a cell; 0: none
    record* dequeue_peer_ = &mine_;
    std::uint64_t slow_pushes_ = 0;
    std::uint64_t slow_pops_ = 0;
  };

 private:
  // Of a value: nothing has come yet, which settle() also returns for an empty queue; nothing will come by fetch-add.
  static constexpr word untouched = greatest + 2;
  static constexpr word closed = greatest + 1;
  // Of cell::enqueue: no request will be offered this cell.
  static constexpr word no_request = std::numeric_limits<word>::max();
  // Of a request's state.
  static constexpr word pending = word{1} << 63;

  // enqueue: the number of the request that the cell is offered to, once. dequeue: that of the request that has taken
  // the item, or of the cell itself; set once. value goes from untouched to an item, or to closed and then to an item.
  struct alignas(CellAlign) cell {
    void reset() noexcept {
      value.store(untouched, std::memory_order_relaxed);
      enqueue.store(0, std::memory_order_relaxed);
      dequeue.store(0, std::memory_order_relaxed);
    }
    sync::atomic<word> value{untouched};
    sync::atomic<word> enqueue{0};
    sync::atomic<word> dequeue{0};
  };
  // A request's number is the ticket that its owner has lost last: no two have the same. state: that number and the
  // pending bit; then the ticket of the cell that the value goes into.
  struct enqueue_request {
    sync::atomic<word> value{0};
    sync::atomic<word> state{0};
  };
  // state: the pending bit and first the number, then the ticket of a candidate, each greater than the one before;
  // without the bit, that of the cell with the answer. from: the segment of the cell with the request's number.
  struct dequeue_request {
    sync::atomic<word> id{0};
    sync::atomic<word> state{0};
    sync::atomic<typename array::segment*> from{nullptr};
  };
  struct alignas(isolation_size) record : registered<record> {
    enqueue_request enqueue{};
    dequeue_request dequeue{};
  };

  static void between() {
    if constexpr (requires { Pause::between(); }) Pause::between();
  }
  static void raise(sync::atomic<word>& counter, word least) {
    for (word seen = counter.load(); seen < least && !counter.compare_exchange_weak(seen, least);) {
    }
  }

  void commit(cell& c, word value, word ticket) {
    raise(cells_.tail, ticket + 1);
    between();
    c.value.store(value);
  }

  array cells_;
  registry<record> records_;
  const wf_limits limits_;
};

}  // namespace muster::bench::inline MUSTER_ABI
