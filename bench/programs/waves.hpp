// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// waves.hpp: a grid that starts as a product of two sines. Stencils with constant factors scale it by a known factor,
// so their results can be checked in every point.
#pragma once

#include "programs/program.hpp"

#include <cmath>
#include <numbers>

namespace muster::bench {

class wave_grid {
 public:
  /// `rows` and `columns` include the border, which is zero; the waves are numbers of half waves.
  wave_grid(std::size_t rows, std::size_t columns, std::size_t waves_down, std::size_t waves_across)
      : down_(half_waves(rows, waves_down)), across_(half_waves(columns, waves_across)), values_(rows * columns) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) values_[r * columns + c] = down_[r] * across_[c];
    }
  }

  const std::vector<double>& values() const { return values_; }

  /// True if `found` is the initial grid times `factor`.
  bool scaled(const std::vector<double>& found, double factor) const {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!(std::abs(found[i] - values_[i] * factor) < 1e-12)) return false;
    }
    return true;
  }

  /// The cosine of the phase between neighbouring points, for `waves` half waves on `points` points.
  static double cosine(std::size_t points, std::size_t waves) {
    return std::cos(std::numbers::pi * static_cast<double>(waves) / static_cast<double>(points - 1));
  }

 private:
  static std::vector<double> half_waves(std::size_t points, std::size_t waves) {
    std::vector<double> values(points);
    for (std::size_t i = 1; i + 1 < points; ++i) {
      values[i] = std::sin(std::numbers::pi * static_cast<double>(i * waves % (2 * points - 2)) /
                           static_cast<double>(points - 1));
    }
    return values;
  }

  std::vector<double> down_, across_;
  std::vector<double> values_;
};

}  // namespace muster::bench
