// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's sorting, and that of the standard library.
#include "driver/sort_run.hpp"

#include <muster/fork.hpp>

#include <algorithm>
#include <vector>

namespace muster::bench {
namespace {

template <bool Stable>
class muster_sort {
 public:
  static constexpr bool is_stable = Stable;
  explicit muster_sort(unsigned workers) : pool_(workers) {}
  template <class T>
  void sort(std::vector<T>& v) {
    pool_.run([&] {
      if constexpr (Stable) parallel_stable_sort(v);
      else parallel_sort(v);
    });
  }

 private:
  pool pool_;
};

template <bool Stable>
struct serial_sort {
  static constexpr bool is_stable = Stable;
  explicit serial_sort(unsigned) {}
  template <class T>
  static void sort(std::vector<T>& v) {
    if constexpr (Stable) std::stable_sort(v.begin(), v.end());
    else std::sort(v.begin(), v.end());
  }
};

}  // namespace

void add_sorts(catalogue& to) {
  to.add({.name = "muster",
          .family = "muster",
          .role = "ours",
          .note = "parallel_sort",
          .sort = run_sort<muster_sort<false>>});
  to.add({.name = "muster, stable",
          .family = "muster",
          .role = "ours",
          .note = "parallel_stable_sort",
          .sort = run_sort<muster_sort<true>>,
          .sorts_stably = true});
  to.add({.name = "std::sort",
          .family = "std",
          .role = "baseline",
          .note = "serial",
          .sort = run_sort<serial_sort<false>>});
  to.add({.name = "std::stable_sort",
          .family = "std",
          .role = "baseline",
          .note = "serial",
          .sort = run_sort<serial_sort<true>>,
          .sorts_stably = true});
}

}  // namespace muster::bench
