// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "table/experiment.hpp"

#include <algorithm>
#include <numeric>

namespace muster::bench {
namespace {

/// Levenshtein's distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

const std::vector<experiment>& experiments() {
  static const std::vector<experiment> all = [] {
    std::vector<experiment> found;
    for (const auto& rows : {queue_rows(), ffq_rows(), combine_rows(), fork_rows(), gpu_rows(), simulated_rows(),
                             syscall_rows(), build_rows()})
      found.insert(found.end(), rows.begin(), rows.end());
    return found;
  }();
  return all;
}

const experiment* find_experiment(std::string_view id) {
  const auto& all = experiments();
  const auto found = std::find_if(all.begin(), all.end(), [id](const experiment& e) { return e.id == id; });
  return found == all.end() ? nullptr : &*found;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [word](const auto& a, const auto& b) { return distance(word, a) < distance(word, b); });
}

}  // namespace muster::bench
