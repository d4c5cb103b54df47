// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// jacobi.hpp: relaxation on a square of doubles: each value becomes the mean of its four neighbours. The square is
// quartered down to leaves of 256 cells, as in Lea's fork/join framework, or 2, as in the published code of the return
// barrier's authors.
#pragma once

#include "programs/waves.hpp"

#include <algorithm>

namespace muster::bench {

struct jacobi_leaf {
  /// Returns the largest change.
  [[gnu::noinline]] static double run(block from, block to, std::size_t row, std::size_t row_end, std::size_t column,
                                      std::size_t column_end) {
    double most = 0;
    for (std::size_t r = row; r < row_end; ++r) {
      const double* const above = from.row(r - 1);
      const double* const here = from.row(r);
      const double* const below = from.row(r + 1);
      double* const out = to.row(r);
      for (std::size_t c = column; c < column_end; ++c) {
        out[c] = 0.25 * (above[c] + here[c - 1] + below[c] + here[c + 1]);
        most = std::max(most, std::abs(out[c] - here[c]));
      }
    }
    return most;
  }
};

template <class S, std::size_t Leaf>
class jacobi_with {
 public:
  static constexpr program_sizes size = Leaf < 16 ? program_sizes{64, 128, 512} : program_sizes{64, 256, 1024};
  static constexpr bool repeats = false;
  static constexpr bool coarse = Leaf >= 16;

  explicit jacobi_with(std::uint64_t n)
      : n_(n),
        steps_(n == size.full ? 100 : 20),
        start_(n + 2, n + 2, n / 8, n / 8),
        a_(start_.values()),
        b_(start_.values()) {}

  void run(S) {
    for (unsigned step = 0; step < steps_; ++step) {
      const block a{a_.data(), n_ + 2};
      const block b{b_.data(), n_ + 2};
      change_ = step % 2 == 0 ? relax(a, b, 1, n_ + 1, 1, n_ + 1) : relax(b, a, 1, n_ + 1, 1, n_ + 1);
    }
  }

  std::uint64_t digest() const { return digest_of(result()) ^ std::bit_cast<std::uint64_t>(change_); }
  std::string error() const {
    return start_.scaled(result(), std::pow(wave_grid::cosine(n_ + 2, n_ / 8), steps_)) ? "" : "the grid is wrong";
  }
  std::uint64_t items() const { return 1; }

 private:
  const std::vector<double>& result() const { return steps_ % 2 == 0 ? a_ : b_; }

  static double relax(block from, block to, std::size_t row, std::size_t row_end, std::size_t column,
                      std::size_t column_end) {
    const std::size_t rows = row_end - row;
    const std::size_t columns = column_end - column;
    if (rows * columns <= Leaf) {
      S::leaf();
      return jacobi_leaf::run(from, to, row, row_end, column, column_end);
    }
    const std::size_t row_middle = row + rows / 2;
    const std::size_t column_middle = column + columns / 2;
    if (rows == 1) {
      const auto [left, right] = S::fork2([&] { return relax(from, to, row, row_end, column, column_middle); },
                                          [&] { return relax(from, to, row, row_end, column_middle, column_end); });
      return std::max(left, right);
    }
    const auto half = [&](std::size_t first, std::size_t last) {
      if (columns == 1) return relax(from, to, first, last, column, column_end);
      const auto [left, right] = S::fork2([&] { return relax(from, to, first, last, column, column_middle); },
                                          [&] { return relax(from, to, first, last, column_middle, column_end); });
      return std::max(left, right);
    };
    const auto [upper, lower] =
        S::fork2([&] { return half(row, row_middle); }, [&] { return half(row_middle, row_end); });
    return std::max(upper, lower);
  }

  std::size_t n_;
  unsigned steps_;
  wave_grid start_;
  std::vector<double> a_, b_;
  double change_ = 0;
};

template <class S>
struct jacobi : jacobi_with<S, 256> {
  using jacobi_with<S, 256>::jacobi_with;
};
template <class S>
struct jacobi_fine : jacobi_with<S, 2> {
  using jacobi_with<S, 2>::jacobi_with;
};

}  // namespace muster::bench
