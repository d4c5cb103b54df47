// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork.cpp: fork/join for clang-tidy, see queue.cpp; read with each engine.
#include <muster/fork.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Everything that forks.
double fork_all() {
  muster::pool two({.workers = 2});
  std::vector<double> numbers(100, 1.0);
  two.run([&](muster::context here) {
    here.fork2([](muster::context) {}, [] { return std::string(); });
    const auto [one, both] =
        muster::fork2([](int a, const std::string& b) { return b + std::to_string(a); }, 1, "b", [] {});
    muster::parallel_invoke([] {}, [] { return 2; }, [] { return std::make_unique<int>(3); });
    muster::finish([&](auto& scope) { scope.async([&] { numbers.front() = 2; }); });
    muster::parallel_for(numbers, [](double& number) { number *= 2; }, {.grain = 10});
    muster::parallel_scan(numbers.begin(), numbers.end(), numbers.begin());
    muster::parallel_exclusive_scan(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
    muster::parallel_sort(numbers, std::greater<>());
    return one.size() + sizeof(both);
  });
  return muster::parallel_reduce(0, 100, 0.0, std::plus<>(),
                                 [&](int i) { return numbers[static_cast<std::size_t>(i)]; }) +
         muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), {.fixed = true});
}
