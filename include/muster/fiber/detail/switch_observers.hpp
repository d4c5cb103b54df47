// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// switch_observers.hpp: tells the C++ runtime, sanitizers and Valgrind about stack switches.
//
// The C++ runtime     keeps the exceptions being handled per thread; each fiber needs its own, or a yield in a catch
//                     block would pass them to another fiber.
// Address sanitizer   must know the stack, to tell a valid address from an invalid one.
// Thread sanitizer    treats each fiber as a thread; the switches order their steps.
// Valgrind            takes a far jump of the stack pointer for a large frame, unless the stack is registered.
// Sanitizers and Valgrind's header are detected when the program is compiled; without them this code is empty.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cxxabi.h>  // __cxa_get_globals
#include <cstddef>   // std::size_t
#include <cstdint>   // std::uintptr_t

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MUSTER_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define MUSTER_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MUSTER_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define MUSTER_THREAD_SANITIZER 1
#endif

#if defined(MUSTER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif
#if defined(MUSTER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define MUSTER_VALGRIND 1
#endif

#if defined(_LIBCPP_VERSION)
// The header lacks this function, which the ABI (2.5.2) and the runtime have.
namespace __cxxabiv1 {
struct __cxa_eh_globals;
extern "C" [[gnu::visibility("default")]] __cxa_eh_globals* __cxa_get_globals() noexcept;
}  // namespace __cxxabiv1
#endif

namespace muster::inline MUSTER_ABI::detail {

/// Returns true if Valgrind runs the program, which does not know every system call.
inline bool under_valgrind() noexcept {
#if defined(MUSTER_VALGRIND)
  return RUNNING_ON_VALGRIND != 0;
#else
  return false;
#endif
}

/// The per-thread data of the Itanium C++ ABI (2.2.2): the exceptions being handled, and the number being thrown.
struct exception_globals {
  void* caught = nullptr;
  std::uintptr_t uncaught = 0;  // an unsigned int and its padding, so that both move as one

  bool any() const noexcept { return (reinterpret_cast<std::uintptr_t>(caught) | uncaught) != 0; }
};

inline exception_globals& thread_exceptions() noexcept {
  return *reinterpret_cast<exception_globals*>(abi::__cxa_get_globals());
}

/// A stack, as its observers know it. Every observer gets the same calls; the layout does not depend on the observers.
class observed_stack {
 public:
  /// For a stack of our own, in [bottom, bottom + size). The kernel's stack of the thread needs no call.
  void begin([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t size) noexcept {
    bottom_ = bottom;
    size_ = size;
#if defined(MUSTER_THREAD_SANITIZER)
    observer_ = __tsan_create_fiber(0);
#endif
#if defined(MUSTER_VALGRIND)
    valgrind_ = VALGRIND_STACK_REGISTER(bottom, static_cast<char*>(bottom) + size);
#endif
  }
  /// The stack is no longer used.
  void end() noexcept {
#if defined(MUSTER_ADDRESS_SANITIZER)
    __asan_unpoison_memory_region(bottom_, size_);  // frames that never returned left poison behind
#endif
#if defined(MUSTER_THREAD_SANITIZER)
    __tsan_destroy_fiber(observer_);
#endif
#if defined(MUSTER_VALGRIND)
    VALGRIND_STACK_DEREGISTER(valgrind_);
#endif
  }

  /// On this stack, as the last thing before the switch to another.
  [[gnu::always_inline]] inline void before_leaving([[maybe_unused]] observed_stack& to,
                                                    [[maybe_unused]] observed_stack*& came_from,
                                                    [[maybe_unused]] bool for_ever) noexcept {
#if defined(MUSTER_ADDRESS_SANITIZER)
    came_from = this;
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &observer_, to.bottom_, to.size_);
#endif
#if defined(MUSTER_THREAD_SANITIZER)
    if (observer_ == nullptr) observer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.observer_, 0);
#endif
  }
  /// On this stack, as the first thing after the switch from another.
  [[gnu::always_inline]] inline void after_coming([[maybe_unused]] observed_stack* from) noexcept {
#if defined(MUSTER_ADDRESS_SANITIZER)
    // The sanitizer reports the bounds of the stack that was left: the only source for those of the kernel's stack.
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(observer_, &bottom, &size);
    from->bottom_ = bottom;
    from->size_ = size;
#endif
  }

 private:
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] std::size_t size_ = 0;
  [[maybe_unused]] void* observer_ = nullptr;  // the sanitizer's own
  [[maybe_unused]] unsigned valgrind_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
