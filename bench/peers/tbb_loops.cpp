// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's loops and sorting.
#include "driver/loop_run.hpp"
#include "driver/sort_run.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/parallel_sort.h>
#include <oneapi/tbb/task_arena.h>

#include <functional>
#include <vector>

namespace muster::bench {
namespace {

class tbb_workers {
 public:
  static constexpr bool is_stable = false;
  explicit tbb_workers(unsigned workers)
      : limit_(tbb::global_control::max_allowed_parallelism, workers), arena_(static_cast<int>(workers)) {}
  template <class F>
  void run(F f) {
    arena_.execute(f);
  }
  template <class F>
  static void each(int turns, F f) {
    tbb::parallel_for(0, turns, f);
  }
  template <class F>
  static double sum(int turns, F f) {
    return tbb::parallel_reduce(
        tbb::blocked_range<int>(0, turns), 0.0,
        [&](const tbb::blocked_range<int>& part, double all) {
          for (int i = part.begin(); i != part.end(); ++i) all = all + f(i);
          return all;
        },
        std::plus<>());
  }
  template <class T>
  void sort(std::vector<T>& v) {
    arena_.execute([&] { tbb::parallel_sort(v.begin(), v.end()); });
  }

 private:
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

void add_tbb_loops(catalogue& to) {
  to.add({.name = "oneTBB",
          .family = "tbb",
          .role = "peer",
          .note = "parallel_for, parallel_reduce",
          .loops = run_loops<tbb_workers>});
  to.add(
      {.name = "oneTBB sort", .family = "tbb", .role = "peer", .note = "parallel_sort", .sort = run_sort<tbb_workers>});
}

}  // namespace muster::bench
