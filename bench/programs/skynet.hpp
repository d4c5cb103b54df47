// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// skynet.hpp: a tree in which every node has ten children; each of its million leaves returns its number.
#pragma once

#include "programs/program.hpp"

namespace muster::bench {

template <class S>
class skynet {
 public:
  static constexpr program_sizes size{1000, 1000000, 1000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = false;

  explicit skynet(std::uint64_t leaves) : leaves_(leaves) {}

  void run(S) { value_ = sum(0, leaves_); }

  std::uint64_t digest() const { return value_; }
  std::string error() const { return value_ == leaves_ * (leaves_ - 1) / 2 ? "" : "the sum over the leaves is wrong"; }
  std::uint64_t items() const { return leaves_; }

 private:
  [[gnu::noinline]] static std::uint64_t sum(std::uint64_t first, std::uint64_t leaves) {
    if (leaves == 1) {
      S::leaf();
      return first;
    }
    return S::sum(10, [=](unsigned i) { return sum(first + i * (leaves / 10), leaves / 10); });
  }

  std::uint64_t leaves_;
  std::uint64_t value_ = 0;
};

}  // namespace muster::bench
