// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cholesky.hpp: factors a symmetric matrix of doubles into a lower triangle and its transpose, in tiles of 32 × 32:
// loops over the tiles of a column, and over those to its right.
#pragma once

#include "programs/residual.hpp"

#include <cmath>

namespace muster::bench {

struct cholesky_tile {
  static constexpr std::size_t n = 32;
  [[gnu::noinline]] static void factor(block m) {
    for (std::size_t k = 0; k < n; ++k) {
      const double root = m.row(k)[k] = std::sqrt(m.row(k)[k]);
      for (std::size_t i = k + 1; i < n; ++i) m.row(i)[k] /= root;
      for (std::size_t i = k + 1; i < n; ++i) {
        for (std::size_t j = k + 1; j <= i; ++j) m.row(i)[j] -= m.row(i)[k] * m.row(j)[k];
      }
    }
  }
  /// M becomes X with X Lᵀ = M.
  [[gnu::noinline]] static void solve(block m, block l) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        double sum = m.row(i)[k];
        for (std::size_t j = 0; j < k; ++j) sum -= m.row(i)[j] * l.row(k)[j];
        m.row(i)[k] = sum / l.row(k)[k];
      }
    }
  }
  /// M becomes M - A Bᵀ.
  [[gnu::noinline]] static void update(block m, block a, block b) {
    double turned[n][n];
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < n; ++j) turned[k][j] = b.row(j)[k];
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        const double f = a.row(i)[k];
        for (std::size_t j = 0; j < n; ++j) m.row(i)[j] -= f * turned[k][j];
      }
    }
  }
};

template <class S>
class cholesky {
 public:
  static constexpr program_sizes size{128, 512, 1024};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit cholesky(std::uint64_t n) : n_(n), given_(n * n) {
    scrambler any(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) given_[i * n + j] = given_[j * n + i] = any.fraction();
      given_[i * n + i] += static_cast<double>(n);
    }
    made_ = given_;
  }

  void run(S) {
    const std::size_t tiles = n_ / cholesky_tile::n;
    for (std::size_t k = 0; k < tiles; ++k) {
      cholesky_tile::factor(tile(k, k));
      S::loop(k + 1, tiles, 1, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
          S::leaf();
          cholesky_tile::solve(tile(i, k), tile(k, k));
        }
      });
      // The tiles (i, j) with k < j <= i, by rows.
      const std::size_t left = tiles - k - 1;
      S::loop(0, left * (left + 1) / 2, 1, [&](std::size_t first, std::size_t last) {
        std::size_t i = 0;
        while ((i + 1) * (i + 2) / 2 <= first) ++i;
        std::size_t j = first - i * (i + 1) / 2;
        for (std::size_t at = first; at < last; ++at) {
          S::leaf();
          cholesky_tile::update(tile(k + 1 + i, k + 1 + j), tile(k + 1 + i, k), tile(k + 1 + j, k));
          if (j++ == i) {
            j = 0;
            ++i;
          }
        }
      });
    }
  }

  std::uint64_t digest() const { return digest_of(made_); }
  std::string error() const {
    const std::vector<double> x = some_vector(n_);
    std::vector<double> turned(n_);
    std::vector<double> product(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) turned[j] += made_[i * n_ + j] * x[i];
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j <= i; ++j) product[i] += made_[i * n_ + j] * turned[j];
    }
    return same_product(given_, x, product) ? "" : "the product of the triangle and its transpose is not the matrix";
  }
  std::uint64_t items() const { return 1; }

 private:
  block tile(std::size_t row, std::size_t column) {
    return block{made_.data(), n_}.at(row * cholesky_tile::n, column * cholesky_tile::n);
  }

  std::size_t n_;
  std::vector<double> given_, made_;
};

}  // namespace muster::bench
