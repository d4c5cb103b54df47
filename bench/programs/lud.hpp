// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lud.hpp: factors a matrix of doubles into a lower and an upper triangle, by quarters down to blocks of 16 × 16,
// without pivoting: the recursion of Cilk 5 and of the paper.
#pragma once

#include "programs/program.hpp"
#include "programs/residual.hpp"

namespace muster::bench {

struct lud_leaf {
  static constexpr std::size_t n = 16;
  /// M becomes L and U.
  [[gnu::noinline]] static void factor(block m) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = k + 1; i < n; ++i) {
        const double f = m.row(i)[k] /= m.row(k)[k];
        for (std::size_t j = k + 1; j < n; ++j) m.row(i)[j] -= f * m.row(k)[j];
      }
    }
  }
  /// M becomes X with L X = M.
  [[gnu::noinline]] static void lower(block m, block l) {
    for (std::size_t i = 1; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        const double f = l.row(i)[k];
        for (std::size_t j = 0; j < n; ++j) m.row(i)[j] -= f * m.row(k)[j];
      }
    }
  }
  /// M becomes X with X U = M.
  [[gnu::noinline]] static void upper(block m, block u) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        const double f = m.row(i)[k] /= u.row(k)[k];
        for (std::size_t j = k + 1; j < n; ++j) m.row(i)[j] -= f * u.row(k)[j];
      }
    }
  }
  /// M becomes M - A B.
  [[gnu::noinline]] static void update(block m, block a, block b) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        const double f = a.row(i)[k];
        for (std::size_t j = 0; j < n; ++j) m.row(i)[j] -= f * b.row(k)[j];
      }
    }
  }
};

template <class S>
class lud {
 public:
  static constexpr program_sizes size{64, 512, 1024};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit lud(std::uint64_t n) : n_(n), given_(n * n) {
    scrambler any(n);
    for (double& value : given_) value = any.fraction();
    for (std::size_t i = 0; i < n; ++i) given_[i * n + i] += static_cast<double>(n);
    made_ = given_;
  }

  void run(S) { factor({made_.data(), n_}, n_); }

  std::uint64_t digest() const { return digest_of(made_); }
  std::string error() const {
    const std::vector<double> x = some_vector(n_);
    std::vector<double> u(n_);
    std::vector<double> lu(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = i; j < n_; ++j) u[i] += made_[i * n_ + j] * x[j];
    }
    for (std::size_t i = 0; i < n_; ++i) {
      lu[i] = u[i];
      for (std::size_t j = 0; j < i; ++j) lu[i] += made_[i * n_ + j] * u[j];
    }
    return same_product(given_, x, lu) ? "" : "the product of the triangles is not the matrix";
  }
  std::uint64_t items() const { return 1; }

 private:
  static void factor(block m, std::size_t n) {
    if (n == lud_leaf::n) {
      S::leaf();
      return lud_leaf::factor(m);
    }
    const std::size_t h = n / 2;
    factor(m, h);
    S::fork2([&] { lower(m.at(0, h), m, h); }, [&] { upper(m.at(h, 0), m, h); });
    update(m.at(h, h), m.at(h, 0), m.at(0, h), h);
    factor(m.at(h, h), h);
  }

  static void lower(block m, block l, std::size_t n) {
    if (n == lud_leaf::n) {
      S::leaf();
      return lud_leaf::lower(m, l);
    }
    const std::size_t h = n / 2;
    const auto columns = [&](std::size_t c) {
      lower(m.at(0, c), l, h);
      update(m.at(h, c), l.at(h, 0), m.at(0, c), h);
      lower(m.at(h, c), l.at(h, h), h);
    };
    S::fork2([&] { columns(0); }, [&] { columns(h); });
  }

  static void upper(block m, block u, std::size_t n) {
    if (n == lud_leaf::n) {
      S::leaf();
      return lud_leaf::upper(m, u);
    }
    const std::size_t h = n / 2;
    const auto rows = [&](std::size_t r) {
      upper(m.at(r, 0), u, h);
      update(m.at(r, h), m.at(r, 0), u.at(0, h), h);
      upper(m.at(r, h), u.at(h, h), h);
    };
    S::fork2([&] { rows(0); }, [&] { rows(h); });
  }

  static void update(block m, block a, block b, std::size_t n) {
    if (n == lud_leaf::n) {
      S::leaf();
      return lud_leaf::update(m, a, b);
    }
    const std::size_t h = n / 2;
    for (const std::size_t k : {std::size_t{0}, h}) {
      const auto quarter = [&](std::size_t r, std::size_t c) { update(m.at(r, c), a.at(r, k), b.at(k, c), h); };
      S::fork2([&] { S::fork2([&] { quarter(0, 0); }, [&] { quarter(0, h); }); },
               [&] { S::fork2([&] { quarter(h, 0); }, [&] { quarter(h, h); }); });
    }
  }

  std::size_t n_;
  std::vector<double> given_, made_;
};

}  // namespace muster::bench
