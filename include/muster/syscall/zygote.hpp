// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// zygote.hpp: a process that creates the processes of sandboxes. It is an early copy of the program: small, with one
// thread, and without the secrets and locks that the program acquires later. So sandboxes start quickly, know little,
// and never wait for a lock held by another thread.
//
// Use it     create it at the beginning of main, before other threads; any thread may then create sandboxes with it.
// Jobs       must be functions of libraries loaded by then. They see the program's memory as it was.
// Threads    any thread may create sandboxes with it at the same time.
// Ends       with the program, or when it is destroyed; its sandboxes end with it.
// Stopped    by a signal or a debugger, it creates no sandboxes and reports no ends. A new sandbox waits for
//            zygote_options::patience and then throws; sandboxes that run continue.
// Cost       a process, and zygote_options::prepared more, which sleep: some 200 KiB each.
// Errors     std::system_error if its process or socket cannot be created.
// Source     ours; the name is from process managers that do the same.
#pragma once

#include <muster/base/detail/futex.hpp>              // deadline
#include <muster/base/detail/process.hpp>            // process_generation
#include <muster/base/detail/time.hpp>               // patience
#include <muster/syscall/detail/launch.hpp>          // launch_plan
#include <muster/syscall/detail/message_socket.hpp>  // message_socket
#include <muster/syscall/detail/nursery.hpp>         // nursery

#include <sys/syscall.h>  // SYS_pidfd_open
#include <sys/wait.h>     // waitpid
#include <unistd.h>       // fork

#include <algorithm>     // std::min
#include <array>         // sockets
#include <cerrno>        // errno
#include <csignal>       // SIGKILL
#include <system_error>  // std::system_error

namespace muster::inline MUSTER_ABI {

namespace detail {

/// Sends a signal to the process of a pidfd; 0 asks whether that is possible. Returns 0 or an error number.
inline int send_signal(int handle, int signal) noexcept {
  return ::syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0) == 0 ? 0 : errno;
}

}  // namespace detail

/// Options of a zygote.
struct zygote_options {
  /// How long a sandbox waits for a zygote that does not answer, and then for its own process to become ready. Either
  /// may be stopped, by SIGSTOP or a debugger.
  std::chrono::milliseconds patience{30'000};
  /// Processes kept ready for the next sandboxes, once two in a row had the same options and kind of policy.
  unsigned prepared = 1;
};

class zygote {
 public:
  /// Forks it from this process, as it is now.
  explicit zygote(zygote_options options = {}) : zygote(options, detail::socket_pair()) {}
  ~zygote() {
    if (made_in_ != process_generation()) return;  // in a child of fork(2), where this is a copy
    orders_ = detail::message_socket(-1);          // ends the zygote, unless it is stopped
    detail::await_events(handle_.get(), POLLIN, deadline_clock::now() + std::chrono::seconds(1));
    detail::send_signal(handle_.get(), SIGKILL);
    reap();
  }
  zygote(const zygote&) = delete;
  zygote& operator=(const zygote&) = delete;

  /// Its process id, for debuggers and the like.
  int process() const noexcept { return process_; }

 private:
  friend class sandbox;

  zygote(const zygote_options& options, std::array<int, 2> ends)
      : orders_(ends[0]), options_(options), made_in_(process_generation()) {
    const pid_t own = ::getpid();
    process_ = ::fork();
    const int error = errno;
    if (process_ == 0) detail::nursery::serve(own, ends[1], std::min(options.prepared, 256U));
    ::close(ends[1]);
    if (process_ < 0) throw std::system_error(error, std::generic_category(), "zygote: its process cannot be created");
    handle_ = detail::owned_file(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
    const int why = handle_.get() < 0 ? errno : detail::send_signal(handle_.get(), 0);
    if (why == 0) return;
    ::kill(process_, SIGKILL);  // it has not been reaped yet
    reap();
    throw std::system_error(
        why, std::generic_category(),
        "zygote: pidfd_open(2) or pidfd_send_signal(2) fails for its process; they need Linux 5.3 or "
        "newer, and a container must allow them");
  }
  void reap() const noexcept {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }

  /// For sandbox: creates an inside with this arena. The returned socket reports its beginning and its end; when it is
  /// closed, the inside is killed. Throws std::system_error: ECHILD if the zygote has ended, ETIMEDOUT if it does not
  /// answer.
  detail::message_socket order(const detail::launch_plan& plan, int arena) {
    constexpr std::chrono::hours longest(24);
    const deadline latest = deadline_clock::now() + std::min<deadline_clock::duration>(options_.patience, longest);
    const std::array<int, 2> ends = detail::socket_pair();
    detail::message_socket news(ends[0]);
    {
      const detail::owned_file other(ends[1]);
      while (!orders_.send(plan, {arena, other.get()})) {
        const int error = errno == EPIPE || errno == ECONNRESET ? ECHILD : errno;
        if (error != EAGAIN) throw std::system_error(error, std::generic_category());
        if (!detail::await_events(orders_.get(), POLLOUT, latest))
          throw std::system_error(ETIMEDOUT, std::generic_category());
      }
    }
    if (!news.await_message(latest)) throw std::system_error(ETIMEDOUT, std::generic_category());
    return news;
  }

  detail::message_socket orders_;
  detail::owned_file handle_{-1};  // of the process
  const zygote_options options_;
  const unsigned made_in_;
  pid_t process_ = -1;
};

}  // namespace muster::inline MUSTER_ABI
