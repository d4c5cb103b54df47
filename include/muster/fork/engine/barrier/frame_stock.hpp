// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_stock.hpp: the unused records of one thread. A signal handler, which cannot allocate any, uses these and the
// ones that the sender of the signal has given.
//
// Threads    any thread may call give(). The rest is for the owner, or for a handler that interrupts it outside of
//            these functions.
#pragma once

#include <muster/base/sync.hpp>                         // sync::atomic
#include <muster/fork/engine/barrier/frame_record.hpp>  // frame_record

#include <algorithm>  // std::min
#include <new>        // std::nothrow
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

class frame_stock {
 public:
  frame_stock() = default;
  frame_stock(const frame_stock&) = delete;
  frame_stock& operator=(const frame_stock&) = delete;
  ~frame_stock() {
    delete_all(free_);
    delete_all(gift_.load(std::memory_order_relaxed));
  }

  /// Returns null if there is none.
  frame_record* take() noexcept {
    frame_record* const one = free_;
    if (one == nullptr) return nullptr;
    free_ = one->next_free_.get();
    --many_;
    return one;
  }
  /// The same, but allocates one if there is none.
  frame_record* make() noexcept {
    frame_record* const one = take();
    return one != nullptr ? one : new (std::nothrow) frame_record;
  }
  void put(frame_record& one) noexcept {
    one.next_free_.ref() = free_;
    free_ = &one;
    ++many_;
  }
  /// Allocates records until there are `many`, or no memory is left.
  void fill(unsigned many) noexcept {
    while (many_ < many) {
      auto* const one = new (std::nothrow) frame_record;
      if (one == nullptr) return;
      put(*one);
    }
  }

  /// Called by a handler that lacked `many` records.
  void lacks(unsigned many) noexcept { lacking_.store(many, std::memory_order_relaxed); }
  /// Called by a thread that is about to send a signal: allocates the records that the last handler lacked.
  void give() noexcept {
    const unsigned lacking = lacking_.exchange(0, std::memory_order_relaxed);
    if (lacking == 0) return;
    frame_record* all = nullptr;
    for (unsigned i = 0; i < std::min(lacking, most) + spare; ++i) {
      auto* const one = new (std::nothrow) frame_record;
      if (one == nullptr) break;
      one->next_free_.ref() = std::exchange(all, one);
    }
    if (all == nullptr) return;  // no memory
    // (1) acq_rel: pairs with (2), and with itself.
    delete_all(gift_.exchange(all, std::memory_order_acq_rel));
  }
  /// Called by the handler: takes the given records. Returns true if there are any records.
  bool take_gift() noexcept {
    // (2) acquire: pairs with (1).
    for (frame_record* one = gift_.exchange(nullptr, std::memory_order_acquire); one != nullptr;)
      put(*std::exchange(one, one->next_free_.get()));
    return free_ != nullptr;
  }

 private:
  static constexpr unsigned most = 4096, spare = 16;
  static void delete_all(frame_record* first) noexcept {
    while (first != nullptr) delete std::exchange(first, first->next_free_.get());
  }

  frame_record* free_ = nullptr;
  unsigned many_ = 0;
  sync::atomic<unsigned> lacking_{0};  // the number of forks for which a handler had no record
  sync::atomic<frame_record*> gift_{nullptr};
};

}  // namespace muster::inline MUSTER_ABI::detail
