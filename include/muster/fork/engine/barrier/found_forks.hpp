// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// found_forks.hpp: what a walk over the stack finds: the forks that nobody else has seen yet, a record for each.
#pragma once

#include <muster/fork/engine/barrier/frame_stock.hpp>  // frame_stock

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

class found_forks {
 public:
  enum class extent { unusable, some, all };  // the walk has led elsewhere; there may be one more; these are all

  /// `in_handler`: of a signal, where no memory may be allocated.
  found_forks(frame_stock& stock, bool in_handler) noexcept : stock_(stock), allocates_(!in_handler) {}

  /// From the newest on. When there is no record, the newest is given up.
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
  /// For how many there was no record.
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
