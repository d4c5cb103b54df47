// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// nqueens.hpp: counts the ways to place n queens that do not attack each other. One child for each free place in the
// next row; each has a board of its own.
#pragma once

#include "programs/program.hpp"

#include <array>

namespace muster::bench {

using queens = std::array<std::uint8_t, 16>;  // the column of the queen in each row

inline bool threatened(const queens& at, unsigned row, unsigned column) {
  for (unsigned r = 0; r < row; ++r) {
    const unsigned other = at[r];
    if (other == column || other + (row - r) == column || column + (row - r) == other) return true;
  }
  return false;
}

template <class S>
class nqueens {
 public:
  static constexpr program_sizes size{7, 10, 13};
  static constexpr bool repeats = false;
  static constexpr bool coarse = false;

  explicit nqueens(std::uint64_t n) : n_(static_cast<unsigned>(n)) {}

  void run(S) { value_ = place(n_, queens{}, 0); }

  std::uint64_t digest() const { return value_; }
  std::string error() const {
    constexpr std::array<std::uint64_t, 15> known{1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596};
    return value_ == known.at(n_) ? "" : "the number of solutions is wrong";
  }
  std::uint64_t items() const { return 1; }

 private:
  [[gnu::noinline]] static std::uint64_t place(unsigned n, const queens& at, unsigned row) {
    if (row == n) {
      S::leaf();
      return 1;
    }
    queens free{};
    unsigned many = 0;
    for (unsigned column = 0; column < n; ++column)
      if (!threatened(at, row, column)) free[many++] = static_cast<std::uint8_t>(column);
    return S::sum(many, [&](unsigned i) {
      queens next = at;
      next[row] = free[i];
      return place(n, next, row + 1);
    });
  }

  unsigned n_;
  std::uint64_t value_ = 0;
};

}  // namespace muster::bench
