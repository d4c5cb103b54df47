// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's forks as contenders: fork2, finish and parallel_for for all programs, and the other forms of fork2 for
// those that are nothing but calls.
#include "driver/fork_run.hpp"

#include <muster/fork.hpp>

#include <functional>
#include <vector>

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
struct muster_style {
  using team = muster_team;

  static void leaf() { Leaf::count(); }

  template <auto F, class A>
  static auto both(A a, A b) {
    return muster::fork2([a] { return F(muster_style{}, a); }, [b] { return F(muster_style{}, b); });
  }

  template <class F, class G>
  static auto fork2(F f, G g) {
    return muster::fork2(std::move(f), std::move(g));
  }

  template <class F>
  static std::uint64_t sum(unsigned many, F f) {
    child_sums found(many);
    muster::finish([&](auto& scope) {
      for (unsigned i = 0; i < many; ++i) scope.async([&, i] { found[i] = f(i); });
    });
    return found.sum();
  }

  template <class F>
  static void loop(std::size_t first, std::size_t last, std::size_t grain, F f) {
    muster::parallel_for(first, last, f, {.grain = grain});
  }

  template <class T>
  static void sort(std::vector<T>& values) {
    muster::parallel_sort(values);
  }
  static void scan(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& to) {
    muster::parallel_scan(from.begin(), from.end(), to.begin());
  }
  static std::uint64_t sum(const std::vector<std::uint64_t>& values) {
    return muster::parallel_reduce(values.begin(), values.end(), std::uint64_t{0}, std::plus<>());
  }
  template <class F>
  static void each(std::size_t many, F f) {
    muster::parallel_for(std::size_t{0}, many, f);
  }
};

template <class Leaf>
struct muster_arguments_style {
  using team = muster_team;
  static void leaf() { Leaf::count(); }
  template <auto F, class A>
  static auto both(A a, A b) {
    return muster::fork2([](A value) { return F(muster_arguments_style{}, value); }, a,
                         [b] { return F(muster_arguments_style{}, b); });
  }
};

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
