// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// interrupt_signal.hpp: briefly interrupts another thread of the process, wherever it is.
//
// Signal     SIGURG: debuggers pass it on, no library waits for it, and it is ignored by default. Signals from other
//            senders go to the previous handler. Most system calls are restarted; the calls that SA_RESTART does not
//            cover (poll, epoll_wait, nanosleep) return EINTR.
// Libraries  loaded with their own copy of this code each install a handler; the last one is called first.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/detail/shared_object.hpp>  // pin_shared_object

#include <sys/syscall.h>  // SYS_rt_tgsigqueueinfo
#include <unistd.h>       // syscall

#include <cerrno>   // errno
#include <csignal>  // sigaction
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI {

class interrupt_signal {
 public:
  /// Called in the interrupted thread, with the argument of send() and the thread's ucontext_t. It may do
  /// only what signal handlers may. The thread may have moved on between send() and the interruption.
  using handler = void (*)(const void* what, void* context) noexcept;

  /// Installs the handler; call once per process. Returns false if the system refuses.
  static bool install_handler(handler ours) noexcept {
    ours_ = ours;
    struct sigaction now = {};
    now.sa_sigaction = &stopped;
    now.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigemptyset(&now.sa_mask);
    pin_shared_object(reinterpret_cast<const void*>(&stopped));
    return ::sigaction(SIGURG, &now, &others_) == 0;
  }
  /// Unblocks the signal in the calling thread, which may have inherited a mask that blocks it.
  static void unblock() noexcept {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGURG);
    ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  }
  static int this_thread() noexcept { return static_cast<int>(::syscall(SYS_gettid)); }
  /// Interrupts a thread of this process. Does nothing if it has ended.
  static void send(int thread, void* what) noexcept {
    siginfo_t info = {};
    info.si_signo = SIGURG;
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_errno = for_whom();
    info.si_value.sival_ptr = what;
    ::syscall(SYS_rt_tgsigqueueinfo, info.si_pid, thread, SIGURG, &info);
  }

 private:
  /// A number that identifies this copy of the handler.
  static int for_whom() noexcept {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(&ours_) / alignof(handler));
  }
  static void stopped(int number, siginfo_t* info, void* context) noexcept {
    const int error = errno;
    // Only for this copy's signals: other copies keep their workers in thread-local data, which this thread may first
    // have to allocate.
    if (info->si_code == SI_QUEUE && info->si_pid == ::getpid() && info->si_errno == for_whom()) {
      ours_(info->si_value.sival_ptr, context);
      errno = error;
    } else if ((others_.sa_flags & SA_SIGINFO) != 0) {
      others_.sa_sigaction(number, info, context);
    } else if (others_.sa_handler != SIG_DFL && others_.sa_handler != SIG_IGN) {
      others_.sa_handler(number);
    }
  }

  static inline constinit handler ours_ = nullptr;
  static inline struct sigaction others_ = {};
};

}  // namespace muster::inline MUSTER_ABI
