// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// message_socket.hpp: messages with descriptors over a socket that preserves message boundaries. Both ends belong to
// one program: it trusts what it receives.
//
// Errors     send and receive return false; socket_pair throws std::system_error.
// Source     ours.
#pragma once

#include <muster/base/detail/futex.hpp>             // deadline
#include <muster/base/detail/time.hpp>              // waiting
#include <muster/syscall/detail/allowed_calls.hpp>  // owned_file

#include <poll.h>        // poll
#include <sys/socket.h>  // sendmsg

#include <algorithm>         // std::clamp
#include <array>             // descriptors
#include <cerrno>            // errno
#include <cstddef>           // std::size_t
#include <cstring>           // std::memcpy
#include <initializer_list>  // descriptors
#include <system_error>      // std::system_error

namespace muster::inline MUSTER_ABI::detail {

/// Waits for `events` of poll(2) at a file, or until the other end is gone. Returns false at the deadline.
inline bool await_events(int file, short events, deadline until) noexcept {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - deadline_clock::now()).count();
    constexpr decltype(left) longest = 60'000;
    pollfd one{file, events, 0};
    const int found = ::poll(&one, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, longest)));
    if (found > 0) return true;
    if (left <= 0) return false;
  }
}

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
  /// Returns false if there is no message at the deadline.
  bool await_message(deadline until) const noexcept { return await_events(file_.get(), POLLIN, until); }
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
    throw std::system_error(errno, std::generic_category(),
                            "zygote: socketpair(2) fails; its descriptors may be used up (ulimit -n)");
  return ends;
}

}  // namespace muster::inline MUSTER_ABI::detail
