// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_record.hpp: a fork that has been found on the stack, and whose return address has been replaced. The thief
// finds the second half in the frame, which waits until it is done. The life of such a record is told in
// frame_deque.hpp.
#pragma once

#include <muster/fork/engine/barrier/fork_frame.hpp>  // fork_frame
#include <muster/fork/engine/barrier/slot_map.hpp>    // replaced_return
#include <muster/fork/engine/fork_record.hpp>         // fork_record

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

class frame_deque;

class frame_record : public replaced_return, public fork_record {
 public:
  /// The runner. For the thief, on its own stack.
  static void run_stolen(fork_record& of) noexcept {
    auto& r = static_cast<frame_record&>(of);
    fork_frame::code(r.return_address)(r, fork_frame::closure(r.slot_));
    r.done();
  }
  /// Of the owner.
  frame_deque& deque() const noexcept { return *deque_; }
  /// What the second half returns, when it does not throw.
  word& result() noexcept { return result_; }

 private:
  friend class frame_deque;
  friend class frame_stock;
  friend class stack_walk;

  std::uintptr_t slot_ = 0;  // where the return address lay
  word result_ = 0;
  frame_deque* deque_ = nullptr;
  // While it is found, or waits to be used again:
  frame_record* next_free_ = nullptr;
  frame_record* before_ = nullptr;
};

}  // namespace muster::inline MUSTER_ABI::detail
