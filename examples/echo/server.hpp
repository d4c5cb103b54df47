// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// server.hpp: a TCP server on the loopback interface. One thread waits for all sockets (epoll); workers compute the
// answers. Requests go to the workers through a queue, and answers come back through another, whose notify_fd the event
// loop watches beside the sockets.
//
// A request is a line. A client has at most one request in the queues, so it gets its answers in the order of its
// requests, and no push has to wait for room.
#pragma once

#include <muster/queue.hpp>
#include <muster/queue/notify_fd.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace echo {

/// Throws std::system_error if `result` is negative.
inline int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// A file descriptor that is closed at the end.
class descriptor {
 public:
  explicit descriptor(int number) : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int get() const { return number_; }

 private:
  int number_;
};

class server {
 public:
  using handler = std::function<std::string(const std::string&)>;  // of a line, without its end; must not throw
  static constexpr std::size_t most_clients = 1024;
  static constexpr std::size_t longest_line = 65536;

  /// Port 0: any that is free. Throws std::system_error.
  server(std::uint16_t port, unsigned workers, const handler& answer) : listener_(listen_on(port)) {
    watch(listener_.get(), listener_key);
    watch(ready_.fd(), answers_key);
    for (unsigned i = 0; i < workers; ++i)
      workers_.emplace_back([this, answer] {
        while (auto one = requests_.pop()) answers_.push({one->client, answer(one->line)});
      });
  }

  std::uint16_t port() const {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    checked(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), "getsockname");
    return ntohs(at.sin_port);
  }

  /// Serves until stop(). Throws std::system_error.
  void run() {
    std::array<epoll_event, 64> events{};
    while (send_answers()) {
      const int count = ::epoll_wait(loop_.get(), events.data(), static_cast<int>(events.size()), -1);
      if (count < 0 && errno != EINTR) checked(count, "epoll_wait");
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == listener_key) accept_clients();
        else if (event.data.u64 != answers_key) serve(event.data.u64, event.events);
      }
    }
  }

  /// Any thread may call it.
  void stop() { answers_.close(); }

 private:
  using client_id = std::uint64_t;  // never used again
  static constexpr client_id listener_key = 0, answers_key = 1;

  struct request {
    client_id client;
    std::string line;
  };
  struct client {
    explicit client(int number) : socket(number) {}
    descriptor socket;          // closed: it has left, and one of its requests is in the queues
    std::string received;       // and not yet requested
    std::string to_send;        // and not yet accepted by the socket
    bool asked = false;         // a request of it is in the queues
    bool has_finished = false;  // sends nothing more
    std::uint32_t watched = EPOLLIN;
  };

  static descriptor listen_on(std::uint16_t port) {
    descriptor made(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket"));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    checked(::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setsockopt");
    checked(::bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), "bind");
    checked(::listen(made.get(), SOMAXCONN), "listen");
    return made;
  }
  void watch(int fd, client_id key) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.u64 = key;
    checked(::epoll_ctl(loop_.get(), EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
  }

  // [answers]
  /// Sends all answers that there are. Returns false after stop().
  bool send_answers() {
    for (;;) {
      auto one = answers_.try_pop();
      for (; one; one = answers_.try_pop()) send(one->client, std::move(one->line));
      if (one.status() == muster::queue_status::closed) return false;
      if (ready_.arm()) return true;  // the next answer wakes epoll_wait
    }
  }
  // [/answers]

  void accept_clients() {
    while (clients_.size() < most_clients) {
      const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket < 0) return;  // no more, or it has gone already
      const client_id id = next_++;
      clients_.try_emplace(id, socket);
      watch(socket, id);
    }
    // The others wait in the listener's backlog: it stays readable, so it is not watched while all places are taken.
    ::epoll_ctl(loop_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  }

  void serve(client_id id, std::uint32_t events) {
    const auto at = clients_.find(id);
    if (at == clients_.end() || at->second.socket.get() < 0) return;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) return drop(at);
    if ((events & EPOLLIN) != 0 && !receive(at->second)) return drop(at);
    if (!proceed(id, at->second)) drop(at);
  }

  void send(client_id id, std::string&& line) {
    const auto at = clients_.find(id);
    at->second.asked = false;
    if (at->second.socket.get() < 0) return drop(at);
    at->second.to_send += std::move(line) += '\n';
    if (!proceed(id, at->second)) drop(at);
  }

  /// Returns false if the client is to be dropped.
  static bool receive(client& from) {
    std::array<char, 4096> some;
    const ssize_t size = ::recv(from.socket.get(), some.data(), some.size(), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) from.has_finished = true;
    from.received.append(some.data(), static_cast<std::size_t>(size));
    return true;
  }

  /// Sends as much as the socket takes, and passes the next line to the workers. Returns false if the client is to be
  /// dropped.
  bool proceed(client_id id, client& one) {
    while (!one.to_send.empty()) {
      const ssize_t size = ::send(one.socket.get(), one.to_send.data(), one.to_send.size(), MSG_NOSIGNAL);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno != EAGAIN) return false;
      if (size < 0) break;
      one.to_send.erase(0, static_cast<std::size_t>(size));
    }
    if (!one.asked && one.to_send.empty()) {
      const std::size_t end = one.received.find('\n');
      if (end == std::string::npos && (one.has_finished || one.received.size() > longest_line)) return false;
      if (end != std::string::npos) {
        requests_.push({id, one.received.substr(0, end)});
        one.received.erase(0, end + 1);
        one.asked = true;
      }
    }
    // While a request is in the queues, the client's next ones wait in its socket.
    const std::uint32_t wanted = (one.asked || one.has_finished ? 0U : std::uint32_t{EPOLLIN}) |
                                 (one.to_send.empty() ? 0U : std::uint32_t{EPOLLOUT});
    if (wanted != one.watched) {
      epoll_event change{};
      change.events = one.watched = wanted;
      change.data.u64 = id;
      checked(::epoll_ctl(loop_.get(), EPOLL_CTL_MOD, one.socket.get(), &change), "epoll_ctl");
    }
    return true;
  }

  /// A client with a request in the queues keeps its place, so that the queues have room for the others.
  void drop(std::unordered_map<client_id, client>::iterator one) {
    one->second.socket.close();
    if (one->second.asked) return;
    if (clients_.size() == most_clients) watch(listener_.get(), listener_key);
    clients_.erase(one);
  }

  muster::spmc_queue<request> requests_{most_clients};  // from the event loop
  muster::mpmc_queue<request> answers_{most_clients};   // to it
  muster::notify_fd<muster::mpmc_queue<request>> ready_{answers_};
  descriptor loop_{checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")};
  descriptor listener_;
  std::unordered_map<client_id, client> clients_;
  client_id next_ = answers_key + 1;
  // Last, as they end in the opposite order: the workers answer the remaining requests, and end before the queues.
  std::vector<std::jthread> workers_;
  struct at_end {
    muster::spmc_queue<request>& requests;
    ~at_end() { requests.close(); }
  } closing_{requests_};
};

}  // namespace echo
