// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// treiber_stack.hpp: the lock-free list stack of Treiber, "Systems Programming: Coping with Parallelism", IBM RJ 5118,
// 1986. Unbounded, strict LIFO.
//
// Faithful to  the report's algorithm: one word, top, that push and pop change by compare-and-swap.
// Differs      hazard pointers (reclaim.hpp) and not a counter beside the pointer; randomized exponential backoff after
//              a lost race, without which no later paper measures it.
// Waiting      Pause::turn() between two attempts of a thread that has lost a race.
// Memory       nodes of a line each, from the handle's pool. A popped value's moved-from shell lives until its node is
//              used again. T must be default-constructible and movable by assignment.
#pragma once

#include "reclaim.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::new_object_id

#include <utility>

namespace muster::bench::inline MUSTER_ABI {

template <class T, class Pause = cpu_turn>
class treiber_stack {
  struct alignas(line_size) node {
    T value{};
    node* next = nullptr;  // written only while the node is its pusher's
  };
  using hazards = hazard_domain<node, 1>;

 public:
  explicit treiber_stack(backoff_limits limits = {}) : limits_(limits) {}
  treiber_stack(const treiber_stack&) = delete;
  treiber_stack& operator=(const treiber_stack&) = delete;
  ~treiber_stack() {
    for (node* n = top_.load(); n != nullptr;) {
      node* const next = n->next;
      delete n;
      n = next;
    }
  }

  /// One per user-level thread; ends before the stack.
  class handle {
   public:
    explicit handle(treiber_stack& s) : stack_(s), owner_(s.hazards_) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;

    void push(T value) {
      node* const fresh = owner_.obtain();
      fresh->value = std::move(value);
      fresh->next = stack_.top_.load(std::memory_order_relaxed);
      backoff<Pause> race(stack_.limits_, dice_);
      while (!stack_.top_.compare_exchange_strong(fresh->next, fresh)) {
        race.lost();
        fresh->next = stack_.top_.load(std::memory_order_relaxed);
      }
    }

    /// False when the stack is empty.
    bool pop(T& out) {
      backoff<Pause> race(stack_.limits_, dice_);
      for (;;) {
        node* top = owner_.protect(0, stack_.top_);
        if (top == nullptr) return false;
        // An announced node cannot come back as top with another next: it is not used again before we are done.
        if (stack_.top_.compare_exchange_strong(top, top->next)) {
          out = std::move(top->value);
          owner_.clear(0);
          owner_.retire(top);
          return true;
        }
        race.lost();
      }
    }

   private:
    treiber_stack& stack_;
    typename hazards::owner owner_;
    small_random dice_{sync::new_object_id()};
  };

 private:
  alignas(isolation_size) sync::atomic<node*> top_{nullptr};
  alignas(isolation_size) const backoff_limits limits_;
  hazards hazards_;
};

}  // namespace muster::bench::inline MUSTER_ABI
