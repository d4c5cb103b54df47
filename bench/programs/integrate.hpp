// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// integrate.hpp: the area under x³ + x from 0 to n, halving each interval until the trapezoids of its halves differ
// from its own by less than 1e-9: an unbalanced tree with little work in each node. The function and the bound are
// those of the benchmark in the X10 distribution.
#pragma once

#include "programs/program.hpp"

#include <cmath>

namespace muster::bench {

template <class S>
class integrate {
 public:
  static constexpr program_sizes size{4, 150, 2000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = false;

  explicit integrate(std::uint64_t n) : to_(static_cast<double>(n)) {}

  void run(S) { value_ = area(0, to_, height(0), height(to_), 0); }

  std::uint64_t digest() const { return std::bit_cast<std::uint64_t>(value_); }
  std::string error() const {
    const double right = to_ * to_ * (to_ * to_ / 4 + 0.5);
    return std::abs(value_ - right) <= 1e-6 * right ? "" : "the area is not that of the polynomial";
  }
  std::uint64_t items() const { return 1; }

 private:
  static double height(double x) { return (x * x + 1) * x; }

  [[gnu::noinline]] static double area(double left, double right, double at_left, double at_right, double whole) {
    const double middle = left + (right - left) / 2;
    const double at_middle = height(middle);
    const double first = (at_left + at_middle) * (right - left) / 4;
    const double second = (at_middle + at_right) * (right - left) / 4;
    if (std::abs(first + second - whole) < 1e-9) {
      S::leaf();
      return first + second;
    }
    const auto [a, b] = S::fork2([=] { return area(left, middle, at_left, at_middle, first); },
                                 [=] { return area(middle, right, at_middle, at_right, second); });
    return a + b;
  }

  double to_;
  double value_ = 0;
};

}  // namespace muster::bench
