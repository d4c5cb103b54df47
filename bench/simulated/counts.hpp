// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counts.hpp: the counters that combine/counter-simulated compares (sim/workloads/counts.hpp).
#pragma once

#include "baselines/combining/ffwd.hpp"
#include "baselines/funnel.hpp"
#include "sim/workloads/counts.hpp"
#include "simulated/contenders.hpp"

#include <muster/base/arch.hpp>
#include <muster/combine/cc_synch.hpp>
#include <muster/combine/counter.hpp>
#include <muster/combine/osci.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

/// As on a machine that has enough cores, which this one may not.
class modelled_counter {
 public:
  explicit modelled_counter(const sim_spec&) {}
  std::uint64_t count() { return static_cast<std::uint64_t>(counter_.fetch_add(1)); }

 private:
  basic_counter<wait::spin> counter_{0, {.gather_from = 10}};
};

class modelled_atomic {
 public:
  explicit modelled_atomic(const sim_spec&) {}
  std::uint64_t count() { return value_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  alignas(isolation_size) sync::atomic<std::uint64_t> value_{0};
};

template <template <class...> class Algorithm>
class modelled_combined_count {
 public:
  explicit modelled_combined_count(const sim_spec& spec)
      : object_({.threads = std::max(64U, static_cast<unsigned>(spec.threads.size()) + 2)}, std::uint64_t{0}) {}
  std::uint64_t count() {
    return object_.apply([](std::uint64_t& value) noexcept { return value++; });
  }

 private:
  Algorithm<std::uint64_t, wait::spin> object_;
};

class modelled_funnel {
  using funnel = funnels<>;

 public:
  explicit modelled_funnel(const sim_spec&) : counter_(group_) {}

  class handle {
   public:
    handle(modelled_funnel& f, unsigned, unsigned) : counter_(f.counter_), mine_(f.group_) {}
    std::uint64_t count() { return counter_.fetch_add(mine_, 1); }

   private:
    funnel::counter& counter_;
    funnel::user mine_;
  };

 private:
  funnel::group group_;
  funnel::counter counter_;
};

/// The last core is the server.
class modelled_ffwd_count {
 public:
  explicit modelled_ffwd_count(const sim_spec& spec)
      : object_({.threads = std::max(64U, static_cast<unsigned>(spec.threads.size()))}, std::uint64_t{0}) {}
  std::uint64_t count() {
    return object_.apply([](std::uint64_t& value) noexcept { return value++; });
  }
  void serve() { object_.serve(); }
  void stop() noexcept { object_.stop(); }

 private:
  ffwd_object<std::uint64_t, wait::spin> object_;
};

template <class ThreadGroup>
void add_counts(catalogue& to, topic_set topics) {
  const auto add = [&](const char* name, const char* role, unsigned fibers, const char* note,
                       outcome (*run)(const sim_spec&)) {
    contender c = modelled_contender(name, role, 0, note, run);
    c.topics = topics;
    c.fibers = fibers;
    to.all.push_back(std::move(c));
  };
  add("counter", "ours", 1, "", sim_count<ThreadGroup, modelled_counter>);
  add("counter, 64 fibers", "ours", 64, "", sim_count<ThreadGroup, modelled_counter>);
  add("osci, 64 fibers", "baseline", 64, "", sim_count<ThreadGroup, modelled_combined_count<osci>>);
  add("Aggregating Funnels", "baseline", 1, "six aggregators", sim_count<ThreadGroup, modelled_funnel>);
  add("cc_synch", "baseline", 1, "", sim_count<ThreadGroup, modelled_combined_count<cc_synch>>);
  add("ffwd", "baseline", 1, "delegation: the last core is the server", sim_count<ThreadGroup, modelled_ffwd_count>);
  to.all.back().least_threads = 2;
  add("std::atomic", "peer", 1, "fetch_add", sim_count<ThreadGroup, modelled_atomic>);
}

}  // namespace muster::bench::inline MUSTER_ABI
