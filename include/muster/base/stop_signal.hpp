// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stop_signal.hpp: stops another thread of the process for a moment, wherever it is.
//
// Signal     SIGURG, which debuggers pass on, which no library waits for, and which does nothing where nobody handles
//            it. What others have sent is given to whoever handled it before. Most system calls are begun again; those
//            that SA_RESTART does not know (poll, epoll_wait, nanosleep) return EINTR.
// Libraries  that are loaded with this code each listen for themselves, the last one first.
#pragma once

#include <muster/base/library.hpp>  // keep_library_of

#include <sys/syscall.h>  // SYS_rt_tgsigqueueinfo
#include <unistd.h>       // syscall

#include <cerrno>   // errno
#include <csignal>  // sigaction
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI {

class stop_signal {
 public:
  /// What is called in the thread that is stopped, with what send() has been given, and with its ucontext_t. It may
  /// do what signal handlers may. A thread may have gone elsewhere before it is stopped.
  using handler = void (*)(const void* what, void* context) noexcept;

  /// For the process, once. Returns false when the system refuses.
  static bool listen(handler ours) noexcept {
    ours_ = ours;
    struct sigaction now = {};
    now.sa_sigaction = &stopped;
    now.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigemptyset(&now.sa_mask);
    keep_library_of(reinterpret_cast<const void*>(&stopped));
    return ::sigaction(SIGURG, &now, &others_) == 0;
  }
  /// Lets the calling thread be stopped, which may have inherited that it cannot be.
  static void let_in() noexcept {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGURG);
    ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  }
  static int this_thread() noexcept { return static_cast<int>(::syscall(SYS_gettid)); }
  /// A thread of this process. Does nothing when it has ended.
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
  /// A number that those have in common who listen together.
  static int for_whom() noexcept {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(&ours_) / alignof(handler));
  }
  static void stopped(int number, siginfo_t* info, void* context) noexcept {
    const int error = errno;
    // Not for others: what their workers are is thread-local, and this thread may have to allocate its part first.
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
