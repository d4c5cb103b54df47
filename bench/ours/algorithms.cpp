// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's algorithms on ranges, and the serial ones of the standard library.
#include "driver/algorithm_run.hpp"

#include <muster/fork.hpp>

#include <cstddef>

namespace muster::bench {
namespace {

class muster_algorithms {
 public:
  explicit muster_algorithms(unsigned workers) : pool_(workers) {}
  std::size_t run(algorithm_load what, algorithm_data& on) {
    return pool_.run([&] { return execute(what, on); });
  }

 private:
  static std::size_t execute(algorithm_load what, algorithm_data& on) {
    auto& v = on.values;
    const auto at = [&](auto found) { return static_cast<std::size_t>(found - v.begin()); };
    switch (what) {
      case algorithm_load::find: return at(parallel_find_if(v, algorithm_data::is_last));
      case algorithm_load::extremes: return at(parallel_minmax_element(v).max);
      case algorithm_load::select:
        return static_cast<std::size_t>(parallel_copy_if(v, on.out.begin(), algorithm_data::is_odd) - on.out.begin());
      case algorithm_load::unique: return at(parallel_unique(v));
      case algorithm_load::partition: return at(parallel_partition(v, algorithm_data::is_odd));
      case algorithm_load::merge:
        return static_cast<std::size_t>(parallel_merge(v.data(), on.middle(), on.middle(), on.end(), on.out.begin()) -
                                        on.out.begin());
      default: return 0;
    }
  }

  pool pool_;
};

class serial_algorithms {
 public:
  explicit serial_algorithms(unsigned) {}
  static std::size_t run(algorithm_load what, algorithm_data& on) { return serial_algorithm(what, on); }
};

}  // namespace

void add_algorithms(catalogue& to) {
  to.add({.name = "muster",
          .family = "muster",
          .role = "ours",
          .note = "parallel_find_if and others",
          .algorithm = run_algorithm<muster_algorithms>});
  to.add({.name = "plain calls",
          .family = "std",
          .role = "baseline",
          .note = "std::find_if and others",
          .algorithm = run_algorithm<serial_algorithms>,
          .algorithm_loads = {algorithm_load::find, algorithm_load::extremes, algorithm_load::select,
                              algorithm_load::unique, algorithm_load::partition, algorithm_load::merge,
                              algorithm_load::sort, algorithm_load::integer_sort, algorithm_load::scan,
                              algorithm_load::histogram}});
}

}  // namespace muster::bench
