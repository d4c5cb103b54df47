// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// progress.hpp: one line on the terminal that says how far the measurement is. Silent when stderr is not a terminal.
#pragma once

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

namespace muster::bench {

class progress {
 public:
  explicit progress(std::size_t steps) : steps_(std::max<std::size_t>(steps, 1)), shown_(isatty(STDERR_FILENO) != 0) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { clear(); }

  void step(const std::string& experiment, const std::string& what) {
    ++done_;
    if (!shown_) return;
    const std::size_t full = std::min(done_ * width / steps_, width);
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {:3}%  {}  {:.40}", "", full, "", width - full,
               std::min<std::size_t>(done_ * 100 / steps_, 100), experiment, what);
    std::fflush(stderr);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  static constexpr std::size_t width = 24;
  std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_;
};

}  // namespace muster::bench
