// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// found_forks.hpp: the result of a stack walk: a record for each fork that no other thread has seen.
#pragma once

#include <muster/fork/engine/barrier/frame_stock.hpp>  // frame_stock

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

class found_forks {
 public:
  enum class extent {
    unusable,
    some,
    all
  };  // the walk left the known stack; there may be one more fork; all are found

  /// `in_handler`: in a signal handler, which must not allocate memory.
  found_forks(frame_stock& stock, bool in_handler) noexcept : stock_(stock), allocates_(!in_handler) {}

  /// Called for the newest fork first. If there is no record for a fork, the newest fork gives up its own.
  void add(std::uintptr_t slot, std::uintptr_t return_address) noexcept {
    frame_record* one = allocates_ ? stock_.make() : stock_.take();
    if (one == nullptr) {
      one = newest_;
      ++lacking_;
      if (one == nullptr) return;
      --many_;
      newest_ = one->next_free_.get();
      (newest_ == nullptr ? oldest_ : newest_->before_) = nullptr;
    }
    ++many_;
    one->slot_ = slot;
    one->return_address_ = return_address;
    one->next_free_.ref() = nullptr;
    one->before_ = oldest_;
    (oldest_ == nullptr ? newest_ : oldest_->next_free_.ref()) = one;
    oldest_ = one;
  }
  frame_record* oldest() const noexcept { return oldest_; }
  unsigned many() const noexcept { return many_; }
  /// The number of forks without a record.
  unsigned lacking() const noexcept { return lacking_; }

 private:
  frame_stock& stock_;
  const bool allocates_;
  frame_record* newest_ = nullptr;
  frame_record* oldest_ = nullptr;
  unsigned many_ = 0;
  unsigned lacking_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
