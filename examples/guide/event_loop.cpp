// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: event loops that wait for sockets, and for an item of a queue or for room in it.

#include "expect.hpp"

#include <muster/queue.hpp>
#include <muster/queue/notify_fd.hpp>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace {

struct sockets {
  sockets() { expect(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0); }
  ~sockets() {
    for (const int fd : ends) ::close(fd);
  }
  std::array<int, 2> ends{};
};

void serve() {
  const sockets pair;
  const auto [mine, its] = pair.ends;
  const int loop = ::epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [loop](int fd) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.fd = fd;
    expect(::epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted) == 0);
  };
  std::string received;
  int total = 0;

  // [event-loop]
  muster::mpmc_queue<int> results(64);
  muster::notify_fd ready(results);  // a file descriptor; results must outlive it
  watch(ready.fd());                 // epoll_ctl(…, EPOLL_CTL_ADD, …)
  watch(its);                        // a socket

  std::jthread worker([&] {
    for (int i = 1; i <= 8; ++i) results.push(i);  // costs nothing more while the event loop is busy
    results.close();
  });
  ::send(mine, "x", 1, 0);

  bool open = true;
  while (open || received.empty()) {
    auto item = results.try_pop();
    for (; item; item = results.try_pop()) total += *item;  // 1. take what there is
    open = item.status() != muster::queue_status::closed;
    if (open && !ready.arm()) continue;  // 2. arm; false: something has come meanwhile, so take it

    epoll_event event{};  // 3. wait for whatever comes first
    if (received.empty() || open) ::epoll_wait(loop, &event, 1, -1);
    char byte = 0;
    if (event.data.fd == its && ::recv(its, &byte, 1, 0) == 1) received += byte;
  }
  // [/event-loop]
  expect(total == 36);
  expect(received == "x");
  ::close(loop);
}

void read_no_more_than_there_is_room_for() {
  const sockets pair;
  const auto [theirs, socket] = pair.ends;
  std::string text;
  std::jthread client([theirs] {
    for (const char letter : std::string("a long text for a short queue")) ::send(theirs, &letter, 1, 0);
    ::shutdown(theirs, SHUT_WR);
  });

  // [room]
  muster::spsc_queue<char> letters(4);
  muster::notify_room_fd room(letters);  // readable when there is room again

  std::jthread worker([&] {
    while (const auto letter = letters.pop()) text += *letter;
  });

  for (char next = 0; ::recv(socket, &next, 1, 0) == 1;) {
    while (letters.try_push(next) == muster::queue_status::full) {
      if (!room.arm()) continue;                   // there is room by now
      pollfd wanted[] = {{room.fd(), POLLIN, 0}};  // and those of the loop's other work, but not this socket
      ::poll(wanted, 1, -1);
    }
  }
  letters.close();
  // [/room]
  worker.join();
  expect(text == "a long text for a short queue");
}

}  // namespace

int main() {
  serve();
  read_no_more_than_there_is_room_for();
}
