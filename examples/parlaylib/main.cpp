// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parlaylib's algorithms on a pool of muster: the primes below a million, and how often each last digit occurs.

#include <atomic>
#include <cstddef>
#include <cstdio>

// [scheduler]
#include "muster_scheduler.hpp"  // before every header of parlaylib

#include <parlay/primitives.h>
#include <parlay/sequence.h>

parlay::sequence<std::size_t> primes_below(std::size_t n) {
  if (n < 3) return {};
  parlay::sequence<char> is_prime(n, 1);
  std::size_t root = 2;
  while (root * root < n) ++root;
  const auto small = primes_below(root);
  parlay::parallel_for(0, small.size(), [&](std::size_t i) {
    const std::size_t p = small[i];
    parlay::parallel_for(p, (n - 1) / p + 1, [&](std::size_t k) {
      std::atomic_ref(is_prime[k * p]).store(0, std::memory_order_relaxed);  // several primes may divide it
    });
  });
  return parlay::filter(parlay::iota(n), [&](std::size_t i) { return i >= 2 && is_prime[i] != 0; });
}
// [/scheduler]

int main() {
  const auto primes = primes_below(1'000'000);
  const auto digits =
      parlay::histogram_by_index(parlay::delayed_map(primes, [](std::size_t p) { return p % 10; }), std::size_t{10});
  const std::size_t sum = parlay::reduce(primes);

  std::size_t others = 0;  // with a worker more, from a thread that is a worker
  parlay::execute_with_scheduler(static_cast<unsigned>(parlay::num_workers()) + 1,
                                 [&] { others = parlay::reduce(primes_below(1'000'000)); });

  std::printf("%zu primes, %zu of them end in 7; their sum is %zu\n", primes.size(), digits[7], sum);
  return primes.size() == 78'498 && digits[7] == 19'621 && sum == 37'550'402'023 && others == sum ? 0 : 1;
}
