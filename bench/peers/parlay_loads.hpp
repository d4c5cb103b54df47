// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parlay_loads.hpp: algorithms of parlaylib, on the scheduler that the including source has selected. One program
// compiles this text twice, with two names for the namespace `parlay`.
#pragma once

#include "driver/algorithm_run.hpp"

#include <parlay/primitives.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::bench {

/// `Scheduler`: made from the number of workers; the calls of its creator use it while it lives.
template <class Scheduler>
class parlay_algorithms {
 public:
  explicit parlay_algorithms(unsigned workers) : scheduler_(workers) {}

  std::size_t run(algorithm_load what, algorithm_data& on) {
    auto& v = on.values;
    switch (what) {
      case algorithm_load::sort: parlay::sort_inplace(v); return 0;
      case algorithm_load::integer_sort: parlay::integer_sort_inplace(v); return 0;
      case algorithm_load::scan: return parlay::scan_inplace(v);
      case algorithm_load::select: return parlay::filter_into_uninitialized(v, on.out, algorithm_data::is_odd);
      case algorithm_load::histogram: {
        const auto counts =
            parlay::histogram_by_index(parlay::delayed_map(v, algorithm_data::bucket_of), algorithm_data::buckets);
        std::copy(counts.begin(), counts.end(), on.out.begin());
        return 0;
      }
      default: return 0;
    }
  }

 private:
  Scheduler scheduler_;
};

template <class Scheduler>
void add_parlay(catalogue& to, const char* name, const char* role, const char* note) {
  to.add({.name = name,
          .family = "parlaylib",
          .role = role,
          .note = note,
          .algorithm = run_algorithm<parlay_algorithms<Scheduler>>,
          .algorithm_loads = {algorithm_load::sort, algorithm_load::integer_sort, algorithm_load::scan,
                              algorithm_load::select, algorithm_load::histogram}});
}

}  // namespace muster::bench
