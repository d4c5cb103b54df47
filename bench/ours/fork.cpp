// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's forks as contenders: fork2, finish and parallel_for for all programs, and the other forms of fork2 for
// programs that do nothing but fork.
#include "driver/fork_run.hpp"
#include "ours/fork_styles.hpp"

namespace muster::bench {
namespace {

struct muster_team {
  explicit muster_team(unsigned workers) : pool({.workers = workers}) {}
  template <class S, class F>
  void run(F f) {
    pool.run([&] { f(S{}); });
  }
  muster::pool pool;
};

template <class Leaf>
using muster_style = fork_style<Leaf, muster_team>;
template <class Leaf>
using muster_arguments_style = fork_arguments_style<Leaf, muster_team>;

template <class Leaf>
struct muster_context_style {
  struct team : muster_team {
    using muster_team::muster_team;
    template <class S, class F>
    void run(F f) {
      pool.run([&](muster::context& now) { f(S{now}); });
    }
  };
  static void leaf() { Leaf::count(); }
  template <auto F, class A>
  auto both(A a, A b) {
    return here.fork2([a](muster::context& now) { return F(muster_context_style{now}, a); },
                      [b](muster::context& now) { return F(muster_context_style{now}, b); });
  }
  muster::context here;
};

}  // namespace

void add_fork(catalogue& to) {
  to.all.push_back(fork_contender<muster_style, program_set::algorithms>(
      "muster", "muster", "ours", fork_algorithms, "parallel_sort, parallel_scan, parallel_reduce, parallel_for"));
  to.all.push_back(fork_contender<muster_style>("muster", "muster", "ours", fork_programs | fork_calls,
                                                "fork2 of two lambdas, finish, parallel_for"));
  to.all.push_back(fork_contender<muster_arguments_style, program_set::calls>(
      "muster, function and argument", "muster", "ours", fork_calls, "fork2(f, argument, lambda)"));
  to.all.push_back(fork_contender<muster_context_style, program_set::calls>(
      "muster, context", "muster", "ours", fork_calls, "context::fork2 of two lambdas"));
}

}  // namespace muster::bench
