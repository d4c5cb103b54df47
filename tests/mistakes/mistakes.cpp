// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that must not compile, one for each MISTAKE, and whose first error says what is wrong (first_error.py).
#include <muster/combine.hpp>
#include <muster/fork.hpp>

#include <functional>
#include <vector>

struct point {
  int x, y;
};

int main() {
  std::vector<bool> bits(64);
  std::vector<int> ones(64, 1);
  std::vector<point> points(100);
  static_cast<void>(points), static_cast<void>(ones), static_cast<void>(bits);
#if MISTAKE == 1  // says: parallel_invoke
  muster::fork2([] { return 1; }, [] { return 2; }, [] { return 3; });
#elif MISTAKE == 2   // says: function of no arguments
  muster::fork2([](int n) { return n; }, [] { return 2; });
#elif MISTAKE == 3   // says: can be compared by <
  muster::parallel_sort(points);
#elif MISTAKE == 4   // says: elements with an address of their own
  muster::parallel_sort(bits);
#elif MISTAKE == 5   // says: bind its arguments in a lambda
  muster::finish([](muster::async_scope& scope) { scope.async([](int node) { return node; }); });
#elif MISTAKE == 6   // says: std::vector<bool> share memory
  muster::parallel_for(bits, [](std::vector<bool>::reference bit) { bit = true; });
#elif MISTAKE == 7   // says: std::vector<bool> share memory
  muster::parallel_scan(ones.begin(), ones.end(), bits.begin(), std::logical_or<>());
#elif MISTAKE == 8   // says: must be a function of a counter
  muster::parallel_for(0, 10, [] {});
#elif MISTAKE == 9   // says: make it noexcept
  muster::osci<int>({.detached = true}).post([](int& n) { ++n; });
#elif MISTAKE == 10  // says: trivially copyable
  muster::psim<std::vector<int>> object;
#elif MISTAKE == 11  // says: declare it noexcept
  muster::psim<int>().apply([](int& n) { return ++n; });
#endif
}
