// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The styles of fork/join programs with the library, for a Team that has a pool. Each file that includes this has its
// own copy, because files may be compiled with different engines.
#pragma once

#include "driver/fork_run.hpp"

#include <muster/fork.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

template <class Leaf, class Team>
struct fork_style {
  using team = Team;

  static void leaf() { Leaf::count(); }

  template <auto F, class A>
  static auto both(A a, A b) {
    return muster::fork2([a] { return F(fork_style{}, a); }, [b] { return F(fork_style{}, b); });
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
  static std::uint64_t children(unsigned many, const F& f) {
    return muster::parallel_reduce(0U, many, std::uint64_t{0}, std::plus<>(), f);
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

template <class Leaf, class Team>
struct fork_arguments_style {
  using team = Team;
  static void leaf() { Leaf::count(); }
  template <auto F, class A>
  static auto call(A a) {
    return F(fork_arguments_style{}, a);
  }
  template <auto F, class A>
  static auto both(A a, A b) {
    return muster::fork2(call<F, A>, a, [b] { return F(fork_arguments_style{}, b); });
  }
};

template <class Leaf, class Team>
struct fork_references_style {
  using team = Team;
  static void leaf() { Leaf::count(); }
  template <auto F, class A>
  static auto both(A a, A b) {
    return muster::fork2([&] { return F(fork_references_style{}, a); }, [&] { return F(fork_references_style{}, b); });
  }
};

}  // namespace
}  // namespace muster::bench
