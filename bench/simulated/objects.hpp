// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// objects.hpp: the techniques that Fetch&Multiply (sim/workloads/objects.hpp) compares.
#pragma once

#include "baselines/combining/clh.hpp"
#include "baselines/combining/ffwd.hpp"
#include "baselines/combining/h_synch.hpp"
#include "baselines/combining/oyama.hpp"
#include "baselines/combining/retry.hpp"
#include "baselines/osci_paper.hpp"
#include "sim/workloads/objects.hpp"
#include "simulated/contenders.hpp"

#include <muster/combine/cc_synch.hpp>
#include <muster/combine/flat_combining.hpp>
#include <muster/combine/osci.hpp>
#include <muster/combine/psim.hpp>
#include <muster/fiber/fiber.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

template <class Algorithm, class Options = combine_options>
class modelled_object {
 public:
  explicit modelled_object(const sim_spec& spec) : object_(options_for(spec), watched_product{}) {}
  std::uint32_t rows() {
    return object_.apply([](const watched_product& state) noexcept { return state.rows(); });
  }
  float multiply() { return object_.apply(watched_multiply{}); }

 private:
  static Options options_for(const sim_spec& spec) {
    const auto threads = static_cast<unsigned>(spec.threads.size());
    Options options;
    options.threads = std::max(64U, threads + 2);
    if constexpr (std::same_as<Options, h_synch_options>) options.clusters = threads;  // as the paper has it
    return options;
  }

  Algorithm object_;
};

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
  explicit modelled_printed_osci(const sim_spec& spec)
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

/// The last core is the server.
class modelled_ffwd {
 public:
  explicit modelled_ffwd(const sim_spec& spec)
      : object_({.threads = std::max(64U, static_cast<unsigned>(spec.threads.size()))}, watched_product{}) {}
  std::uint32_t rows() { return object_.state().rows(); }
  float multiply() { return object_.apply(watched_multiply{}); }
  void serve() { object_.serve(); }
  void stop() noexcept { object_.stop(); }

 private:
  ffwd_object<watched_product, wait::spin> object_;
};

/// Programs of two threads with fibers that are both measured and predicted.
template <class ThreadGroup>
void add_alike(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, unsigned fibers, outcome (*run)(const sim_spec&)) {
    contender c = modelled_contender(name, role, topics | sim_alike, "", run);
    c.fibers = fibers;
    to.all.push_back(std::move(c));
  };
  using state = watched_product;
  add("osci, 64 fibers", "ours", 64, sim_multiply<ThreadGroup, modelled_object<osci<state, wait::spin>>>);
  add("Osci as printed, 64 fibers", "paper", 64, sim_multiply<ThreadGroup, modelled_printed_osci>);
  add("psim, 64 fibers", "ours", 64, sim_multiply<ThreadGroup, modelled_object<psim<state>>>);
  add("cc_synch, no fibers", "baseline", 1, sim_multiply<ThreadGroup, modelled_object<cc_synch<state, wait::spin>>>);
}

/// As in the paper, no thread sleeps.
template <class ThreadGroup>
void add_objects(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, unsigned fibers, const char* note,
                       outcome (*run)(const sim_spec&)) {
    contender c = modelled_contender(name, role, topics, note, run);
    if (c.role == "paper") c.family = "osci paper";
    c.fibers = fibers;
    to.all.push_back(std::move(c));
  };
  using state = watched_product;
  add("osci", "ours", 64, "", sim_multiply<ThreadGroup, modelled_object<osci<state, wait::spin>>>);
  add("Osci as printed", "paper", 64, "Algorithm 1, unfilled places corrected",
      sim_multiply<ThreadGroup, modelled_printed_osci>);
  add("psim", "ours", 64, "PSim-x with a bit for each carrier",
      sim_multiply<ThreadGroup, modelled_object<psim<state>>>);
  add("h_synch", "baseline", 32, "each thread a cluster",
      sim_multiply<ThreadGroup, modelled_object<h_synch<state, wait::spin>, h_synch_options>>);
  add("flat_combining", "baseline", 32, "",
      sim_multiply<ThreadGroup, modelled_object<flat_combining<state, wait::spin>>>);
  add("cc_synch", "baseline", 1, "", sim_multiply<ThreadGroup, modelled_object<cc_synch<state, wait::spin>>>);
  add("oyama", "baseline", 16, "", sim_multiply<ThreadGroup, modelled_object<oyama<state, wait::spin>>>);
  add("ffwd", "baseline", 1, "delegation: the last core is the server", sim_multiply<ThreadGroup, modelled_ffwd>);
  to.all.back().least_threads = 2;
  add("clh", "baseline", 1, "a queue lock", sim_multiply<ThreadGroup, modelled_object<clh<state, wait::spin>>>);
  add("retry", "baseline", 1, "compare-and-swap with backoff",
      sim_multiply<ThreadGroup, modelled_object<retry<state>>>);
  add("ideal", "limit", 1, "each thread an object of its own", sim_multiply_alone<ThreadGroup>);
}

}  // namespace muster::bench::inline MUSTER_ABI
