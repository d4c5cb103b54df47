// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ms_queue.hpp: the lock-free list queue of Michael and Scott, "Simple, Fast, and Practical Non-Blocking and Blocking
// Concurrent Queue Algorithms", PODC 1996. Unbounded, strict FIFO.
//
// Faithful to  the paper's non-blocking queue: a list with a dummy node, whose tail may lag by one node, and every
//              operation advances it; backoff after a lost race as in the paper's experiments.
// Differs      hazard pointers (reclaim.hpp) and not counted pointers and a free list that never shrinks; the value is
//              moved out after head has been won and not copied before, which hazards make possible. Pop looks at
//              `next` before it compares head with tail, as the list is empty if and only if the dummy has no next.
// Waiting      Pause::turn() between two attempts of a thread that has lost a race. Helping does not wait.
// Memory       nodes of a line each, from the handle's pool. A popped value's moved-from shell lives until its node is
//              used again. T must be default-constructible and movable by assignment.
#pragma once

#include "reclaim.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <cstddef>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

template <class T, class Pause = cpu_turn>
class ms_queue {
  struct alignas(line_size) node {
    sync::cell<T> value;
    sync::atomic<node*> next{nullptr};
  };
  using hazards = hazard_domain<node, 2>;

 public:
  explicit ms_queue(backoff_limits limits = {}) : limits_(limits) {
    node* const dummy = new node;
    head_.store(dummy);
    tail_.store(dummy);
  }
  ms_queue(const ms_queue&) = delete;
  ms_queue& operator=(const ms_queue&) = delete;
  ~ms_queue() {
    for (node* n = head_.load(); n != nullptr;) {
      node* const next = n->next.load();
      delete n;
      n = next;
    }
  }

  /// One per user-level thread; ends before the queue.
  class handle {
   public:
    explicit handle(ms_queue& q) : queue_(q), owner_(q.hazards_) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;

    void push(T value) {
      node* const fresh = owner_.obtain();
      fresh->value.write_ref() = std::move(value);
      fresh->next.store(nullptr, std::memory_order_relaxed);
      backoff<Pause> race(queue_.limits_, dice_);
      for (;;) {
        node* last = owner_.protect(first_slot, queue_.tail_);
        node* next = last->next.load();
        if (next != nullptr) {
          queue_.tail_.compare_exchange_strong(last, next);
          continue;
        }
        if (last->next.compare_exchange_strong(next, fresh)) {
          queue_.tail_.compare_exchange_strong(last, fresh);
          break;
        }
        race.lost();
      }
      owner_.clear(first_slot);
    }
    /// False when the queue is empty.
    bool pop(T& out) {
      backoff<Pause> race(queue_.limits_, dice_);
      for (;;) {
        node* first = owner_.protect(first_slot, queue_.head_);
        node* last = queue_.tail_.load();
        node* const next = first->next.load();
        owner_.announce(next_slot, next);
        // The paper's check. The exchange of head would find out, too: while head has not moved, next is not retired.
        if (queue_.head_.load() != first) continue;
        if (next == nullptr) {
          owner_.clear(first_slot);
          return false;
        }
        if (first == last) {
          queue_.tail_.compare_exchange_strong(last, next);
          continue;
        }
        if (queue_.head_.compare_exchange_strong(first, next)) {
          // Next is the dummy now. It may be retired before we are done, and our announcement keeps it.
          out = std::move(next->value.write_ref());
          owner_.clear(first_slot);
          owner_.clear(next_slot);
          owner_.retire(first);
          return true;
        }
        race.lost();
      }
    }

   private:
    ms_queue& queue_;
    typename hazards::owner owner_;
    small_random dice_{sync::new_object_id()};
  };

 private:
  static constexpr std::size_t first_slot = 0;
  static constexpr std::size_t next_slot = 1;

  // From head_ a list leads over tail_ to the last node. head_ points to the dummy, the values are in the nodes behind
  // it. head_ never passes tail_, so a node that head_ has left is not to be reached any more.
  alignas(isolation_size) sync::atomic<node*> head_;
  alignas(isolation_size) sync::atomic<node*> tail_;
  alignas(isolation_size) const backoff_limits limits_;
  hazards hazards_;
};

}  // namespace muster::bench::inline MUSTER_ABI
