// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oneTBB: parallel_invoke, task_group and parallel_for in an arena of so many slots.
#include "driver/fork_run.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/parallel_scan.h>
#include <oneapi/tbb/parallel_sort.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <execution>
#include <functional>
#include <numeric>
#include <vector>

namespace muster::bench {
namespace {

struct tbb_team {
  explicit tbb_team(unsigned workers)
      : limit(tbb::global_control::max_allowed_parallelism, workers), arena(static_cast<int>(workers)) {}
  template <class S, class F>
  void run(F f) {
    arena.execute([&] { f(S{}); });
  }
  tbb::global_control limit;
  tbb::task_arena arena;
};

template <class Leaf>
struct tbb_style {
  using team = tbb_team;

  static void leaf() { Leaf::count(); }

  template <auto F, class A>
  static auto both(A a, A b) {
    return fork2([a] { return F(tbb_style{}, a); }, [b] { return F(tbb_style{}, b); });
  }

  template <class F, class G>
  static auto fork2(F f, G g) {
    value_type_of<F> first{};
    value_type_of<G> second{};
    tbb::parallel_invoke([&] { first = value_of(f); }, [&] { second = value_of(g); });
    return std::pair{first, second};
  }

  template <class F>
  static std::uint64_t sum(unsigned many, F f) {
    child_sums found(many);
    tbb::task_group children;
    for (unsigned i = 0; i < many; ++i) children.run([&, i] { found[i] = f(i); });
    children.wait();
    return found.sum();
  }

  template <class F>
  static void loop(std::size_t first, std::size_t last, std::size_t grain, F f) {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(first, std::max(first, last), grain),
                      [&](const auto& piece) { f(piece.begin(), piece.end()); });
  }

  template <class T>
  static void sort(std::vector<T>& values) {
    tbb::parallel_sort(values.begin(), values.end());
  }
  static void scan(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& to) {
    const auto piece = [&](const tbb::blocked_range<std::size_t>& range, std::uint64_t sum, bool is_final) {
      for (std::size_t i = range.begin(); i != range.end(); ++i) {
        sum += from[i];
        if (is_final) to[i] = sum;
      }
      return sum;
    };
    tbb::parallel_scan(tbb::blocked_range<std::size_t>(0, from.size()), std::uint64_t{0}, piece, std::plus<>());
  }
  static std::uint64_t sum(const std::vector<std::uint64_t>& values) {
    const auto piece = [&](const tbb::blocked_range<std::size_t>& range, std::uint64_t sum) {
      for (std::size_t i = range.begin(); i != range.end(); ++i) sum += values[i];
      return sum;
    };
    return tbb::parallel_reduce(tbb::blocked_range<std::size_t>(0, values.size()), std::uint64_t{0}, piece,
                                std::plus<>());
  }
  template <class F>
  static void each(std::size_t many, F f) {
    tbb::parallel_for(std::size_t{0}, many, f);
  }
};

/// The parallel algorithms of libstdc++, which are oneTBB beneath.
template <class Leaf>
struct standard_style {
  using team = tbb_team;
  static void leaf() { Leaf::count(); }

  template <class T>
  static void sort(std::vector<T>& values) {
    std::sort(std::execution::par, values.begin(), values.end());
  }
  static void scan(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& to) {
    std::inclusive_scan(std::execution::par, from.begin(), from.end(), to.begin());
  }
  static std::uint64_t sum(const std::vector<std::uint64_t>& values) {
    return std::reduce(std::execution::par, values.begin(), values.end());
  }
  template <class F>
  static void each(std::size_t many, F f) {
    std::vector<std::size_t> numbers(many);
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    std::for_each(std::execution::par, numbers.begin(), numbers.end(), f);
  }
};

template <class Leaf>
struct tbb_group_style {
  using team = tbb_team;
  static void leaf() { Leaf::count(); }
  template <auto F, class A>
  static auto both(A a, A b) {
    decltype(F(tbb_group_style{}, a)) first{};
    tbb::task_group group;
    group.run([&first, a] { first = F(tbb_group_style{}, a); });
    const auto second = F(tbb_group_style{}, b);
    group.wait();
    return std::pair{first, second};
  }
};

}  // namespace

void add_tbb_fork(catalogue& to) {
  to.all.push_back(fork_contender<tbb_style, program_set::algorithms>(
      "oneTBB", "tbb", "peer", fork_algorithms, "parallel_sort, parallel_scan, parallel_reduce, parallel_for"));
  to.all.push_back(fork_contender<standard_style, program_set::algorithms>("std::execution::par", "tbb", "peer",
                                                                           fork_algorithms, "libstdc++, by oneTBB"));
  to.all.push_back(fork_contender<tbb_style>("oneTBB", "tbb", "peer", fork_programs | fork_calls,
                                             "parallel_invoke, task_group, parallel_for"));
  to.all.push_back(fork_contender<tbb_group_style, program_set::calls>("oneTBB, task_group", "tbb", "peer", fork_calls,
                                                                       "one task per fork, the other half at once"));
}

}  // namespace muster::bench
