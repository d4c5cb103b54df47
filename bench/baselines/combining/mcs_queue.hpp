// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mcs_queue.hpp: the queue of threads of the lock by Mellor-Crummey and Scott. Each thread waits on a node of its own,
// and the first of the queue is its owner.
//
// Source     Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", TOCS
//            1991.
#pragma once

#include <muster/base/arch.hpp>                  // isolation_size
#include <muster/base/sync.hpp>                  // sync::atomic
#include <muster/combine/detail/fiber_wait.hpp>  // waiting

#include <cstdint>  // std::uint32_t

namespace muster::bench::inline MUSTER_ABI {

/// Node has `sync::atomic<Node*> next`, written by the next thread.
template <class Node, class Wait>
class mcs_queue {
 public:
  /// Returns the node before, to which the caller must link its own; null: the caller is the first.
  MUSTER_HOT Node* append(Node* own) noexcept {
    own->next.store(nullptr, std::memory_order_relaxed);
    // (1) acq_rel: pairs with (1, 4). The next thread finds the node as it has been set up; when the queue was empty,
    // we have the object as its last user left it.
    return last_.exchange(own, std::memory_order_acq_rel);
  }
  static void link(Node* before, Node* own, detail::waiting<Wait>& waiting) {
    // (2) release: pairs with (3). The first sees the node as it has been filled.
    before->next.store(own, std::memory_order_release);
    waiting.notify(key);
  }
  /// For the first, whose node `at` is: ends its turn if no thread is behind it. Then the object is not its any more.
  MUSTER_HOT bool try_end(Node* at) noexcept {
    // Relaxed: a thread that comes too late for this look is found by the next.
    if (at->next.load(std::memory_order_relaxed) != nullptr) return false;
    // (4) release: pairs with (1). The first to come into the empty queue has the object as we leave it, and may end
    // it.
    return last_.compare_exchange_strong(at, nullptr, std::memory_order_release, std::memory_order_relaxed);
  }
  /// The node behind `at`, of a thread that has appended it and is perhaps about to link it.
  static Node* behind(Node* at, detail::waiting<Wait>& waiting) {
    Node* next = nullptr;
    waiting.await(key, [&] {
      // (3) acquire: pairs with (2).
      next = at->next.load(std::memory_order_acquire);
      return next != nullptr;
    });
    return next;
  }

  /// Only while no thread enters.
  bool is_empty() const noexcept { return last_.load(std::memory_order_relaxed) == nullptr; }

 private:
  static constexpr std::uint32_t key = 0;  // no node has it

  alignas(isolation_size) sync::atomic<Node*> last_{nullptr};
};

}  // namespace muster::bench::inline MUSTER_ABI
