// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_record.hpp: a fork that was found on the stack, and whose return address is replaced. Its frame waits until the
// second half is done. frame_deque.hpp describes the life of such a record.
#pragma once

#include <muster/fork/engine/fork_record.hpp>  // fork_record

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

class frame_record : public fork_record {
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
  friend class basic_frame_deque;
  friend class frame_stock;
  friend class found_forks;

  std::uintptr_t slot_ = 0;
  std::uintptr_t return_address_ = 0;
  std::uint64_t closure_ = 0;
  std::uint64_t result_ = 0;
  // Used by found_forks and frame_stock:
  sync::cell<frame_record*> next_free_{nullptr};
  frame_record* before_ = nullptr;
};

}  // namespace muster::inline MUSTER_ABI::detail
