// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// objects.hpp: Fetch&Multiply, the object of the "Lock Oscillation" experiments, on simulated threads and, from one
// text, on real ones: each thread has a number of the library's fibers (queues.hpp describes a group of threads).
#pragma once

#include "sim/workloads/serving.hpp"
#include "sim/workloads/spec.hpp"

#include <muster/base/sync.hpp>  // sync::thread_index

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Counts the runs of operations that one thread executes without a break. One word, for compare-and-swap.
struct watched_product {
  static constexpr unsigned index_bits = 8;
  float value = 1;
  std::uint32_t rows_and_last = 0;  // the last thread's index, from 1

  std::uint32_t rows() const noexcept { return rows_and_last >> index_bits; }
};

/// A function of the state and the executing thread alone.
struct watched_multiply {
  float operator()(watched_product& state) const noexcept {
    constexpr std::uint32_t one_row = 1U << watched_product::index_bits;
    const std::uint32_t here = (sync::thread_index() + 1) % one_row;
    if (state.rows_and_last % one_row != here) state.rows_and_last = (state.rows() + 1) * one_row + here;
    return std::exchange(state.value, state.value * 1.000001F);
  }
};

/// The sum of the results of `n` operations one after another, by their bits.
inline std::uint64_t sum_of_products(std::uint64_t n) {
  std::uint64_t sum = 0;
  watched_product state;
  for (; n != 0; --n) sum += std::bit_cast<std::uint32_t>(std::exchange(state.value, state.value * 1.000001F));
  return sum;
}

/// All fibers of all threads multiply: sim_shared() with float multiply(), and std::uint32_t Object::rows().
template <class ThreadGroup, class Object>
auto sim_multiply(const sim_spec& spec) {
  ThreadGroup group(spec);
  const auto object = std::make_unique<Object>(spec);
  std::vector<std::uint64_t> sums(spec.threads.size());
  auto result = sim_shared(group, spec, *object, [&](auto& mine, unsigned thread) {
    sums[thread] += std::bit_cast<std::uint32_t>(mine.multiply());
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t one : sums) sum += one;
  if (sum != sum_of_products(spec.items)) result.error = "the results are not those of operations one after another";
  result.detail["degree"] = static_cast<double>(spec.items) / object->rows();
  return result;
}

/// The paper's ideal: nothing is shared.
template <class ThreadGroup>
auto sim_multiply_alone(const sim_spec& spec) {
  ThreadGroup group(spec);
  std::vector<watched_product> states(spec.threads.size());
  auto result = group.run([&](unsigned index, auto& hand) {
    watched_product mine;
    hand.start();
    for (std::uint64_t n = model_share(spec, index, spec.threads.size()); n != 0; --n) {
      watched_multiply{}(mine);
      hand.delay();
    }
    states[index] = mine;
  });
  result.items = spec.items;
  if (states.front().rows() != 1) result.error = "an object of a thread's own was used by another";
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
