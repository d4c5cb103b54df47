// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The counter, and what programs use instead of it, as contenders of combine/counter.
#include "baselines/combining/ffwd.hpp"
#include "driver/count_run.hpp"
#include "ours/combined.hpp"

#include <muster/combine/counter.hpp>

#include <atomic>
#include <mutex>

namespace muster::bench {
namespace {

class own_counter {
 public:
  explicit own_counter(const team_spec&) {}
  std::uint64_t count() { return static_cast<std::uint64_t>(counter_.fetch_add(1)); }

 private:
  counter counter_;
};

class hardware {
 public:
  explicit hardware(const team_spec&) {}
  std::uint64_t count() { return value_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  alignas(isolation_size) std::atomic<std::uint64_t> value_{0};
};

class under_mutex {
 public:
  explicit under_mutex(const team_spec&) {}
  std::uint64_t count() {
    const std::lock_guard lock(mutex_);
    return value_++;
  }

 private:
  alignas(isolation_size) std::mutex mutex_;
  std::uint64_t value_ = 0;
};

template <template <class...> class Algorithm>
class combined_count {
 public:
  explicit combined_count(const team_spec& spec) : object_(options_of<Algorithm>::options(spec), std::uint64_t{0}) {}
  std::uint64_t count() {
    return object_.apply([](std::uint64_t& value) noexcept { return value++; });
  }

 private:
  Algorithm<std::uint64_t> object_;
};

}  // namespace

void add_counters(catalogue& to) {
  const auto add = [&](const char* name, const char* family, const char* role, const char* note,
                       outcome (*run)(const team_spec&)) {
    to.all.push_back({.name = name, .family = family, .role = role, .note = note, .topics = counting, .team = run});
  };
  add("counter", "muster", "ours", "", run_counter<own_counter>);
  add("osci, count", "muster", "ours", "a number in an osci", run_counter<combined_count<osci>>);
  add("ffwd, count", "baseline", "baseline", "a number on a server thread, beside the carriers",
      run_counter<combined_count<ffwd>>);
  add("std::atomic", "std", "peer", "fetch_add", run_counter<hardware>);
  add("std::mutex, count", "std", "peer", "a number under a lock", run_counter<under_mutex>);
}

}  // namespace muster::bench
