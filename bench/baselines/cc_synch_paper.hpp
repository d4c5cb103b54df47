// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cc_synch_paper.hpp: CC-Synch as published: Fatourou and Kallimanis, "Revisiting the Combining Synchronization
// Technique", PPoPP 2012. Requests and results are 64-bit numbers; one function serves them all.
//
// Faithful to  Algorithm 1: the list ends in a node without a request; an announcing thread exchanges it for its own,
//              and fills it; a node has the flags wait and completed; h = 10 n, as in the authors' program.
// Differs      nodes belong to the object and not to the threads. Memory orders are the weakest that the algorithm
//              allows.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, prefetch_for_write
#include <muster/base/sync.hpp>  // sync::atomic, sync::cell

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Operation: std::int64_t operator()(State&, std::int64_t argument).
template <class State, class Operation, class Pause = cpu_turn>
class cc_synch_paper {
  struct alignas(isolation_size) node {
    sync::atomic<node*> next{nullptr};
    sync::cell<std::int64_t> word{};  // the argument, then the result
    sync::atomic<bool> wait{false};
    sync::atomic<bool> completed{false};
  };

 public:
  /// For `fibers` fibers on each of `cores` threads.
  template <class... Args>
  cc_synch_paper(unsigned cores, unsigned fibers, Args&&... args)
      : fibers_(fibers),
        help_(10 * cores * fibers),
        nodes_(std::size_t{1} + cores * fibers),
        tail_(&nodes_.back()),
        state_(std::forward<Args>(args)...) {}
  cc_synch_paper(const cc_synch_paper&) = delete;
  cc_synch_paper& operator=(const cc_synch_paper&) = delete;

  /// The fiber with number `place` on `core`. One for each.
  class handle {
   public:
    handle(cc_synch_paper& object, unsigned core, unsigned place)
        : object_(object), spare_(&object.nodes_[std::size_t{core} * object.fibers_ + place]) {}

    std::int64_t apply(std::int64_t argument) {
      node* const last = spare_;
      last->next.store(nullptr, std::memory_order_relaxed);
      last->wait.store(true, std::memory_order_relaxed);
      last->completed.store(false, std::memory_order_relaxed);
      // (1) acq_rel: pairs with (1). The next thread to announce finds the node as set up here.
      node* const own = object_.tail_.exchange(last, std::memory_order_acq_rel);
      own->word.write_ref() = argument;
      // (2) release: pairs with (3). The combiner sees the argument.
      own->next.store(last, std::memory_order_release);
      spare_ = own;
      // (4) acquire: pairs with (5, 6). The result is there, or the state as the last combiner left it.
      while (own->wait.load(std::memory_order_acquire)) Pause::turn();
      if (own->completed.load(std::memory_order_relaxed)) return own->word.read_ref();
      node* at = own;
      for (unsigned served = 0;; ++served) {
        // (3) acquire: pairs with (2).
        node* const next = at->next.load(std::memory_order_acquire);
        if (next == nullptr || served >= object_.help_) break;
        muster::prefetch_for_write(next);
        at->word.write_ref() = Operation{}(object_.state_.write_ref(), at->word.read_ref());
        if (at != own) {
          at->completed.store(true, std::memory_order_relaxed);
          // (5) release: pairs with (4).
          at->wait.store(false, std::memory_order_release);
        }
        at = next;
      }
      // The result is read first: the node is this thread's own until its next operation.
      const std::int64_t result = own->word.read_ref();
      // (6) release: pairs with (4).
      at->wait.store(false, std::memory_order_release);
      return result;
    }

   private:
    cc_synch_paper& object_;
    node* spare_;
  };

  /// Only while no thread uses the object.
  State& state() noexcept { return state_.write_ref(); }

 private:
  const unsigned fibers_;
  const unsigned help_;
  std::vector<node> nodes_;
  alignas(isolation_size) sync::atomic<node*> tail_;
  alignas(isolation_size) sync::cell<State> state_;
};

}  // namespace muster::bench::inline MUSTER_ABI
