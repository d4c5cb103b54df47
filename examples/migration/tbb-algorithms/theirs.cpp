// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: algorithms of oneTBB.

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/parallel_scan.h>
#include <oneapi/tbb/parallel_sort.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

int main() {
  // [theirs]
  std::vector<long> v(1000), sums(v.size());
  using range = tbb::blocked_range<std::size_t>;
  tbb::parallel_for(range(0, v.size()), [&](const range& part) {
    for (std::size_t i = part.begin(); i != part.end(); ++i) v[i] = static_cast<long>(i * 37 % 1000);
  });
  const long squares = tbb::parallel_reduce(
      range(0, v.size()), 0L,
      [&](const range& part, long sum) {
        for (std::size_t i = part.begin(); i != part.end(); ++i) sum += v[i] * v[i];
        return sum;
      },
      std::plus<>());
  tbb::parallel_sort(v.begin(), v.end());
  tbb::parallel_scan(
      range(0, v.size()), 0L,
      [&](const range& part, long sum, bool is_final) {
        for (std::size_t i = part.begin(); i != part.end(); ++i) {
          sum += v[i];
          if (is_final) sums[i] = sum;
        }
        return sum;
      },
      std::plus<>());

  tbb::enumerable_thread_specific<long> odd(0L);
  tbb::parallel_for(std::size_t{0}, v.size(), [&](std::size_t i) { odd.local() += v[i] % 2; });
  const long odds = odd.combine(std::plus<>());

  int next = 0;
  std::string text;
  tbb::parallel_pipeline(
      8, tbb::make_filter<void, int>(tbb::filter_mode::serial_in_order, [&](tbb::flow_control& stream) {
           if (next == 10) stream.stop();
           return next++;
         }) & tbb::make_filter<int, std::string>(tbb::filter_mode::parallel, [](int i) {
           return std::to_string(i * i);
         }) & tbb::make_filter<std::string, void>(tbb::filter_mode::serial_in_order, [&](const std::string& it) {
           text += it + ' ';
         }));
  // [/theirs]
  std::printf("%ld %ld %ld %ld\n%s\n", squares, v[10], sums[999], odds, text.c_str());
}
