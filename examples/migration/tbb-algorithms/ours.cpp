// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same algorithms of muster.

#include <muster/fork.hpp>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

int main() {
  // [ours]
  muster::pool pool;
  std::vector<long> v(1000), sums(v.size());
  long squares = 0;
  muster::per_worker<long> odd(pool);
  pool.run([&] {  // outside, loops run in muster::pool::shared()
    muster::parallel_for(std::size_t{0}, v.size(), [&](std::size_t i) { v[i] = static_cast<long>(i * 37 % 1000); });
    squares = muster::parallel_reduce(v.begin(), v.end(), 0L, std::plus<>(), [](long x) { return x * x; });
    muster::parallel_sort(v);
    muster::parallel_scan(v.begin(), v.end(), sums.begin());
    muster::parallel_for(v, [&](long x) { odd.local() += x % 2; });
  });
  const long odds = odd.combine(std::plus<>());

  int next = 0;
  std::string text;
  muster::pipeline line(pool, {.in_flight = 8}, muster::serial([&]() -> std::optional<int> {
                          if (next == 10) return std::nullopt;
                          return next++;
                        }),
                        muster::parallel([](int i) { return std::to_string(i * i); }),
                        muster::serial([&](const std::string& it) { text += it + ' '; }));
  line.run();
  // [/ours]
  std::printf("%ld %ld %ld %ld\n%s\n", squares, v[10], sums[999], odds, text.c_str());
}
