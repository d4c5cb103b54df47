// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clh_lock.hpp: a queue lock. Each thread waits on the node of the thread before it. Its users decide how they wait and
// where their nodes come from.
//
// Order      first come, first served.
// Memory     a node of a line pair for each thread that holds the lock or waits for it, and one in the lock.
// Cost       one exchange to enter and one store to leave.
// Source     Craig, "Building FIFO and priority-queuing spin locks from atomic swap", 1993; Magnusson, Landin and
//            Hagersten, "Queue locks on cache coherent multiprocessors", IPPS 1994.
#pragma once

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <cstdint>  // std::uint32_t

namespace muster::bench::inline MUSTER_ABI {

struct alignas(isolation_size) clh_node {
  explicit clh_node(std::uint32_t key_in = 0) : key(key_in) {}
  sync::atomic<std::uint32_t> held{0};  // 1: its owner has the lock or waits for it
  std::uint32_t key;                    // of the next thread, which waits
};

class clh_lock {
 public:
  explicit clh_lock(clh_node* first) noexcept : last_(first) {}

  /// Returns the node of the thread before. When has_left() says so, the caller has the lock, and that node is its own
  /// from now on.
  MUSTER_HOT clh_node* enter(clh_node* own) noexcept {
    own->held.store(1, std::memory_order_relaxed);
    // (1) acq_rel: pairs with (1). The next thread finds our node held, and not as it was before.
    return last_.exchange(own, std::memory_order_acq_rel);
  }
  MUSTER_HOT static bool has_left(const clh_node* before) noexcept {
    // (3) acquire: pairs with (2).
    return before->held.load(std::memory_order_acquire) == 0;
  }
  /// Gives `own` to the next thread.
  MUSTER_HOT static void leave(clh_node* own) noexcept {
    // (2) release: pairs with (3). The next has the object as we leave it, and the node; and may end the object.
    own->held.store(0, std::memory_order_release);
  }

  /// Only while no thread enters.
  clh_node* last() const noexcept { return last_.load(std::memory_order_relaxed); }
  bool is_free() const noexcept { return last()->held.load(std::memory_order_relaxed) == 0; }

 private:
  alignas(isolation_size) sync::atomic<clh_node*> last_;
};

}  // namespace muster::bench::inline MUSTER_ABI
