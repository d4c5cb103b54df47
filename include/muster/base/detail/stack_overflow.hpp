// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack_overflow.hpp: reports a stack overflow in one line and aborts.
//
// How        a SIGSEGV handler on its own signal stack. A fault just below the stack pointer is an overflow, as is one
//            in a frame whose end is inaccessible. Other faults go to the previous handler, or end the program as
//            usual.
// When       from the first fiber or the first use of a pool, for the threads that use them. A handler that the program
//            installs later replaces this one. A thread that already has a signal stack keeps it.
// Guards     64 KiB below the stacks of fibers and workers. A larger frame whose first access is below the guard goes
//            undetected, unless compiled with -fstack-clash-protection.
// Elsewhere  no effect except on x86-64 and AArch64, or under sanitizers, which have their own messages.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>                // MUSTER_ABI, MUSTER_SANITIZED
#include <muster/base/detail/shared_object.hpp>  // pin_shared_object

#include <sys/mman.h>  // mmap
#include <ucontext.h>  // ucontext_t
#include <unistd.h>    // access, write

#include <atomic>   // std::atomic
#include <bit>      // std::bit_cast
#include <cerrno>   // errno
#include <csignal>  // sigaction
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t
#include <cstdlib>  // std::abort

namespace muster::inline MUSTER_ABI {

/// The guard below each stack that the library creates: address space without memory.
inline constexpr std::size_t stack_guard_bytes = std::size_t{64} << 10U;

class stack_overflow {
 public:
  /// Starts watching the calling thread. Does nothing where that is unsupported.
  static void watch() noexcept {
    thread_local const signal_stack own;
    static_cast<void>(&own);
  }
  /// Returns text that names the current stack of the calling thread and says what to do; null: the system's stack.
  /// Must be safe in a signal handler.
  using namer = const char* (*)() noexcept;
  static namer& names() noexcept {
    static constinit thread_local namer own = nullptr;
    return own;
  }

 private:
  class signal_stack {
   public:
    signal_stack() noexcept {
      if (!listen()) return;
      stack_t now = {};
      if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
      void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
      if (at == MAP_FAILED) return;
      now = {};
      now.ss_sp = at;
      now.ss_size = bytes;
      if (::sigaltstack(&now, nullptr) == 0) {
        at_ = at;
      } else {
        ::munmap(at, bytes);
      }
    }
    ~signal_stack() {
      if (at_ == nullptr) return;
      stack_t now = {};
      if (::sigaltstack(nullptr, &now) != 0 || now.ss_sp != at_)
        return;  // another one is installed; this memory must stay
      now = {};
      now.ss_flags = SS_DISABLE;
      ::sigaltstack(&now, nullptr);
      ::munmap(at_, bytes);
    }
    signal_stack(const signal_stack&) = delete;
    signal_stack& operator=(const signal_stack&) = delete;

   private:
    static constexpr std::size_t bytes = std::size_t{64} << 10U;
    void* at_ = nullptr;
  };

  /// Installs the handler, once per process. Returns false if that is not possible.
  static bool listen() noexcept {
#if defined(MUSTER_SANITIZED)
    return false;
#else
    // No thread waits for the one that installs it: a child of fork(2) may lack that.
    enum class handler : unsigned char { none, begun, impossible };
    static constinit std::atomic<handler> state{handler::none};
    handler now = handler::none;
    if (state.load(std::memory_order_relaxed) == now &&
        state.compare_exchange_strong(now, handler::begun, std::memory_order_relaxed, std::memory_order_relaxed) &&
        !install())
      state.store(handler::impossible, std::memory_order_relaxed);
    return state.load(std::memory_order_relaxed) != handler::impossible;
#endif
  }
  static bool install() noexcept {
    if (stack_pointer(nullptr) == 0) return false;
    pin_shared_object(reinterpret_cast<const void*>(&fault));
    struct sigaction now = {};
    now.sa_sigaction = &fault;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigemptyset(&now.sa_mask);
    return ::sigaction(SIGSEGV, &now, &others()) == 0;
  }

  /// Returns the stack pointer of the interrupted code, or 0 if unsupported. Without a context: 1 if supported.
  static std::uintptr_t stack_pointer(const void* context) noexcept {
#if defined(__x86_64__) && defined(REG_RSP)
    if (context == nullptr) return 1;
    return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
    if (context == nullptr) return 1;
    return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.sp);
#else
    static_cast<void>(context);
    return 0;
#endif
  }

  static struct sigaction& others() noexcept {
    static struct sigaction before = {};
    return before;
  }

  static void fault(int number, siginfo_t* info, void* context) noexcept {
    if (info->si_code > 0 && is_overflow(reinterpret_cast<std::uintptr_t>(info->si_addr), stack_pointer(context)))
      say_and_abort();
    const struct sigaction& before = others();
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
      before.sa_handler(number);
    } else {
      ::sigaction(SIGSEGV, &before, nullptr);  // the instruction runs again and ends the program
      if (info->si_code <= 0) ::raise(SIGSEGV);
    }
  }

  static bool is_overflow(std::uintptr_t address, std::uintptr_t end) noexcept {
    constexpr std::uintptr_t used_below = 4096;                    // of a call or a leaf function
    constexpr std::uintptr_t longest = std::uintptr_t{64} << 20U;  // maximum size of a frame
    if (address < end) return end - address <= used_below;
    // access(2) tests if memory is accessible.
    return address - end <= longest && ::access(std::bit_cast<const char*>(end), F_OK) != 0 && errno == EFAULT;
  }

  [[noreturn]] static void say_and_abort() noexcept {
    const char* const whose = names() == nullptr ? nullptr : names()();
    say("muster: a stack has overflowed, by recursion that is too deep or a variable that is too large: ");
    say(whose != nullptr ? whose : "that of a thread; give it a larger one (ulimit -s, pthread_attr_setstacksize)");
    say("\n");
    std::abort();
  }
  static void say(const char* text) noexcept {
    std::size_t length = 0;
    while (text[length] != '\0') ++length;
    static_cast<void>(!::write(STDERR_FILENO, text, length));
  }
};

}  // namespace muster::inline MUSTER_ABI
