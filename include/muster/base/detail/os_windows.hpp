// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os_windows.hpp: the functions of os.hpp on Windows 8 and later. Programs link with the library `synchronization`.
//
// Without <windows.h>, whose macros are names of ours (min, max): the functions are declared as it declares them.
// Processes  no word can be waited for between processes.
// Late       a thread's number that is taken after its last thread_local object is destroyed is not used again: the
//            functions of Windows for the end of a thread run before those destructors.
#pragma once

#include <muster/base/config.hpp>              // MUSTER_ABI
#include <muster/base/detail/futex_words.hpp>  // futex_words

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::os {

namespace detail {

extern "C" {
__declspec(dllimport) int __stdcall WaitOnAddress(volatile void*, void*, std::size_t, unsigned long);
__declspec(dllimport) void __stdcall WakeByAddressAll(void*);
__declspec(dllimport) void __stdcall FlushProcessWriteBuffers(void);
__declspec(dllimport) int __stdcall SwitchToThread(void);
__declspec(dllimport) void __stdcall Sleep(unsigned long);
}

}  // namespace detail

inline futex_reason sleep(const futex_word& word, deadline until) noexcept {
  constexpr unsigned long infinite = 0xffff'ffff;
  constexpr long long longest = 0x7fff'ffff;  // 24 days; a later deadline is reached in several sleeps
  unsigned long ms = infinite;
  if (until != no_deadline) {
    const deadline now = deadline_clock::now();
    if (until <= now) return futex_reason::timed_out;
    const long long left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    ms = static_cast<unsigned long>(left < longest ? left : longest);
  }
  std::uint32_t expected = word.value;
  const int changed = detail::WaitOnAddress(const_cast<void*>(word.at), &expected, sizeof expected, ms);
  if (changed != 0 || until == no_deadline) return futex_reason::woken;
  return deadline_clock::now() >= until ? futex_reason::timed_out : futex_reason::woken;
}

inline bool sleep_any(const futex_words&, deadline, futex_reason&) noexcept { return false; }

inline int wake(const void* word, int, std::uint32_t, futex_scope) noexcept {
  detail::WakeByAddressAll(const_cast<void*>(word));
  return 0;
}

inline bool join_fences(futex_scope scope) noexcept { return scope == futex_scope::process; }

inline bool fence_others(futex_scope scope) noexcept {
  if (scope != futex_scope::process) return false;
  detail::FlushProcessWriteBuffers();
  return true;
}

inline void yield() noexcept { detail::SwitchToThread(); }

inline void nap() noexcept { detail::Sleep(1); }

inline void in_child(void (*)()) noexcept {}

inline constexpr unsigned thread_key_rounds = 2;

class thread_key {
 public:
  bool make(void (*)(void*)) noexcept { return false; }
  void set(const void*) const noexcept {}
};

}  // namespace muster::inline MUSTER_ABI::os
