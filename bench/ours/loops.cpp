// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's loops, and plain ones.
#include "driver/loop_run.hpp"

#include <muster/fork.hpp>

#include <functional>

namespace muster::bench {
namespace {

class muster_loops {
 public:
  explicit muster_loops(unsigned workers) : pool_(workers) {}
  template <class F>
  void run(F f) {
    pool_.run(f);
  }
  template <class F>
  static void each(int turns, F f) {
    parallel_for(0, turns, f);
  }
  template <class F>
  static double sum(int turns, F f) {
    return parallel_reduce(0, turns, 0.0, std::plus<>(), f);
  }

 private:
  pool pool_;
};

}  // namespace

void add_loops(catalogue& to) {
  to.add({.name = "muster",
          .family = "muster",
          .role = "ours",
          .note = "parallel_for, parallel_reduce",
          .loops = run_loops<muster_loops>});
  to.add({.name = "plain calls", .family = "std", .role = "baseline", .note = "for", .loops = run_loops<plain_loops>});
}

}  // namespace muster::bench
