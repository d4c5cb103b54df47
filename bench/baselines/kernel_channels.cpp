// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel's channels for parcels between processes: a pipe, and a pair of Unix sockets that keeps parcels apart.
// Each parcel is one write and one read; both are whole, as a parcel is shorter than PIPE_BUF and all have the same
// size. And for messages of any length: a stream of them, each after its length.
#include "driver/between.hpp"
#include "driver/messages.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <stdexcept>
#include <vector>

namespace muster::bench {
namespace {

/// Two descriptors. Each process keeps one of them. A consumer reads to the end once no process has the other.
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

/// A stream in which each message follows its length.
template <class Make>
class kernel_stream {
 public:
  explicit kernel_stream(std::size_t size) : size_(size) { Make::make(ends_, message_room(size)); }
  ~kernel_stream() { forget(); }
  kernel_stream(const kernel_stream&) = delete;
  kernel_stream& operator=(const kernel_stream&) = delete;
  void forget() {
    for (int& end : ends_)
      if (end >= 0) ::close(std::exchange(end, -1));
  }

  class producer {
   public:
    explicit producer(kernel_stream& c) : end_(c.ends_[1]), own_(c.size_ / 8) {}
    template <class Fill>
    void push(Fill fill) {
      fill(own_);
      std::uint64_t length = 8 * own_.size();
      iovec parts[] = {{&length, sizeof length}, {own_.data(), length}};
      for (std::size_t done = 0; done != sizeof length + length;) {
        const ssize_t written = ::writev(end_, parts, 2);
        if (written <= 0) throw std::runtime_error("a write failed");
        done += static_cast<std::size_t>(written);
        for (std::size_t rest = static_cast<std::size_t>(written); iovec & part : parts) {
          const std::size_t now = std::min(rest, part.iov_len);
          part = {static_cast<char*>(part.iov_base) + now, part.iov_len - now};
          rest -= now;
        }
      }
    }

   private:
    int end_;
    std::vector<std::uint64_t> own_;
  };

  class consumer {
   public:
    explicit consumer(kernel_stream& c) : end_(c.ends_[0]), own_(c.size_ / 8) {}
    template <class Read>
    void pop(Read read) {
      std::uint64_t length = 0;
      read_all(&length, sizeof length);
      own_.resize(length / 8);
      read_all(own_.data(), length);
      read(own_);
    }

   private:
    void read_all(void* to, std::size_t size) {
      for (std::size_t done = 0; done != size;) {
        const ssize_t got = ::read(end_, static_cast<char*>(to) + done, size - done);
        if (got <= 0) throw std::runtime_error("a read failed");
        done += static_cast<std::size_t>(got);
      }
    }
    int end_;
    std::vector<std::uint64_t> own_;
  };

 private:
  std::size_t size_;
  int ends_[2] = {-1, -1};
};

struct make_stream_sockets {
  static void make(int* ends, std::size_t bytes) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
    const int size = static_cast<int>(bytes);
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  }
};

template <class Make>
void add_stream(catalogue& to, const char* name) {
  to.all.push_back({.name = name,
                    .family = "kernel",
                    .role = "baseline",
                    .note = "one write and two reads for each message, at least",
                    .messages = run_messages<kernel_stream<Make>>});
}

template <class Make>
void add(catalogue& to, const char* name, const char* note) {
  to.all.push_back({.name = name,
                    .family = "kernel",
                    .role = "baseline",
                    .note = note,
                    .topics = between_processes | from_one_process | between_many,
                    .between = run_between<kernel_channel<Make>>,
                    .trips_between = run_trips_between<kernel_channel<Make>>});
}

}  // namespace

void add_kernel_channels(catalogue& to) {
  add<make_pipe>(to, "pipe", "a write and a read for each parcel");
  add<make_sockets>(to, "Unix socket", "SOCK_SEQPACKET: a write and a read for each parcel");
  add_stream<make_pipe>(to, "pipe, messages");
  add_stream<make_stream_sockets>(to, "Unix socket, messages");
}

}  // namespace muster::bench
