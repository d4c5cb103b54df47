// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack_walk.hpp: finds the forks on the calling thread's stack that nobody else has seen yet.
//
// Where     from the caller to the newest frame whose return address has been replaced; or, when there is none, to
//           where the thread has entered the pool. A stack that leads elsewhere has no forks for us: whoever forks on a
//           stack that he has made himself, forks serially.
// Vouched   a frame that the compiler has aligned by more than the convention finds its variables through the stack
//           pointer, which is the thief's when a thief enters it. Such a function masks the stack pointer, or its base
//           is not the 16 bytes below its canonical address that an ordinary frame's is. Its forks are left out, and
//           are executed serially.
// Signals   may be used in signal handlers, once it has been used outside of them.
// Source    the unwinder is the C++ runtime's (Itanium C++ ABI, "Stack Unwinding").
#pragma once

#include <muster/fork/engine/barrier/fork_marks.hpp>    // function_table
#include <muster/fork/engine/barrier/frame_record.hpp>  // frame_record, landing

#include <unwind.h>  // _Unwind_Backtrace

#include <array>      // the marks that are known
#include <bit>        // std::bit_cast
#include <cstddef>    // std::size_t
#include <cstdint>    // std::uintptr_t
#include <exception>  // std::uncaught_exceptions
#include <new>        // std::nothrow

namespace muster::inline MUSTER_ABI::detail {

inline function_table table_of(_Unwind_Context* frame) noexcept {
  return {_Unwind_GetRegionStart(frame), _Unwind_GetLanguageSpecificData(frame), typeid(landing)};
}

/// Which return addresses belong to forks, for those seen last.
class known_marks {
 public:
  bool is_fork(std::uintptr_t return_address, _Unwind_Context* frame) noexcept {
    known& one = all_[(return_address * 0x9e3779b97f4a7c15ULL) >> (64U - bits)];
    if (one.return_address != return_address) {
      one.return_address = return_address;
      one.fork = table_of(frame).is_marked(return_address) &&
                 !masks_stack_pointer(_Unwind_GetRegionStart(frame), return_address);
    }
    return one.fork;
  }

 private:
  static constexpr unsigned bits = 8;
  struct known {
    std::uintptr_t return_address = 0;
    bool fork = false;
  };
  std::array<known, std::size_t{1} << bits> all_{};
};

/// Whether a thread is stopped while the runtime unwinds its stack; then it cannot be walked. What the runtime knows of
/// its own exceptions it counts; others are seen by the functions that change the stack.
inline bool is_unwinding(std::uintptr_t at) noexcept {
  if (std::uncaught_exceptions() != 0) return true;
  const void* const in = _Unwind_FindEnclosingFunction(std::bit_cast<void*>(at));
  for (const auto one :
       {reinterpret_cast<void*>(&_Unwind_Resume), reinterpret_cast<void*>(&_Unwind_RaiseException),
        reinterpret_cast<void*>(&_Unwind_ForcedUnwind), reinterpret_cast<void*>(&_Unwind_Resume_or_Rethrow)})
    if (in == one) return true;
  return false;
}

/// One walk. The records that it takes from `stock` are in `found`, newest first.
class stack_walk {
 public:
  /// `newest_slot`: of the forks that are known; 0 when there are none. `entry`: in the thread's frame that has entered
  /// the pool. `in_handler`: of a signal; the walk begins at the frame that was interrupted.
  stack_walk(known_marks& marks, frame_record*& stock, std::uintptr_t newest_slot, std::uintptr_t entry,
             bool in_handler) noexcept
      : marks_(marks),
        stock_(stock),
        newest_slot_(newest_slot),
        entry_(entry),
        allocates_(!in_handler),
        in_handler_(in_handler) {}

  frame_record* oldest() const noexcept { return last_; }
  unsigned many() const noexcept { return many_; }
  /// Whether there was a record for each, and none is about to appear.
  bool found_all() const noexcept { return all_; }

  /// Returns false when the stack has led elsewhere: then nothing of what has been found may be used.
  MUSTER_COLD bool go() noexcept {
    _Unwind_Backtrace(&on_frame, this);
    return complete_;
  }

 private:
  known_marks& marks_;
  frame_record*& stock_;
  const std::uintptr_t newest_slot_;
  const std::uintptr_t entry_;
  const bool allocates_;
  bool in_handler_;  // it has not come to the frame that was interrupted
  frame_record* found_ = nullptr;
  frame_record* last_ = nullptr;
  unsigned many_ = 0;
  bool all_ = true;
  bool complete_ = false;               // it has come to where it should
  std::uintptr_t candidate_frame_ = 0;  // the base of the frame of `last_`, which is to be vouched for

  static _Unwind_Reason_Code on_frame(_Unwind_Context* frame, void* walk) {
    return static_cast<stack_walk*>(walk)->look(frame) ? _URC_NO_REASON : _URC_END_OF_STACK;
  }

  /// Returns whether to go on.
  bool look(_Unwind_Context* frame) noexcept {
    int is_interrupted = 0;
    const std::uintptr_t at = _Unwind_GetIPInfo(frame, &is_interrupted);
    const std::uintptr_t stack = _Unwind_GetCFA(frame);  // its stack pointer, after the call
    if (in_handler_) {
      in_handler_ = is_interrupted == 0;
      // It may have looked whether somebody asks, and not called its first half yet.
      if (!in_handler_ && table_of(frame).has_marks()) all_ = false;
      return true;
    }
    if (candidate_frame_ != 0 && stack != candidate_frame_ + 2 * sizeof(void*)) give_back_last();
    candidate_frame_ = 0;
    if (newest_slot_ != 0) {
      // Above the newest all are known. When its return is being dealt with, its slot is its own again.
      complete_ = stack - sizeof(void*) == newest_slot_;
      if (stack - sizeof(void*) >= newest_slot_) return false;
    } else if (stack >= entry_) {
      complete_ = true;
      return false;
    }
    if (is_interrupted == 0 && at != 0 && marks_.is_fork(at, frame)) add(at, stack, frame);
    return at != 0;
  }

  void add(std::uintptr_t return_address, std::uintptr_t stack, _Unwind_Context* frame) noexcept {
    frame_record* one = stock_;
    if (one != nullptr) {
      stock_ = one->next_free_;
    } else if (allocates_) {
      one = new (std::nothrow) frame_record;
    }
    if (one == nullptr) {
      one = found_;  // the newest is given up
      all_ = false;
      if (one == nullptr) return;
      --many_;
      found_ = one->next_free_;
      (found_ == nullptr ? last_ : found_->before_) = nullptr;
    }
    ++many_;
    one->slot_ = stack - sizeof(void*);
    one->return_address = return_address;
    one->before_return = return_address - 1;
    one->kept_ = {_Unwind_GetGR(frame, 6),  _Unwind_GetGR(frame, 3),  _Unwind_GetGR(frame, 12),
                  _Unwind_GetGR(frame, 13), _Unwind_GetGR(frame, 14), _Unwind_GetGR(frame, 15)};
    one->next_free_ = nullptr;
    one->before_ = last_;
    (last_ == nullptr ? found_ : last_->next_free_) = one;
    last_ = one;
    candidate_frame_ = one->kept_.rbp;
  }
  void give_back_last() noexcept {
    frame_record* const one = last_;
    last_ = one->before_;
    (last_ == nullptr ? found_ : last_->next_free_) = nullptr;
    one->next_free_ = stock_;
    stock_ = one;
    --many_;
  }
};

}  // namespace muster::inline MUSTER_ABI::detail
