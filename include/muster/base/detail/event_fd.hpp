// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// event_fd.hpp: a file descriptor that becomes readable when signalled (eventfd, Linux).
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <sys/eventfd.h>  // eventfd
#include <unistd.h>       // read, write, close

#include <cerrno>        // errno
#include <cstdint>       // std::uint64_t
#include <system_error>  // std::system_error

namespace muster::inline MUSTER_ABI::detail {

class event_fd {
 public:
  event_fd() : number_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (number_ < 0)
      MUSTER_THROW(std::system_error(errno, std::generic_category(),
                                     "notify_fd: no file descriptor for it (eventfd); raise the limit, or close some"));
  }
  ~event_fd() { ::close(number_); }
  event_fd(const event_fd&) = delete;
  event_fd& operator=(const event_fd&) = delete;

  int number() const noexcept { return number_; }
  void signal() const noexcept {
    const std::uint64_t one = 1;
    while (::write(number_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  /// Until the next signal, it is not readable.
  void clear() const noexcept {
    std::uint64_t count = 0;
    while (::read(number_, &count, sizeof count) < 0 && errno == EINTR) {
    }
  }

 private:
  const int number_;
};

}  // namespace muster::inline MUSTER_ABI::detail
