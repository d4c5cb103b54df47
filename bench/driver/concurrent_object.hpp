// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// concurrent_object.hpp: Fetch&Multiply, the object of the "Lock Oscillation" experiments, used by many fibers, checked
// and timed.
//
// An object takes part through an adapter:
//   O(const team_spec&)
//   O::handle(O&, unsigned carrier, unsigned fiber)   float multiply(): the value before; or this is its own
//   and optionally add_to(outcome&), which adds counts to the details
// The check: each operation returns the previous value, and all these values must be those of the same number of
// consecutive multiplications. Their bits are summed, so a lost, repeated or torn result changes the sum.
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/local_work.hpp"
#include "driver/quantiles.hpp"
#include "driver/team.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <bit>
#include <chrono>
#include <memory>

namespace muster::bench::inline MUSTER_ABI {

inline constexpr float factor = 1.000001F;

/// The operation. A function of the state alone, so that psim and retry may run it on copies.
struct fetch_and_multiply {
  float operator()(float& value) const noexcept {
    const float old = value;
    value = old * factor;
    return old;
  }
};

/// The results that the fibers of one carrier have seen.
struct alignas(isolation_size) sighting {
  std::uint64_t sum = 0;  // of the bits of all results
  std::vector<std::uint64_t> times{};
};

/// The same sum for `n` consecutive operations.
inline std::uint64_t expected_sum(std::uint64_t n) {
  std::uint64_t sum = 0;
  float value = 1;
  for (; n != 0; --n) sum += std::bit_cast<std::uint32_t>(fetch_and_multiply{}(value));
  return sum;
}

/// The measured loop.
template <class Handle>
void multiply_all(Handle& mine, const team_spec& spec, std::uint64_t n, std::uint64_t seed, sighting& seen,
                  const start_gate& gate) {
  constexpr unsigned one_in = 16;  // operations is timed: timing more would measure the clock
  local_work work(spec.least_work, spec.work, seed);
  dice choose(~seed);
  std::uint64_t sum = 0;
  gate.wait();
  if (!spec.latency) {
    for (; n != 0; --n) {
      sum += std::bit_cast<std::uint32_t>(mine.multiply());
      work();
    }
  } else {
    using clock = std::chrono::steady_clock;
    for (; n != 0; --n) {
      if (choose.below(one_in) != 0) {
        sum += std::bit_cast<std::uint32_t>(mine.multiply());
      } else {
        const clock::time_point begin = clock::now();
        sum += std::bit_cast<std::uint32_t>(mine.multiply());
        seen.times.push_back(nanoseconds_since(begin));
      }
      work();
    }
  }
  seen.sum += sum;  // the fibers of a carrier do not interrupt each other here
}

inline void add_latency(outcome& to, const std::vector<sighting>& seen) {
  std::vector<std::uint64_t> all;
  for (const sighting& one : seen) all.insert(all.end(), one.times.begin(), one.times.end());
  if (all.empty()) return;
  double sum = 0;
  for (const std::uint64_t t : all) sum += static_cast<double>(t);
  to.detail["mean"] = sum / static_cast<double>(all.size());
  for (const auto& [name, value] : quantiles(std::move(all))) to.detail[name] = value;
}

template <class Object>
outcome run_object(const team_spec& spec) {
  std::vector<sighting> seen(spec.carriers);
  if (spec.latency) {
    for (sighting& one : seen) one.times.reserve(spec.items / 8 / spec.carriers + 1024);
  }
  reset_peak_memory();
  const auto object = std::make_unique<Object>(spec);
  const hardware_events events(spec.events);
  outcome result = run_team_crew(spec, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
    decltype(auto) mine = handle_of(*object, carrier, fiber);
    multiply_all(mine, spec, share_of(spec, carrier, fiber), std::uint64_t{carrier} << 16 | fiber, seen[carrier], gate);
  });
  events.add_to(result, spec.items);
  result.peak_memory = peak_memory();
  result.items = spec.items;
  std::uint64_t sum = 0;
  for (const sighting& one : seen) sum += one.sum;
  if (sum != expected_sum(spec.items)) result.error = "the results are not those of operations one after another";
  if (spec.latency) {
    add_latency(result, seen);
    result.detail["throughput"] = static_cast<double>(result.items) / result.seconds * 1e-6;
  }
  if constexpr (requires { object->add_to(result); }) object->add_to(result);
  return result;
}

/// The paper's ideal: every carrier has an object of its own and shares nothing. So this is the throughput of a single
/// thread times the number of processors.
inline outcome run_ideal_object(const team_spec& spec) {
  struct own_object {
    float value = 1;
    float multiply() noexcept { return fetch_and_multiply{}(value); }
  };
  team_spec alone = spec;
  alone.fibers = 1;
  std::vector<sighting> seen(spec.carriers);
  outcome result = run_team_crew(alone, [&](unsigned carrier, unsigned, const start_gate& gate) {
    own_object mine;
    multiply_all(mine, alone, share_of(alone, carrier, 0), std::uint64_t{carrier} << 16, seen[carrier], gate);
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  for (unsigned carrier = 0; carrier < spec.carriers; ++carrier) {
    if (seen[carrier].sum != expected_sum(share_of(alone, carrier, 0))) result.error = "an unshared product is wrong";
  }
  if (spec.latency) add_latency(result, seen);
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
