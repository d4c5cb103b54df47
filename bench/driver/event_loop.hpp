// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// event_loop.hpp: a thread that waits for file descriptors. In the experiment queue/event-loop, answers come to such a
// thread, which would have sockets to watch as well.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace muster::bench {

class event_loop {
 public:
  explicit event_loop(int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    if (loop_ < 0 || ::epoll_ctl(loop_, EPOLL_CTL_ADD, fd, &wanted) != 0)
      throw std::system_error(errno, std::generic_category(), "epoll");
  }
  ~event_loop() { ::close(loop_); }
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Waits until the descriptor is readable, or a signal comes.
  void wait() const {
    epoll_event found{};
    ::epoll_wait(loop_, &found, 1, -1);
  }

 private:
  const int loop_ = ::epoll_create1(EPOLL_CLOEXEC);
};

}  // namespace muster::bench
