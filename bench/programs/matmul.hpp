// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// matmul.hpp: C += A B for square matrices of doubles; the largest of the three extents is halved, down to leaves of 32
// rows and columns. Halves of the inner extent change the same elements, so they run one after the other.
#pragma once

#include "programs/program.hpp"

namespace muster::bench {

struct matmul_leaf {
  static constexpr std::size_t extent = 32;
  [[gnu::noinline]] static void run(block c, block a, block b, std::size_t rows, std::size_t inner,
                                    std::size_t columns) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < inner; ++k) {
        const double factor = a.row(i)[k];
        for (std::size_t j = 0; j < columns; ++j) c.row(i)[j] += factor * b.row(k)[j];
      }
    }
  }
};

template <class S>
class matmul {
 public:
  static constexpr program_sizes size{96, 256, 1024};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit matmul(std::uint64_t n) : n_(n), a_(n * n), b_(n * n), c_(n * n) {
    scrambler any(n);
    for (double& value : a_) value = static_cast<double>(any.next() >> 60U);  // small integers: all sums are exact
    for (double& value : b_) value = static_cast<double>(any.next() >> 60U);
  }

  void run(S) { multiply({c_.data(), n_}, {a_.data(), n_}, {b_.data(), n_}, n_, n_, n_); }

  std::uint64_t digest() const { return digest_of(c_); }
  /// Freivalds' check: C x is A (B x) for a vector x.
  std::string error() const {
    std::vector<double> x(n_);
    for (std::size_t i = 0; i < n_; ++i) x[i] = static_cast<double>(1 + i % 7);
    const std::vector<double> direct = times(c_, x);
    return direct == times(a_, times(b_, x)) ? "" : "the product is wrong";
  }
  std::uint64_t items() const { return 1; }

 private:
  static void multiply(block c, block a, block b, std::size_t rows, std::size_t inner, std::size_t columns) {
    if (rows <= matmul_leaf::extent && inner <= matmul_leaf::extent && columns <= matmul_leaf::extent) {
      S::leaf();
      return matmul_leaf::run(c, a, b, rows, inner, columns);
    }
    if (rows >= inner && rows >= columns) {
      const std::size_t half = rows / 2;
      S::fork2([&] { multiply(c, a, b, half, inner, columns); },
               [&] { multiply(c.at(half, 0), a.at(half, 0), b, rows - half, inner, columns); });
    } else if (columns >= inner) {
      const std::size_t half = columns / 2;
      S::fork2([&] { multiply(c, a, b, rows, inner, half); },
               [&] { multiply(c.at(0, half), a, b.at(0, half), rows, inner, columns - half); });
    } else {
      const std::size_t half = inner / 2;
      multiply(c, a, b, rows, half, columns);
      multiply(c, a.at(0, half), b.at(half, 0), rows, inner - half, columns);
    }
  }

  std::vector<double> times(const std::vector<double>& m, const std::vector<double>& x) const {
    std::vector<double> y(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) y[i] += m[i * n_ + j] * x[j];
    }
    return y;
  }

  std::size_t n_;
  std::vector<double> a_, b_, c_;
};

}  // namespace muster::bench
