// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// count_run.hpp: one number that all fibers add 1 to, each of which learns the value before; checked and timed.
//
// A counter takes part through an adapter:
//   O(const team_spec&)
//   O::handle(O&, unsigned carrier, unsigned fiber)   std::uint64_t count(): the value before; or this is its own
// The check: the values of a fiber grow, and the sums of all values and of their squares are those of 0, 1, 2, …
// (tests/stress/counter_history_test.cpp looks at whole histories).
#pragma once

#include "driver/contender.hpp"
#include "driver/local_work.hpp"
#include "driver/team.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <cstdint>
#include <memory>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Of one carrier, or of all.
struct alignas(isolation_size) counted_values {
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  bool ordered = true;

  void add(const counted_values& more) noexcept {
    sum += more.sum;
    squares += more.squares;
    ordered = ordered && more.ordered;
  }
};

/// The measured loop.
template <class Handle>
counted_values count_all(Handle& mine, const team_spec& spec, std::uint64_t n, std::uint64_t seed,
                         const start_gate& gate) {
  local_work work(spec.least_work, spec.work, seed);
  counted_values seen;
  std::uint64_t least = 0;
  gate.wait();
  for (; n != 0; --n) {
    const std::uint64_t value = mine.count();
    seen.sum += value;
    seen.squares += value * value;
    seen.ordered = seen.ordered && value >= least;
    least = value + 1;
    work();
  }
  return seen;
}

template <class Object>
outcome run_counter(const team_spec& spec) {
  std::vector<counted_values> seen(spec.carriers);
  const auto object = std::make_unique<Object>(spec);
  outcome result = run_team_crew(spec, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
    decltype(auto) mine = handle_of(*object, carrier, fiber);
    const counted_values own =
        count_all(mine, spec, share_of(spec, carrier, fiber), std::uint64_t{carrier} << 16 | fiber, gate);
    seen[carrier].add(own);  // the fibers of a carrier do not interrupt each other here
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  counted_values all, expected;
  for (const counted_values& own : seen) all.add(own);
  for (std::uint64_t value = 0; value < spec.items; ++value) expected.add({value, value * value, true});
  if (all.sum != expected.sum || all.squares != expected.squares) result.error = "a value is missing, or came twice";
  if (!all.ordered) result.error = "the values of a thread do not grow";
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
