// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fib.hpp: Fibonacci numbers by two recursive calls, which do nothing but fork.
#pragma once

#include "programs/program.hpp"

#include <utility>

namespace muster::bench {

template <class S>
class fib {
 public:
  static constexpr program_sizes size{17, 28, 35};
  static constexpr bool repeats = true;
  static constexpr bool coarse = false;

  explicit fib(std::uint64_t n) : n_(n) {
    for (std::uint64_t i = 0; i < n; ++i) right_ = std::exchange(next_, right_ + next_);
  }

  void run(S s) {
    std::uint64_t n = n_;
    opaque(n);
    value_ = call(s, n);
    wrong_ += value_ != right_ ? 1U : 0U;
  }

  std::uint64_t digest() const { return value_; }
  std::string error() const { return wrong_ == 0 ? "" : "the number is not that of Fibonacci"; }
  std::uint64_t items() const { return 2 * next_ - 1; }  // calls

 private:
  [[gnu::noinline]] static std::uint64_t call(S s, std::uint64_t n) {
    if (n < 2) {
      S::leaf();
      return n;
    }
    const auto [a, b] = s.template both<&fib::call>(n - 1, n - 2);
    return a + b;
  }

  std::uint64_t n_;
  std::uint64_t right_ = 0;  // fib(n)
  std::uint64_t next_ = 1;   // fib(n + 1)
  std::uint64_t value_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace muster::bench
