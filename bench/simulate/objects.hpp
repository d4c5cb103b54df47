// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// objects.hpp: Fetch&Multiply, the object of the "Lock Oscillation" experiments, on simulated threads and, from one
// text, on real ones: each thread has so many of the library's fibers (programs.hpp says what a crew is).
#pragma once

#include "baselines/combining/clh.hpp"
#include "baselines/combining/h_synch.hpp"
#include "baselines/combining/oyama.hpp"
#include "baselines/combining/retry.hpp"
#include "baselines/osci_paper.hpp"
#include "simulate/contenders.hpp"

#include <muster/combine/cc_synch.hpp>
#include <muster/combine/flat_combining.hpp>
#include <muster/combine/osci.hpp>
#include <muster/combine/psim.hpp>
#include <muster/fiber/fiber.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Counts the rows of operations that one thread executes without a break. One word, for compare-and-swap.
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

/// What the results of `n` operations one after another sum up to, by their bits.
inline std::uint64_t sum_of_products(std::uint64_t n) {
  std::uint64_t sum = 0;
  watched_product state;
  for (; n != 0; --n) sum += std::bit_cast<std::uint32_t>(std::exchange(state.value, state.value * 1.000001F));
  return sum;
}

/// All fibers of all threads multiply, with work between. Object(const model_spec&) with std::uint32_t rows(), and
/// Object::handle(Object&, unsigned thread, unsigned fiber), or else Object, with float multiply().
template <class Crew, class Object>
outcome model_multiply(const model_spec& spec) {
  Crew crew(spec);
  const std::size_t all = spec.threads.size() * spec.fibers;
  std::vector<std::uint64_t> sums(spec.threads.size());
  const auto object = std::make_unique<Object>(spec);
  outcome result = crew.run([&](unsigned index, auto& hand) {
    const auto multiply_all = [&, index](unsigned fiber) {
      decltype(auto) mine = handle_of(*object, index, fiber);
      std::uint64_t sum = 0;
      for (std::uint64_t n = model_share(spec, index * spec.fibers + fiber, all); n != 0; --n) {
        sum += std::bit_cast<std::uint32_t>(mine.multiply());
        hand.delay();
      }
      sums[index] += sum;
    };
    hand.start();
    if (spec.fibers == 1) return multiply_all(0);
    std::vector<fiber> fibers;
    fibers.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) fibers.emplace_back(multiply_all, f);
  });
  result.items = spec.items;
  std::uint64_t sum = 0;
  for (const std::uint64_t one : sums) sum += one;
  if (sum != sum_of_products(spec.items)) result.error = "the results are not those of operations one after another";
  result.detail["degree"] = static_cast<double>(spec.items) / object->rows();
  return result;
}

template <class Algorithm, class Options = combine_options>
class modelled_object {
 public:
  explicit modelled_object(const model_spec& spec) : object_(options_for(spec), watched_product{}) {}
  std::uint32_t rows() {
    return object_.apply([](const watched_product& state) noexcept { return state.rows(); });
  }
  float multiply() { return object_.apply(watched_multiply{}); }

 private:
  static Options options_for(const model_spec& spec) {
    const auto threads = static_cast<unsigned>(spec.threads.size());
    Options options;
    options.threads = std::max(64U, threads + 2);
    if constexpr (std::same_as<Options, h_synch_options>) options.clusters = threads;  // as the paper has it
    return options;
  }

  Algorithm object_;
};

/// The paper's ideal: nothing is shared.
template <class Crew>
outcome model_multiply_alone(const model_spec& spec) {
  Crew crew(spec);
  std::vector<watched_product> states(spec.threads.size());
  outcome result = crew.run([&](unsigned index, auto& hand) {
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

/// The paper's YIELD.
struct sibling_turn {
  static void turn() noexcept {
    if (this_fiber::has_siblings()) this_fiber::yield();
    else sync::relax();
  }
};

class modelled_printed_osci {
  struct operation {
    std::int64_t operator()(watched_product& state, std::int64_t) const noexcept {
      return std::bit_cast<std::int32_t>(watched_multiply{}(state));
    }
  };
  using object = osci_paper<watched_product, operation, sibling_turn>;

 public:
  explicit modelled_printed_osci(const model_spec& spec)
      : object_(static_cast<unsigned>(spec.threads.size()), spec.fibers, watched_product{}) {}
  std::uint32_t rows() { return object_.state().rows(); }

  class handle {
   public:
    handle(modelled_printed_osci& o, unsigned thread, unsigned fiber) : mine_(o.object_, thread, fiber) {}
    float multiply() { return std::bit_cast<float>(static_cast<std::int32_t>(mine_.apply(0))); }

   private:
    object::handle mine_;
  };

 private:
  object object_;
};

/// Programs of two threads with fibers that are both measured and predicted.
template <class Crew>
void add_alike(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, unsigned fibers, outcome (*run)(const model_spec&)) {
    contender c = modelled_contender(name, role, topics | model_alike, "", run);
    c.fibers = fibers;
    to.all.push_back(std::move(c));
  };
  using state = watched_product;
  add("osci, 64 fibers", "ours", 64, model_multiply<Crew, modelled_object<osci<state, wait::spin>>>);
  add("Osci as printed, 64 fibers", "paper", 64, model_multiply<Crew, modelled_printed_osci>);
  add("psim, 64 fibers", "ours", 64, model_multiply<Crew, modelled_object<psim<state>>>);
  add("cc_synch, no fibers", "baseline", 1, model_multiply<Crew, modelled_object<cc_synch<state, wait::spin>>>);
}

/// As in the paper, nobody sleeps.
template <class Crew>
void add_objects(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, unsigned fibers, const char* note,
                       outcome (*run)(const model_spec&)) {
    contender c = modelled_contender(name, role, topics, note, run);
    if (c.role == "paper") c.family = "osci paper";
    c.fibers = fibers;
    to.all.push_back(std::move(c));
  };
  using state = watched_product;
  add("osci", "ours", 64, "", model_multiply<Crew, modelled_object<osci<state, wait::spin>>>);
  add("Osci as printed", "paper", 64, "Algorithm 1, unfilled places corrected",
      model_multiply<Crew, modelled_printed_osci>);
  add("psim", "ours", 64, "PSim-x with a bit for each carrier", model_multiply<Crew, modelled_object<psim<state>>>);
  add("h_synch", "baseline", 32, "each thread a cluster",
      model_multiply<Crew, modelled_object<h_synch<state, wait::spin>, h_synch_options>>);
  add("flat_combining", "baseline", 32, "", model_multiply<Crew, modelled_object<flat_combining<state, wait::spin>>>);
  add("cc_synch", "baseline", 1, "", model_multiply<Crew, modelled_object<cc_synch<state, wait::spin>>>);
  add("oyama", "baseline", 16, "", model_multiply<Crew, modelled_object<oyama<state, wait::spin>>>);
  add("clh", "baseline", 1, "a queue lock", model_multiply<Crew, modelled_object<clh<state, wait::spin>>>);
  add("retry", "baseline", 1, "compare-and-swap with backoff", model_multiply<Crew, modelled_object<retry<state>>>);
  add("ideal", "limit", 1, "each thread an object of its own", model_multiply_alone<Crew>);
}

}  // namespace muster::bench::inline MUSTER_ABI
