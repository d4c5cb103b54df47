// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wait.hpp: how every try_ operation of every contender is repeated, and the line all threads start from.
//
// One helper for all, so that no contender wins by waiting better: a few pauses, because the other side usually
// needs less than a microsecond, then a yield, because under oversubscription the other side may not be running.
#pragma once

#include <muster/base/sync.hpp>  // sync::relax, sync::yield

#include <atomic>

namespace muster::bench::inline MUSTER_ABI {

class patience {
 public:
  void wait() {
    if (rounds_ < spins) {
      ++rounds_;
      sync::relax();
    } else {
      sync::yield();
    }
  }
  void reset() { rounds_ = 0; }

 private:
  static constexpr unsigned spins = 64;
  unsigned rounds_ = 0;
};

/// Repeats `attempt` until it returns true.
template <class Attempt>
void until(Attempt attempt) {
  patience p;
  while (!attempt()) p.wait();
}

/// All threads arrive; then one opens the line for all.
class start_line {
 public:
  explicit start_line(unsigned threads) : missing_(threads) {}

  void arrive_and_wait() {
    missing_.fetch_sub(1, std::memory_order_acq_rel);
    until([this] { return open_.load(std::memory_order_acquire); });
  }
  void wait_for_all() const {
    until([this] { return missing_.load(std::memory_order_acquire) == 0; });
  }
  void open() { open_.store(true, std::memory_order_release); }

 private:
  std::atomic<unsigned> missing_;
  std::atomic<bool> open_{false};
};

}  // namespace muster::bench::inline MUSTER_ABI
