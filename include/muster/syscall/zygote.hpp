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
// Errors     std::system_error if its process or socket cannot be created.
// Source     ours; the name is from process managers that do the same.
#pragma once

#include <muster/base/wait.hpp>                     // deadline
#include <muster/syscall/detail/allowed_calls.hpp>  // owned_file
#include <muster/syscall/detail/launch.hpp>         // launch

#include <poll.h>          // poll
#include <sys/resource.h>  // rusage
#include <sys/socket.h>    // sendmsg
#include <sys/syscall.h>   // SYS_pidfd_open
#include <sys/wait.h>      // wait4

#include <algorithm>         // std::clamp
#include <array>             // descriptors
#include <cerrno>            // errno
#include <chrono>            // patience
#include <csignal>           // SIGKILL
#include <cstddef>           // std::size_t
#include <cstdint>           // std::int32_t
#include <cstring>           // std::memcpy
#include <initializer_list>  // descriptors
#include <new>               // std::bad_alloc
#include <system_error>      // std::system_error
#include <vector>            // children

namespace muster::inline MUSTER_ABI {

class zygote;

struct zygote_options {
  /// How long a sandbox waits for a zygote that does not answer. It may be stopped, by SIGSTOP or a debugger.
  std::chrono::milliseconds patience{30'000};
};

namespace detail {

/// The zygote's reports about an inside: one after it was created, one after it has ended.
struct zygote_news {
  std::int32_t process = -1;  // or a negative error number
  std::int32_t status = 0;
  std::uint64_t microseconds = 0;  // of processor time
  bool known = false;              // true if `status` is
};

/// Messages with descriptors over a socket that preserves message boundaries.
class message_socket {
 public:
  static constexpr std::size_t most_files = 2;

  explicit message_socket(int file) noexcept : file_(file) {}
  int get() const noexcept { return file_.get(); }

  /// Never waits. Returns false, with errno: EAGAIN if there is no room, EPIPE if the other end is gone.
  template <class T>
  bool send(const T& what, std::initializer_list<int> files = {}) const noexcept {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most_files * sizeof(int))> room{};
    iovec data{const_cast<T*>(&what), sizeof what};  // sendmsg only reads it
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (files.size() != 0) {
      message.msg_control = room.data();
      message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), files.begin(), files.size() * sizeof(int));
    }
    ssize_t done = 0;
    do done = ::sendmsg(file_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (done < 0 && errno == EINTR);
    return done == static_cast<ssize_t>(sizeof what);
  }
  /// Waits for `events` of poll(2), or for the other end to go. Returns false at the deadline.
  bool await(short events, deadline until) const noexcept {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - deadline_clock::now()).count();
      constexpr decltype(left) longest = 60'000;
      pollfd one{file_.get(), events, 0};
      const int found = ::poll(&one, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, longest)));
      if (found > 0) return true;
      if (left <= 0) return false;
    }
  }
  /// Returns true if the other end is gone.
  bool deserted() const noexcept {
    pollfd one{file_.get(), 0, 0};
    return ::poll(&one, 1, 0) > 0;
  }
  /// Returns false if the other end is gone, or sends another message.
  template <class T>
  bool receive(T& what, std::array<owned_file, most_files>& files) const noexcept {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most_files * sizeof(int))> room{};
    iovec data{&what, sizeof what};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    ssize_t done = 0;
    do done = ::recvmsg(file_.get(), &message, MSG_CMSG_CLOEXEC);
    while (done < 0 && errno == EINTR);
    if (done <= 0) return false;
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      std::array<int, most_files> got{-1, -1};
      std::memcpy(got.data(), CMSG_DATA(header), std::min(header->cmsg_len - CMSG_LEN(0), sizeof got));
      for (std::size_t i = 0; i < most_files; ++i) files[i] = owned_file(got[i]);
    }
    return done == static_cast<ssize_t>(sizeof what);
  }

 private:
  owned_file file_;
};

/// Returns both ends. Throws std::system_error.
inline std::array<int, 2> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "a zygote needs a pair of sockets");
  return ends;
}

}  // namespace detail

class zygote {
 public:
  explicit zygote(zygote_options options = {}) : zygote(options, detail::socket_pair()) {}
  ~zygote() {
    if (made_in_ != ::getpid()) return;  // in a child of fork(2), where this is a copy
    // It has nothing to finish, and may be stopped.
    ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
    reap();
  }
  zygote(const zygote&) = delete;
  zygote& operator=(const zygote&) = delete;

  /// Its process id, for debuggers and the like.
  int process() const noexcept { return process_; }

 private:
  friend class sandbox;

  zygote(const zygote_options& options, std::array<int, 2> ends)
      : orders_(ends[0]), options_(options), made_in_(::getpid()) {
    process_ = ::fork();
    const int error = errno;
    if (process_ == 0) serve(ends[1]);
    ::close(ends[1]);
    if (process_ < 0) throw std::system_error(error, std::generic_category(), "a zygote needs a process of its own");
    handle_ = detail::owned_file(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
    if (handle_.get() >= 0) return;
    const int why = errno;
    ::kill(process_, SIGKILL);  // it has not been reaped yet
    reap();
    throw std::system_error(why, std::generic_category(),
                            "a zygote needs a descriptor of its process, by pidfd_open(2) of Linux 5.3");
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
        if (!orders_.await(POLLOUT, latest)) throw std::system_error(ETIMEDOUT, std::generic_category());
      }
    }
    if (!news.await(POLLIN, latest)) throw std::system_error(ETIMEDOUT, std::generic_category());
    return news;
  }

  // --- In the zygote.

  struct child {
    pid_t process;
    detail::owned_file handle;  // readable once it has ended
    detail::message_socket news;
  };

  [[noreturn]] static void serve(int orders_end) noexcept {
    // Drops the program's terminal, files and shared memory.
    ::setsid();
    constexpr int kept = 3;
    ::dup3(orders_end, kept, O_CLOEXEC);
    for (int file = 0; file < kept; ++file) ::close(file);
    ::syscall(SYS_close_range, kept + 1, ~0U, 0);
    const detail::message_socket orders(kept);
    // Done once for all insides: creating a network takes time, and so does listing the mappings.
    const bool settled = detail::launch::settle() == 0;
    const int name_spaces_error = detail::launch::enter_name_spaces();
    try {
      std::vector<child> children;
      for (;;) {
        std::vector<pollfd> waits{{orders.get(), POLLIN, 0}};
        for (const child& one : children) {
          waits.push_back({one.handle.get(), POLLIN, 0});
          waits.push_back({one.news.get(), 0, 0});
        }
        if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
        for (std::size_t i = children.size(); i-- > 0;) {
          if (waits[2 * i + 1].revents != 0) {
            tell_end(children[i]);
            children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
          } else if (waits[2 * i + 2].revents != 0) {
            // Its sandbox does not know of it, or has forgotten it.
            ::kill(children[i].process, SIGKILL);
            children[i].news = detail::message_socket(-1);
          }
        }
        if (waits[0].revents != 0 && !make_one(orders, settled, name_spaces_error, children)) break;
      }
    } catch (const std::bad_alloc&) {
      ::_exit(1);  // this ends the sandboxes, and their owners learn of it
    }
    for (;;) ::_exit(0);
  }
  /// Returns false if the program has ended.
  static bool make_one(const detail::message_socket& orders, bool settled, int name_spaces_error,
                       std::vector<child>& children) {
    detail::launch_plan plan;
    std::array<detail::owned_file, 2> files{detail::owned_file(-1), detail::owned_file(-1)};
    if (!orders.receive(plan, files)) return false;
    detail::message_socket news(files[1].release());
    if (news.deserted()) return true;  // its sandbox has not waited so long
    void* const arena = ::mmap(nullptr, plan.arena.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, files[0].get(), 0);
    if (arena == MAP_FAILED) {
      news.send(detail::zygote_news{-errno, 0, 0, false});
      return true;
    }
    children.reserve(children.size() + 1);
    plan.parent = ::getpid();
    plan.name_spaces_error = name_spaces_error;
    plan.settled = settled;
    detail::launch::keep_stacks(plan);
    const pid_t made = ::fork();
    if (made == 0) detail::launch::become_inside(plan, static_cast<unsigned char*>(arena));
    const int error = errno;
    ::munmap(arena, plan.arena.bytes());
    detail::owned_file handle(made < 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, made, 0)));
    if (handle.get() < 0) {
      const int why = made < 0 ? error : errno;
      if (made > 0) {
        ::kill(made, SIGKILL);
        ::waitpid(made, nullptr, 0);
      }
      news.send(detail::zygote_news{-why, 0, 0, false});
      return true;
    }
    news.send(detail::zygote_news{made, 0, 0, false}, {handle.get()});
    children.push_back({made, std::move(handle), std::move(news)});
    return true;
  }
  static void tell_end(const child& one) noexcept {
    detail::zygote_news news{one.process, 0, 0, false};
    rusage used{};
    news.known = ::wait4(one.process, &news.status, 0, &used) == one.process;
    constexpr std::uint64_t in_a_second = 1'000'000;
    news.microseconds = static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * in_a_second +
                        static_cast<std::uint64_t>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    one.news.send(news);
  }

  detail::message_socket orders_;
  detail::owned_file handle_{-1};  // of the process
  const zygote_options options_;
  const int made_in_;
  pid_t process_ = -1;
};

}  // namespace muster::inline MUSTER_ABI
