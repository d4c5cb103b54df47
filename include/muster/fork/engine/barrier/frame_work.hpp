// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_work.hpp: a worker's reaction when a first half returns to the barrier, when an exception passes the barrier,
// when a fork is asked, and when a signal interrupts it. See engine/barrier/frame_deque.hpp.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)

#include <muster/fork/impl/work.hpp>  // worker

#include <ucontext.h>  // ucontext_t
#include <unwind.h>    // _Unwind_GetCFA

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// The calling worker's fork whose return address was at `slot`.
inline frame_record& replaced_at(const worker* self, std::uintptr_t slot) noexcept {
  frame_record* const r = self == nullptr ? nullptr : self->forks.newest();
  MUSTER_CHECK(
      r != nullptr && r->slot() == slot,
      "a fork ends that is not the newest of its thread: other code has gone past its frames (longjmp), or ends "
      "it on another stack than it has begun on");
  return *r;
}

inline frame_record* came_to_barrier(std::uintptr_t slot) noexcept {
  worker* const self = worker::current();
  frame_record& r = replaced_at(self, slot);
  if (!self->forks.take_back_at_barrier(r)) {
    self->await(r);
    return &r;
  }
  self->forks.recycle(r);
  return nullptr;
}

inline void answer_from_fork() noexcept { worker::current()->forks.answer_at_fork(); }

/// The frame and those above must stay until the thief, which uses them, is done.
inline void exception_passes(std::uintptr_t slot) noexcept {
  worker* const self = worker::current();
  frame_record& r = replaced_at(self, slot);
  if (!self->forks.take_back(r)) {
    const deque::end_of_stack here(self->forks, __builtin_frame_address(0));
    self->await(r);
    r.error() = nullptr;  // the first half's exception is thrown instead
    self->forks.end(r);
  }
  self->forks.recycle(r);
}

inline _Unwind_Reason_Code passed_barrier(int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,
                                          _Unwind_Context* barrier) noexcept {
  // The canonical frame address that unwinders report here is that of the frame below: the stack pointer in this one.
  if ((actions & _UA_CLEANUP_PHASE) != 0) exception_passes(_Unwind_GetCFA(barrier) - sizeof(void*));
  return _URC_CONTINUE_UNWIND;
}

inline void stopped_by_signal(const void* of, void* context) noexcept {
  worker* const self = worker::current();
  if (self == nullptr || &self->forks != of) return;
  const auto in = [&](int name) {
    return static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[name]);
  };
  self->forks.answer_in_handler(
      {{{in(REG_RBP), in(REG_RBX), in(REG_R12), in(REG_R13), in(REG_R14), in(REG_R15)}}, in(REG_RSP), in(REG_RIP)});
}

}  // namespace muster::inline MUSTER_ABI::detail

#endif
