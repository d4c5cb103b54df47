// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The ways for a thread to have many requests in flight at an osci, as contenders.
#include "ours/combined.hpp"

#include <array>
#include <mutex>

namespace muster::bench {
namespace {

constexpr std::size_t together = 64;

/// Fetch&Multiply and a count of operations, because not all of them have results to check.
struct product {
  float value = 1;
  std::uint32_t count = 0;
};
struct multiply_and_count {
  float operator()(product& state) const noexcept {
    ++state.count;
    return fetch_and_multiply{}(state.value);
  }
};
struct multiply_unheard {
  void operator()(product& state) const noexcept { multiply_and_count{}(state); }
};
using shared_product = osci<product>;

std::uint64_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// Each executes `n` operations and returns the sum of the bits of their results, if it has results.

struct by_apply {
  static constexpr bool has_results = true;
  static std::uint64_t run(shared_product& object, std::uint64_t n) {
    std::uint64_t sum = 0;
    for (; n != 0; --n) sum += bits(object.apply(multiply_and_count{}));
    return sum;
  }
};

struct by_submit {
  static constexpr bool has_results = true;
  static std::uint64_t run(shared_product& object, std::uint64_t n) {
    using ticket = decltype(object.submit(multiply_and_count{}));
    std::vector<ticket> open;
    open.reserve(together);
    std::uint64_t sum = 0;
    while (n != 0) {
      for (; n != 0 && open.size() < together; --n) open.push_back(object.submit(multiply_and_count{}));
      for (ticket& one : open) sum += bits(one.get());
      open.clear();
    }
    return sum;
  }
};

struct by_post {
  static constexpr bool has_results = false;
  static std::uint64_t run(shared_product& object, std::uint64_t n) {
    for (; n != 0; --n) object.post(multiply_unheard{});
    object.flush();
    return 0;
  }
};

struct by_batch {
  static constexpr bool has_results = true;
  static std::uint64_t run(shared_product& object, std::uint64_t n) {
    std::array<multiply_and_count, together> functions{};
    std::array<float, together> results{};
    std::uint64_t sum = 0;
    while (n != 0) {
      const std::size_t many = std::min<std::uint64_t>(n, together);
      object.apply_batch(std::span(functions).first(many), results.begin());
      for (std::size_t i = 0; i < many; ++i) sum += bits(results[i]);
      n -= many;
    }
    return sum;
  }
};

template <class How, bool Detached>
outcome run_how(const team_spec& spec) {
  combine_options options = options_for(spec);
  options.detached = Detached;
  std::vector<sighting> seen(spec.carriers);
  reset_peak_memory();
  const auto object = std::make_unique<shared_product>(options);
  outcome result = run_team_crew(spec, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
    const std::uint64_t n = share_of(spec, carrier, fiber);
    gate.wait();
    seen[carrier].sum += How::run(*object, n);
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  std::uint64_t sum = 0;
  for (const sighting& one : seen) sum += one.sum;
  const auto count = object->apply([](product& state) noexcept { return state.count; });
  if (count != static_cast<std::uint32_t>(spec.items)) result.error = "operations are missing";
  if (How::has_results && sum != expected_sum(spec.items)) {
    result.error = "the results are not those of operations one after another";
  }
  return result;
}

outcome run_mutex(const team_spec& spec) {
  struct alignas(isolation_size) guarded {
    std::mutex mutex;
    product state;
  };
  guarded object;
  std::vector<sighting> seen(spec.carriers);
  outcome result = run_team_crew(spec, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
    std::uint64_t sum = 0;
    gate.wait();
    for (std::uint64_t n = share_of(spec, carrier, fiber); n != 0; --n) {
      const std::lock_guard lock(object.mutex);
      sum += bits(multiply_and_count{}(object.state));
    }
    seen[carrier].sum += sum;
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  std::uint64_t sum = 0;
  for (const sighting& one : seen) sum += one.sum;
  if (sum != expected_sum(spec.items)) result.error = "the results are not those of operations one after another";
  return result;
}

void add(catalogue& to, std::string name, std::string role, unsigned fibers, std::string note,
         outcome (*run)(const team_spec&)) {
  to.all.push_back({.name = std::move(name),
                    .family = role == "peer" ? "std" : "muster",
                    .role = std::move(role),
                    .note = std::move(note),
                    .topics = without_waiting,
                    .fibers = fibers,
                    .team = run});
}

}  // namespace

void add_combine_async(catalogue& to) {
  add(to, "osci apply, 64 fibers", "ours", 64, "", run_how<by_apply, false>);
  add(to, "osci apply, no fibers", "ours", 1, "", run_how<by_apply, false>);
  add(to, "osci submit", "ours", 1, "64 tickets at a time", run_how<by_submit, true>);
  add(to, "osci post", "ours", 1, "results are not awaited", run_how<by_post, true>);
  add(to, "osci apply_batch", "ours", 1, "64 at a time", run_how<by_batch, false>);
  add(to, "std::mutex", "peer", 1, "a lock and an unlock for each operation", run_mutex);
}

}  // namespace muster::bench
