// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_record.hpp: a fork whose mark has been found on the stack, and whose return address has been replaced. What the
// fork itself has not written is found out by entering its frame: the thief goes to the handler of a `landing`, which
// copies the second half, and leaves. So does the owner, when its first half returns and the second has been stolen.
// The life of such a record is told in frame_deque.hpp.
#pragma once

#include <muster/base/slot.hpp>                           // slot
#include <muster/fork/engine/barrier/fork_marks.hpp>      // landing_pad
#include <muster/fork/engine/barrier/landing.hpp>         // landing_exception
#include <muster/fork/engine/barrier/return_barrier.hpp>  // kept_registers, visit_frame
#include <muster/fork/engine/fork_record.hpp>             // fork_record

#include <cstdint>      // std::uintptr_t
#include <exception>    // std::exception_ptr
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI::detail {

class frame_record : public replaced_return, public fork_record {
 public:
  /// What a closure may be that a thief takes along.
  static constexpr std::size_t closure_bytes = 16;

  /// In the handler. The thief copies `second`, which call(record, second) will execute, and leaves: returns for the
  /// owner only. `result`: where call() is to put what the second half returns.
  template <auto Call, class Second>
  MUSTER_COLD void arrive(Second second, void* result) noexcept {
    static_assert(std::is_trivially_copy_constructible_v<Second> && sizeof(Second) <= closure_bytes);
    if (owner_is_here_) return;
    std::construct_at(reinterpret_cast<Second*>(closure_), second);
    call_ = [](frame_record& r) noexcept { Call(r, *reinterpret_cast<Second*>(r.closure_)); };
    result_ = result;
    come_back(thief_left_);
  }
  void* result() const noexcept { return result_; }

  /// The runner. For the thief, on its own stack.
  static inline void run_stolen(fork_record& of) noexcept;

  /// For the owner, when the second half has been executed by a thief. The first has returned `first`.
  [[noreturn]] void enter_as_owner(landing_exception& exception, const result_registers& first) noexcept {
    first_ = first;
    owner_is_here_ = true;
    enter_frame(kept_, slot_ + sizeof(void*), entry_.selector, exception.thrown(*this), entry_.at);
  }
  /// For the thief: arrive() copies the second half.
  void visit(landing_exception& exception) noexcept {
    visit_frame(kept_, &thief_left_, entry_.selector, exception.thrown(*this), entry_.at);
    exception.leave();
  }
  /// What the first half has returned, in registers.
  const result_registers& first() const noexcept { return first_; }

 private:
  friend class frame_deque;
  friend class frame_stock;
  friend class stack_walk;

  std::uintptr_t slot_ = 0;  // where the return address lay
  kept_registers kept_{};    // of the frame
  landing_pad entry_;        // to it
  bool owner_is_here_ = false;
  void* thief_left_ = nullptr;
  alignas(16) unsigned char closure_[closure_bytes];
  void (*call_)(frame_record&) noexcept = nullptr;
  void* result_ = nullptr;
  result_registers first_;
  // While it is found, or waits to be used again:
  frame_record* next_free_ = nullptr;
  frame_record* before_ = nullptr;
};

/// Returns, in registers, what is in `first`.
template <class R>
[[MUSTER_NAKED]] R return_again(const result_registers& /*rdi: first*/) {
  asm volatile(
      "movq (%%rdi), %%rax\n\t"
      "movq 8(%%rdi), %%rdx\n\t"
      "movaps 16(%%rdi), %%xmm0\n\t"
      "movaps 32(%%rdi), %%xmm1\n\t"
      "retq\n\t"
      :
      :);
}

}  // namespace muster::inline MUSTER_ABI::detail
