// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// records.hpp: a fork that was found on a stack; the unused records of a thread; and the records of one walk.
// engine.hpp describes the life of such a record.
#pragma once

#include <muster/base/sync.hpp>         // sync::atomic
#include <muster/fork/detail/task.hpp>  // task

#include <algorithm>  // std::min
#include <cstdint>    // std::uintptr_t
#include <new>        // std::nothrow
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// A fork that was found on the stack, and whose return address is replaced. Its frame waits until the second half is
/// done.
class stack_fork : public task {
 public:
  /// The place of the return address on the stack, and the original return address.
  std::uintptr_t slot() const noexcept { return slot_; }
  std::uintptr_t return_address() const noexcept { return return_address_; }
  /// The word that the frame kept for the second half, in the place that now holds the return address.
  std::uint64_t& closure() noexcept { return closure_; }
  /// The result of the second half, if it does not throw.
  std::uint64_t& result() noexcept { return result_; }

 private:
  template <class>
  friend class barrier_engine;
  friend class frame_stock;
  friend class found_forks;

  std::uintptr_t slot_ = 0;
  std::uintptr_t return_address_ = 0;
  std::uint64_t closure_ = 0;
  std::uint64_t result_ = 0;
  // Used by found_forks and frame_stock:
  sync::cell<stack_fork*> next_free_{nullptr};
  stack_fork* before_ = nullptr;
};

/// The unused records of one thread. A signal handler, which cannot allocate any, uses these and the ones that the
/// sender of the signal has given. Any thread may call give(). The rest is for the owner, or for a handler that
/// interrupts it outside of these functions.
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
  stack_fork* take() noexcept {
    stack_fork* const one = free_;
    if (one == nullptr) return nullptr;
    free_ = one->next_free_.read_ref();
    --many_;
    return one;
  }
  /// The same, but allocates one if there is none.
  stack_fork* make() noexcept {
    stack_fork* const one = take();
    return one != nullptr ? one : new (std::nothrow) stack_fork;
  }
  void put(stack_fork& one) noexcept {
    one.next_free_.write_ref() = free_;
    free_ = &one;
    ++many_;
  }
  /// Allocates records until there are `many`, or no memory is left.
  void fill(unsigned many) noexcept {
    while (many_ < many) {
      auto* const one = new (std::nothrow) stack_fork;
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
    stack_fork* all = nullptr;
    for (unsigned i = 0; i < std::min(lacking, most) + spare; ++i) {
      auto* const one = new (std::nothrow) stack_fork;
      if (one == nullptr) break;
      one->next_free_.write_ref() = std::exchange(all, one);
    }
    if (all == nullptr) return;  // no memory
    // (1) acq_rel: pairs with (2), and with itself.
    delete_all(gift_.exchange(all, std::memory_order_acq_rel));
  }
  /// Called by the handler: takes the given records. Returns true if there are any records.
  bool take_gift() noexcept {
    // (2) acquire: pairs with (1).
    for (stack_fork* one = gift_.exchange(nullptr, std::memory_order_acquire); one != nullptr;)
      put(*std::exchange(one, one->next_free_.read_ref()));
    return free_ != nullptr;
  }

 private:
  static constexpr unsigned most = 4096, spare = 16;
  static void delete_all(stack_fork* first) noexcept {
    while (first != nullptr) delete std::exchange(first, first->next_free_.read_ref());
  }

  stack_fork* free_ = nullptr;
  unsigned many_ = 0;
  sync::atomic<unsigned> lacking_{0};  // the number of forks for which a handler had no record
  sync::atomic<stack_fork*> gift_{nullptr};
};

/// The result of a stack walk: a record for each fork that no other thread has seen.
class found_forks {
 public:
  enum class extent {
    unusable,  // the walk left the known stack
    some,      // there may be one more fork
    all,       // all are found
  };

  /// `in_handler`: in a signal handler, which must not allocate memory.
  found_forks(frame_stock& stock, bool in_handler) noexcept : stock_(stock), allocates_(!in_handler) {}

  /// Called for the newest fork first. If there is no record for a fork, the newest fork gives up its own.
  void add(std::uintptr_t slot, std::uintptr_t return_address) noexcept {
    stack_fork* one = allocates_ ? stock_.make() : stock_.take();
    if (one == nullptr) {
      one = newest_;
      ++lacking_;
      if (one == nullptr) return;
      --many_;
      newest_ = one->next_free_.read_ref();
      (newest_ == nullptr ? oldest_ : newest_->before_) = nullptr;
    }
    ++many_;
    one->slot_ = slot;
    one->return_address_ = return_address;
    one->next_free_.write_ref() = nullptr;
    one->before_ = oldest_;
    (oldest_ == nullptr ? newest_ : oldest_->next_free_.write_ref()) = one;
    oldest_ = one;
  }
  stack_fork* oldest() const noexcept { return oldest_; }
  unsigned many() const noexcept { return many_; }
  /// The number of forks without a record.
  unsigned lacking() const noexcept { return lacking_; }

 private:
  frame_stock& stock_;
  const bool allocates_;
  stack_fork* newest_ = nullptr;
  stack_fork* oldest_ = nullptr;
  unsigned many_ = 0;
  unsigned lacking_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
