// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// OpenMP tasks in a parallel region of so many threads. The only file that is compiled with OpenMP's pragmas.
#include "driver/fork_run.hpp"
#include "driver/loop_run.hpp"

namespace muster::bench {
namespace {

struct openmp_team {
  explicit openmp_team(unsigned many) : workers(static_cast<int>(many)) {}
  template <class S, class F>
  void run(F f) {
#pragma omp parallel num_threads(workers)
#pragma omp single
    f(S{});
  }
  int workers;
};

template <class Leaf>
struct openmp_style {
  using team = openmp_team;

  static void leaf() { Leaf::count(); }

  template <auto F, class A>
  static auto both(A a, A b) {
    decltype(F(openmp_style{}, a)) first{};
#pragma omp task shared(first) firstprivate(a)
    first = F(openmp_style{}, a);
    const auto second = F(openmp_style{}, b);
#pragma omp taskwait
    return std::pair{first, second};
  }

  template <class F, class G>
  static auto fork2(F f, G g) {
    value_type_of<F> first{};
#pragma omp task shared(first, f)
    first = value_of(f);
    auto second = value_of(g);
#pragma omp taskwait
    return std::pair{first, second};
  }

  template <class F>
  static std::uint64_t sum(unsigned many, F f) {
    child_sums found(many);
    for (unsigned i = 0; i < many; ++i) {
#pragma omp task shared(found, f) firstprivate(i)
      found[i] = f(i);
    }
#pragma omp taskwait
    return found.sum();
  }

  template <class F>
  static void loop(std::size_t first, std::size_t last, std::size_t grain, F f) {
    const std::size_t pieces = first < last ? (last - first + grain - 1) / grain : 0;
#pragma omp taskloop grainsize(1) shared(f)
    for (std::size_t i = 0; i < pieces; ++i) f(first + i * grain, std::min(last, first + (i + 1) * grain));
  }
};

/// A parallel region for each loop, as programs have it.
struct openmp_loops {
  explicit openmp_loops(unsigned many) { workers = static_cast<int>(many); }
  template <class F>
  void run(F f) {
    f();
  }
  template <class F>
  static void each(int turns, F f) {
#pragma omp parallel for num_threads(workers)
    for (int i = 0; i < turns; ++i) f(i);
  }
  template <class F>
  static double sum(int turns, F f) {
    double all = 0;
#pragma omp parallel for num_threads(workers) reduction(+ : all)
    for (int i = 0; i < turns; ++i) all = all + f(i);
    return all;
  }
  inline static int workers = 1;
};

}  // namespace

void add_openmp_fork(catalogue& to) {
  to.add({.name = "OpenMP",
          .family = "OpenMP",
          .role = "peer",
          .note = "parallel for, with reduction",
          .loops = run_loops<openmp_loops>});
  to.all.push_back(fork_contender<openmp_style>("OpenMP", "OpenMP", "peer", fork_programs | fork_calls,
                                                "task and taskwait, taskloop"));
}

}  // namespace muster::bench
