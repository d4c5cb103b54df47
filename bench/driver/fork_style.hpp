// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_style.hpp: the common parts of the styles of fork/join programs, and the style of plain calls.
// programs/program.hpp documents the operations of a style.
#pragma once

#include "programs/program.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace muster::bench {

/// For timed runs.
struct ignores_leaves {
  static void count() {}
};

/// For runs that check that every leaf is executed exactly once, which a result alone does not show.
struct counts_leaves {
  static void count() { executed.fetch_add(1, std::memory_order_relaxed); }
  inline static std::atomic<std::uint64_t> executed{0};
};

/// For both kinds of runs of a program whose leaves take far longer than a look at a flag, so that it is compiled once.
struct counts_leaves_if_told {
  static void count() {
    if (told.load(std::memory_order_relaxed)) [[unlikely]]
      counts_leaves::count();
  }
  inline static std::atomic<bool> told{false};
};

/// Returns f(), or std::monostate if that is void.
template <class F>
auto value_of(F& f) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
    f();
    return std::monostate{};
  } else {
    return f();
  }
}
template <class F>
using value_type_of = decltype(value_of(std::declval<F&>()));

/// Storage for the results of a scope's children, on the stack if they are few.
class child_sums {
 public:
  explicit child_sums(unsigned many) : many_(many), more_(many > few ? many : 0) {}
  std::uint64_t& operator[](unsigned i) { return many_ > few ? more_[i] : here_[i]; }
  std::uint64_t sum() {
    std::uint64_t all = 0;
    for (unsigned i = 0; i < many_; ++i) all += (*this)[i];
    return all;
  }

 private:
  static constexpr unsigned few = 16;
  unsigned many_;
  std::array<std::uint64_t, few> here_;
  std::vector<std::uint64_t> more_;
};

/// Plain calls: the programs without forks.
template <class Leaf>
struct serial_style {
  struct team {
    explicit team(unsigned) {}
    template <class S, class F>
    void run(F f) {
      f(S{});
    }
  };

  static void leaf() { Leaf::count(); }

  template <auto F, class A>
  static auto both(A a, A b) {
    auto first = F(serial_style{}, a);
    auto second = F(serial_style{}, b);
    // Two calls, as in the program: otherwise compilers turn the second into a loop.
    asm("" : "+r"(second));
    return std::pair{first, second};
  }

  template <class F, class G>
  static auto fork2(F f, G g) {
    auto first = value_of(f);
    auto second = value_of(g);
    return std::pair{first, second};
  }

  template <class F>
  static std::uint64_t sum(unsigned many, F f) {
    std::uint64_t all = 0;
    for (unsigned i = 0; i < many; ++i) all += f(i);
    return all;
  }

  template <class F>
  static void loop(std::size_t first, std::size_t last, std::size_t, F f) {
    if (first < last) f(first, last);
  }

  template <class T>
  static void sort(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
  }
  static void scan(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& to) {
    std::inclusive_scan(from.begin(), from.end(), to.begin());
  }
  static std::uint64_t sum(const std::vector<std::uint64_t>& values) {
    return std::reduce(values.begin(), values.end());
  }
  template <class F>
  static void each(std::size_t many, F f) {
    for (std::size_t i = 0; i < many; ++i) f(i);
  }
};

}  // namespace muster::bench
