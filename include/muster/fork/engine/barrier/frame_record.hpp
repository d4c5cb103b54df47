// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_record.hpp: a fork that has been found on the stack, and whose return address has been replaced. Its frame
// waits until the second half is done. The life of such a record is told in frame_deque.hpp.
#pragma once

#include <muster/fork/engine/fork_record.hpp>  // fork_record

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

class frame_record : public fork_record {
 public:
  /// Where the return address lay, and what it was.
  std::uintptr_t slot() const noexcept { return slot_; }
  std::uintptr_t return_address() const noexcept { return return_address_; }
  /// What the frame has kept for the second half, where its return address lies now.
  std::uint64_t& closure() noexcept { return closure_; }
  /// What the second half returns, when it does not throw.
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
  // While it is found, or waits to be used again:
  sync::cell<frame_record*> next_free_{nullptr};
  frame_record* before_ = nullptr;
};

}  // namespace muster::inline MUSTER_ABI::detail
