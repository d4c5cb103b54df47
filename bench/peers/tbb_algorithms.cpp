// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The parallel algorithms of libstdc++, which are oneTBB beneath.
#include "driver/algorithm_run.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cstddef>
#include <execution>

namespace muster::bench {
namespace {

class standard_algorithms {
 public:
  explicit standard_algorithms(unsigned workers)
      : limit_(tbb::global_control::max_allowed_parallelism, workers), arena_(static_cast<int>(workers)) {}
  std::size_t run(algorithm_load what, algorithm_data& on) {
    return arena_.execute([&] { return execute(what, on); });
  }

 private:
  static std::size_t execute(algorithm_load what, algorithm_data& on) {
    constexpr auto& par = std::execution::par;
    auto& v = on.values;
    const auto at = [&](auto found) { return static_cast<std::size_t>(found - v.begin()); };
    switch (what) {
      case algorithm_load::find: return at(std::find_if(par, v.begin(), v.end(), algorithm_data::is_last));
      case algorithm_load::extremes: return at(std::minmax_element(par, v.begin(), v.end()).second);
      case algorithm_load::select:
        return static_cast<std::size_t>(std::copy_if(par, v.begin(), v.end(), on.out.begin(), algorithm_data::is_odd) -
                                        on.out.begin());
      case algorithm_load::unique: return at(std::unique(par, v.begin(), v.end()));
      case algorithm_load::partition: return at(std::partition(par, v.begin(), v.end(), algorithm_data::is_odd));
      case algorithm_load::merge:
        return static_cast<std::size_t>(std::merge(par, v.data(), on.middle(), on.middle(), on.end(), on.out.begin()) -
                                        on.out.begin());
      default: return 0;
    }
  }

  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

void add_tbb_algorithms(catalogue& to) {
  to.add({.name = "std::execution::par",
          .family = "tbb",
          .role = "peer",
          .note = "libstdc++, on oneTBB",
          .algorithm = run_algorithm<standard_algorithms>});
}

}  // namespace muster::bench
