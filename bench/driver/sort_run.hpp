// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sort_run.hpp: one run of a contender that sorts: sequences with and without a pattern, of several types. The result
// must be that of std::stable_sort, or have the same keys if the contender is not stable. Only sorting is timed, not
// the copy of its input.
//
// A contender S has
//   S(workers)                    starts the threads
//   sort(v)                       sorts a vector by <
//   is_stable                     equal elements stay in their order
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::bench {

/// 64 bytes, of which 8 are compared.
struct sorted_record {
  std::uint64_t key = 0;
  std::array<std::uint64_t, 7> rest{};
  friend bool operator<(const sorted_record& a, const sorted_record& b) { return a.key < b.key; }
  friend bool operator==(const sorted_record& a, const sorted_record& b) { return a.key == b.key && a.rest == b.rest; }
};

template <class T>
T sorted_element(std::uint64_t key, std::size_t place) {
  if constexpr (std::is_same_v<T, std::string>) {
    return fmt::format("a key {:012}", key);
  } else if constexpr (std::is_same_v<T, sorted_record>) {
    return {key, {place}};
  } else {
    return static_cast<T>(key);
  }
}

template <class T>
std::vector<T> sorted_input(sequence_shape shape, std::size_t many) {
  std::uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 34U;
  };
  std::vector<std::uint64_t> keys(many);
  for (std::size_t i = 0; i < many; ++i) switch (shape) {
      case sequence_shape::random: keys[i] = random(); break;
      case sequence_shape::sorted:
      case sequence_shape::nearly_sorted: keys[i] = i; break;
      case sequence_shape::reversed: keys[i] = many - i; break;
      case sequence_shape::organ_pipe: keys[i] = std::min(i, many - i); break;
      case sequence_shape::equal: keys[i] = 7; break;
      case sequence_shape::few_values: keys[i] = random() % 16; break;
      case sequence_shape::sawtooth: keys[i] = i % (many / 10 + 1); break;
    }
  if (shape == sequence_shape::nearly_sorted)
    for (std::size_t swaps = 0; swaps <= many / 2000; ++swaps) std::swap(keys[random() % many], keys[random() % many]);
  std::vector<T> made;
  made.reserve(many);
  for (std::size_t i = 0; i < many; ++i) made.push_back(sorted_element<T>(keys[i], i));
  return made;
}

template <class S, class T>
outcome run_sort_of(const sort_spec& spec) {
  using clock = std::chrono::steady_clock;
  outcome result;
  share_units(spec.pus);
  S pool(spec.workers);
  const std::vector<T> input = sorted_input<T>(spec.shape, spec.size);
  std::vector<T> expected = input;
  std::stable_sort(expected.begin(), expected.end());
  const auto has_same_place = [](const T& a, const T& b) { return S::is_stable ? a == b : !(a < b) && !(b < a); };
  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / spec.size);
  for (std::uint64_t i = 0; i <= times; ++i) {
    std::vector<T> data = input;
    const double cpu = cpu_seconds();
    const auto begin = clock::now();
    pool.sort(data);
    if (i != 0) {  // the first one wakes the threads
      result.seconds += std::chrono::duration<double>(clock::now() - begin).count();
      result.cpu_seconds += cpu_seconds() - cpu;
    }
    if (!std::equal(data.begin(), data.end(), expected.begin(), has_same_place))
      result.error = "the elements are not sorted";
  }
  result.items = times * spec.size;
  return result;
}

template <class S>
outcome run_sort(const sort_spec& spec) {
  switch (spec.type) {
    case sorted_type::whole_number: return run_sort_of<S, std::int32_t>(spec);
    case sorted_type::real_number: return run_sort_of<S, double>(spec);
    case sorted_type::text: return run_sort_of<S, std::string>(spec);
    case sorted_type::record: return run_sort_of<S, sorted_record>(spec);
  }
  return {};
}

}  // namespace muster::bench
