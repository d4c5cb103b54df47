// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// algorithm_run.hpp: one run of a contender that has parallel versions of the standard algorithms, beside the serial
// ones, whose results each execution must have. Only the algorithm is timed, not the copy of its input.
//
// A contender A has
//   A(workers)                    starts the threads
//   run(what, data)               executes an algorithm on the data, as serial_algorithm() does
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace muster::bench {

struct algorithm_data {
  std::vector<std::uint32_t> values, out;

  std::uint32_t* middle() { return values.data() + values.size() / 2; }
  std::uint32_t* end() { return values.data() + values.size(); }
  static bool is_odd(std::uint32_t value) { return value % 2 != 0; }
  static bool is_last(std::uint32_t value) { return value == ~0U; }
  static constexpr std::uint32_t buckets = 256;  // of a histogram
  static std::uint32_t bucket_of(std::uint32_t value) { return value >> 16U; }
  /// Of all that an algorithm has written, in this order; a partition may have any.
  std::uint64_t digest(algorithm_load what, std::size_t result) const {
    std::uint64_t sum = result;
    for (std::size_t i = 0; what == algorithm_load::unique && i < result; ++i) sum = sum * 31 + values[i];
    if (what == algorithm_load::sort || what == algorithm_load::integer_sort || what == algorithm_load::scan)
      for (const std::uint32_t value : values) sum = sum * 31 + value;
    for (const std::uint32_t value : out) sum = sum * 31 + value;
    if (what == algorithm_load::partition)
      sum += static_cast<std::uint64_t>(
          std::count_if(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(result), is_odd));
    return sum;
  }
};

/// Returns where the result is, or how many elements it has.
inline std::size_t serial_algorithm(algorithm_load what, algorithm_data& on) {
  auto& v = on.values;
  const auto at = [&](auto found) { return static_cast<std::size_t>(found - v.begin()); };
  switch (what) {
    case algorithm_load::find: return at(std::find_if(v.begin(), v.end(), algorithm_data::is_last));
    case algorithm_load::extremes: return at(std::minmax_element(v.begin(), v.end()).second);
    case algorithm_load::select:
      return static_cast<std::size_t>(std::copy_if(v.begin(), v.end(), on.out.begin(), algorithm_data::is_odd) -
                                      on.out.begin());
    case algorithm_load::unique: return at(std::unique(v.begin(), v.end()));
    case algorithm_load::partition: return at(std::partition(v.begin(), v.end(), algorithm_data::is_odd));
    case algorithm_load::merge:
      return static_cast<std::size_t>(std::merge(v.data(), on.middle(), on.middle(), on.end(), on.out.begin()) -
                                      on.out.begin());
    case algorithm_load::sort:
    case algorithm_load::integer_sort: std::sort(v.begin(), v.end()); return 0;
    case algorithm_load::scan: {
      const std::uint32_t total = std::reduce(v.begin(), v.end(), 0U);
      std::exclusive_scan(v.begin(), v.end(), v.begin(), 0U);
      return total;
    }
    case algorithm_load::histogram:
      for (const std::uint32_t value : v) ++on.out[algorithm_data::bucket_of(value)];
      return 0;
  }
  return 0;
}

inline algorithm_data data_for(const algorithm_spec& spec) {
  algorithm_data made;
  made.values.resize(spec.size);
  std::uint64_t random = 1;
  for (std::uint32_t& value : made.values) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<std::uint32_t>(random >> 40U);  // 24 bits, so never ~0
  }
  if (spec.what == algorithm_load::find) made.values.back() = ~0U;
  if (spec.what == algorithm_load::unique)
    for (std::uint32_t& value : made.values) value /= 1U << 23U;
  if (spec.what == algorithm_load::merge) {
    std::sort(made.values.data(), made.middle());
    std::sort(made.middle(), made.end());
  }
  if (spec.what == algorithm_load::select || spec.what == algorithm_load::merge) made.out.resize(spec.size);
  if (spec.what == algorithm_load::histogram) made.out.resize(algorithm_data::buckets);
  return made;
}

template <class A>
outcome run_algorithm(const algorithm_spec& spec) {
  using clock = std::chrono::steady_clock;
  outcome result;
  share_units(spec.pus);
  A pool(spec.workers);
  const algorithm_data input = data_for(spec);
  algorithm_data data = input;
  const std::size_t expected = serial_algorithm(spec.what, data);
  const std::uint64_t digest = data.digest(spec.what, expected);

  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / spec.size);
  for (std::uint64_t i = 0; i <= times; ++i) {
    data = input;
    const double cpu = cpu_seconds();
    const auto begin = clock::now();
    const std::size_t found = pool.run(spec.what, data);
    if (i != 0) {  // the first one wakes the threads
      result.seconds += std::chrono::duration<double>(clock::now() - begin).count();
      result.cpu_seconds += cpu_seconds() - cpu;
    }
    if (found != expected || data.digest(spec.what, found) != digest) result.error = "the result is not the serial one";
  }
  result.items = times * spec.size;
  return result;
}

}  // namespace muster::bench
