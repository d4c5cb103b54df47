// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernel has for parcels between processes: a pipe, and a pair of Unix sockets that keeps parcels apart. Each
// parcel is one write and one read; both are whole, as a parcel is shorter than PIPE_BUF and all have the same size.
#include "driver/between.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

namespace muster::bench {
namespace {

/// Two descriptors. A process keeps one of them; consumers have come to the end when nobody has the other.
template <class Make>
class kernel_channel {
 public:
  kernel_channel(std::size_t capacity, unsigned, unsigned) { Make::make(ends_, capacity * sizeof(parcel)); }
  ~kernel_channel() { forget(); }
  kernel_channel(const kernel_channel&) = delete;
  kernel_channel& operator=(const kernel_channel&) = delete;
  void forget() { drop(0), drop(1); }

  class producer {
   public:
    explicit producer(kernel_channel& c) : channel_(c) { c.drop(0); }
    void push(const parcel& p) {
      if (::write(channel_.ends_[1], &p, sizeof(p)) != sizeof(p)) throw std::runtime_error("a write failed");
    }
    void leave(bool) { channel_.drop(1); }

   private:
    kernel_channel& channel_;
  };

  class consumer {
   public:
    explicit consumer(kernel_channel& c) : channel_(c) { c.drop(1); }
    bool pop(parcel& p) {
      const ssize_t got = ::read(channel_.ends_[0], &p, sizeof(p));
      if (got != 0 && got != sizeof(p)) throw std::runtime_error("a read failed");
      return got != 0;
    }

   private:
    kernel_channel& channel_;
  };

 private:
  void drop(int end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }

  int ends_[2] = {-1, -1};
};

struct make_pipe {
  static void make(int* ends, std::size_t bytes) {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    // As large as the others, if the kernel allows it.
    ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(bytes));
  }
};
struct make_sockets {
  static void make(int* ends, std::size_t bytes) {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
    const int size = static_cast<int>(bytes);
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  }
};

template <class Make>
void add(catalogue& to, const char* name, const char* note) {
  to.all.push_back({.name = name,
                    .family = "kernel",
                    .role = "baseline",
                    .note = note,
                    .topics = between_processes | from_one_process | between_many,
                    .between = run_between<kernel_channel<Make>>});
}

}  // namespace

void add_kernel_channels(catalogue& to) {
  add<make_pipe>(to, "pipe", "a write and a read for each parcel");
  add<make_sockets>(to, "Unix socket", "SOCK_SEQPACKET: a write and a read for each parcel");
}

}  // namespace muster::bench
