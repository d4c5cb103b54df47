// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heat.hpp: heat diffusion on a plate, in explicit steps. The plate is halved down to leaves of at most 10 lines, as in
// the program of Cilk 5 that the paper uses: 4096 x 1024 points, 200 steps.
#pragma once

#include "programs/waves.hpp"

namespace muster::bench {

struct heat_leaf {
  static constexpr std::size_t most = 10;  // lines
  static constexpr double speed = 0.125;
  [[gnu::noinline]] static void run(block from, block to, std::size_t row, std::size_t row_end, std::size_t columns) {
    for (std::size_t r = row; r < row_end; ++r) {
      const double* const above = from.row(r - 1);
      const double* const here = from.row(r);
      const double* const below = from.row(r + 1);
      double* const out = to.row(r);
      for (std::size_t c = 1; c + 1 < columns; ++c) {
        out[c] =
            here[c] + speed * (above[c] - 2 * here[c] + below[c]) + speed * (here[c - 1] - 2 * here[c] + here[c + 1]);
      }
    }
  }
};

template <class S>
class heat {
 public:
  static constexpr program_sizes size{64, 1024, 4096};  // points in one direction; a quarter in the other
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit heat(std::uint64_t n)
      : rows_(n),
        columns_(n / 4),
        steps_(n == size.full ? 200 : 20),
        start_(rows_, columns_, rows_ / 4, columns_ / 8),
        a_(start_.values()),
        b_(start_.values()) {}

  void run(S) {
    for (unsigned step = 0; step < steps_; ++step) {
      const block a{a_.data(), columns_};
      const block b{b_.data(), columns_};
      if (step % 2 == 0) {
        advance(a, b, 1, rows_ - 1, columns_);
      } else {
        advance(b, a, 1, rows_ - 1, columns_);
      }
    }
  }

  std::uint64_t digest() const { return digest_of(result()); }
  std::string error() const {
    const double curve = wave_grid::cosine(rows_, rows_ / 4) - 1 + wave_grid::cosine(columns_, columns_ / 8) - 1;
    const double factor = std::pow(1 + 2 * heat_leaf::speed * curve, steps_);
    return start_.scaled(result(), factor) ? "" : "the heat is distributed wrongly";
  }
  std::uint64_t items() const { return 1; }

 private:
  const std::vector<double>& result() const { return steps_ % 2 == 0 ? a_ : b_; }

  static void advance(block from, block to, std::size_t row, std::size_t row_end, std::size_t columns) {
    if (row_end - row <= heat_leaf::most) {
      S::leaf();
      return heat_leaf::run(from, to, row, row_end, columns);
    }
    const std::size_t middle = row + (row_end - row) / 2;
    S::fork2([&] { advance(from, to, row, middle, columns); }, [&] { advance(from, to, middle, row_end, columns); });
  }

  std::size_t rows_, columns_;
  unsigned steps_;
  wave_grid start_;
  std::vector<double> a_, b_;
};

}  // namespace muster::bench
