// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clh_lock.hpp: the queue lock of Craig (1993) and of Magnusson, Landin, Hagersten (IPPS 1994).
//
// Faithful to  the papers: one exchange to enter, a wait on the predecessor's node, one store to leave, after which the
//              predecessor's node is ours. First come, first served.
// Waiting      Pause::turn(), without limit. The lock must not be held over a Pause::turn() that switches to a sibling
//              which wants it, unless that sibling's wait switches back; all waits here do.
// Memory       one node of a line pair per handle and one in the lock.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

namespace muster::bench::inline MUSTER_ABI {

template <class Pause = cpu_turn>
class clh_lock {
  struct alignas(isolation_size) node {
    sync::atomic<bool> locked{false};
  };

 public:
  clh_lock() : tail_(new node) {}
  clh_lock(const clh_lock&) = delete;
  clh_lock& operator=(const clh_lock&) = delete;
  ~clh_lock() { delete tail_.load(); }

  /// One per user-level thread; ends before the lock, and not while it holds the lock.
  class handle {
   public:
    explicit handle(clh_lock& l) : lock_(l), mine_(new node) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() { delete mine_; }

    /// Returns whether it had to wait.
    bool lock() noexcept {
      mine_->locked.store(true, std::memory_order_relaxed);
      before_ = lock_.tail_.exchange(mine_, std::memory_order_acq_rel);
      if (!before_->locked.load(std::memory_order_acquire)) return false;
      do Pause::turn();
      while (before_->locked.load(std::memory_order_acquire));
      return true;
    }
    void unlock() noexcept {
      node* const own = mine_;
      mine_ = before_;  // nobody else looks at it any more
      own->locked.store(false, std::memory_order_release);
    }

   private:
    clh_lock& lock_;
    node* mine_;
    node* before_ = nullptr;  // while we hold the lock
  };

 private:
  alignas(isolation_size) sync::atomic<node*> tail_;
};

}  // namespace muster::bench::inline MUSTER_ABI
