// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_paper.hpp: Osci as printed: Algorithm 1 of Fatourou and Kallimanis, "Lock Oscillation: Boosting the Performance
// of Concurrent Data Structures", OPODIS 2017. Requests and results are 64-bit numbers; one function serves them all.
//
// Faithful to  Algorithm 1, line by line (the numbers below): two nodes for each fiber, in every node a place for each
//              fiber of its core, Announce and door by compare-and-swap, Tail emptied by compare-and-swap, h = 2n.
// Corrected    the algorithm prints that requests begin with completed = false, so that a combiner would apply
//              places that no thread has filled. Here, as in the authors' program, they begin with completed = true.
// Differs      nodes belong to the object and not to the fibers, because a combiner may look at a node whose fiber has
//              its result and has ended. Memory orders are the weakest that the algorithm allows.
// Waiting      Pause::turn() is the paper's YIELD. A fiber that finds a closed door in line 21 starts again without
//              one; that ends when the core's director has its turn, so strict priorities are excluded.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Operation: std::int64_t operator()(State&, std::int64_t argument).
template <class State, class Operation, class Pause = cpu_turn>
class osci_paper {
  struct request {
    std::int64_t argument = 0;
    std::int64_t result = 0;
    sync::atomic<bool> completed{true};
    sync::atomic<bool> locked{true};
  };
  enum : int { locked, open, closed };
  struct alignas(isolation_size) node {
    std::unique_ptr<request[]> requests;  // t of them, by the fiber's place on its core
    sync::atomic<int> door{locked};
    sync::atomic<node*> next{nullptr};
  };
  struct alignas(isolation_size) announcement {
    sync::atomic<node*> node_of_core{nullptr};
  };

 public:
  /// For `fibers` fibers on each of `cores` threads.
  template <class... Args>
  osci_paper(unsigned cores, unsigned fibers, Args&&... args)
      : fibers_(fibers),
        help_(2 * cores * fibers),
        announced_(cores),
        nodes_(std::size_t{2} * cores * fibers),
        state_(std::forward<Args>(args)...) {
    for (node& n : nodes_) n.requests = std::make_unique<request[]>(fibers);
  }
  osci_paper(const osci_paper&) = delete;
  osci_paper& operator=(const osci_paper&) = delete;

  /// The fiber with number `place` on `core`. One for each.
  class handle {
   public:
    handle(osci_paper& object, unsigned core, unsigned place)
        : object_(object),
          announced_(object.announced_[core].node_of_core),
          place_(place),
          nodes_(&object.nodes_[2 * (std::size_t{core} * object.fibers_ + place)]) {}

    std::int64_t apply(std::int64_t argument) {
      for (;;) {
        node& own = nodes_[toggle_];  // 1
        node* current = nullptr;      // 2
        if (announced_.compare_exchange_strong(current, &own, std::memory_order_acq_rel, std::memory_order_acquire)) {
          toggle_ = 1 - toggle_;  // 4
          request& mine = own.requests[place_];
          mine.argument = argument;                                // 5
          mine.locked.store(true, std::memory_order_relaxed);      // 6
          mine.completed.store(false, std::memory_order_relaxed);  // 7
          own.next.store(nullptr, std::memory_order_relaxed);      // 8
          own.door.store(open, std::memory_order_release);         // 9
          Pause::turn();                                           // 10
          announced_.store(nullptr, std::memory_order_relaxed);    // 11
          for (int seen = open; !own.door.compare_exchange_strong(seen, closed, std::memory_order_acquire);
               seen = open) {
            Pause::turn();  // 12
          }
          node* const before = object_.tail_.exchange(&own, std::memory_order_acq_rel);  // 13
          if (before == nullptr) return combine(own);                                    // 14
          before->next.store(&own, std::memory_order_release);                           // 15
          while (mine.locked.load(std::memory_order_acquire)) Pause::turn();             // 16
          if (mine.completed.load(std::memory_order_relaxed)) return mine.result;        // 17, 18
          return combine(own);
        }
        bool passed = false;
        for (int seen = open;; seen = open) {  // 20
          passed = current->door.compare_exchange_strong(seen, locked, std::memory_order_acquire);
          if (passed || seen == closed) break;  // 21
          Pause::turn();                        // 22
        }
        if (!passed) continue;
        request& mine = current->requests[place_];  // 23, 24
        mine.argument = argument;
        mine.locked.store(true, std::memory_order_relaxed);
        mine.completed.store(false, std::memory_order_relaxed);
        current->door.store(open, std::memory_order_release);                    // 25
        while (mine.locked.load(std::memory_order_acquire)) Pause::turn();       // 26
        if (mine.completed.load(std::memory_order_relaxed)) return mine.result;  // 27, 28
        return combine(*current);
      }
    }

   private:
    std::int64_t combine(node& first) {
      node* at = &first;  // 29
      unsigned served = 0;
      for (;;) {
        for (unsigned j = 0; j < object_.fibers_; ++j) {  // 31
          request& one = at->requests[j];
          if (one.completed.load(std::memory_order_relaxed)) continue;  // 32
          one.result = Operation{}(object_.state(), one.argument);      // 33
          one.completed.store(true, std::memory_order_relaxed);         // 34
          one.locked.store(false, std::memory_order_release);           // 35
          ++served;                                                     // 36
        }
        node* const next = at->next.load(std::memory_order_acquire);  // 37
        if (next == nullptr || served >= object_.help_) break;
        at = next;  // 38
      }
      const request& mine = first.requests[place_];
      node* next = at->next.load(std::memory_order_acquire);  // 39
      if (next == nullptr) {
        node* last = at;  // 40
        if (object_.tail_.compare_exchange_strong(last, nullptr, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
          return mine.result;  // 41
        }
        while ((next = at->next.load(std::memory_order_acquire)) == nullptr) Pause::turn();  // 42
      }
      unsigned j = 0;  // 43
      while (next->requests[j].completed.load(std::memory_order_relaxed)) ++j;
      next->requests[j].locked.store(false, std::memory_order_release);  // 44
      return mine.result;                                                // 45
    }

    osci_paper& object_;
    sync::atomic<node*>& announced_;
    const unsigned place_;
    node* const nodes_;
    unsigned toggle_ = 0;
  };

  /// Only while no thread uses the object.
  State& state() noexcept { return state_.write_ref(); }

 private:
  const unsigned fibers_;
  const unsigned help_;
  alignas(isolation_size) sync::atomic<node*> tail_{nullptr};
  std::vector<announcement> announced_;
  std::vector<node> nodes_;
  alignas(isolation_size) sync::cell<State> state_;
};

}  // namespace muster::bench::inline MUSTER_ABI
