// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// residual.hpp: checks the factors of a matrix by their product with a vector.
#pragma once

#include "programs/program.hpp"

#include <cmath>

namespace muster::bench {

inline std::vector<double> some_vector(std::size_t n) {
  scrambler any(n + 1);
  std::vector<double> x(n);
  for (double& value : x) value = any.fraction() - 0.5;
  return x;
}

/// True if A x is y, up to rounding.
inline bool same_product(const std::vector<double>& a, const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    double size = 0;
    for (std::size_t j = 0; j < n; ++j) {
      sum += a[i * n + j] * x[j];
      size += std::abs(a[i * n + j] * x[j]);
    }
    if (!(std::abs(sum - y[i]) <= 1e-12 * size)) return false;
  }
  return true;
}

}  // namespace muster::bench
