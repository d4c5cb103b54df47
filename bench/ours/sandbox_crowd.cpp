// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The latency of a client that makes one call after another, beside one that floods its broker.
#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"
#include "ours/sandboxed.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::bench {
namespace {

using clock = std::chrono::steady_clock;

/// A histogram of times, with 64 steps per doubling.
class distribution {
 public:
  void add(std::uint64_t ns) {
    ++counts_[index_of(ns)];
    ++all_;
    longest_ = std::max(longest_, ns);
  }
  /// The value that `thousandths` of 1000 times do not exceed.
  double quantile(std::uint64_t thousandths) const {
    std::uint64_t below = all_ * thousandths / 1000;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > below) return value_of(i);
      below -= counts_[i];
    }
    return value_of(counts_.size() - 1);
  }
  double longest() const { return static_cast<double>(longest_); }

 private:
  static constexpr unsigned bits = 6;
  static constexpr std::uint64_t steps = 1U << bits;

  static std::size_t index_of(std::uint64_t ns) {
    const unsigned size = static_cast<unsigned>(std::bit_width(ns));
    if (size <= bits) return ns;
    const std::size_t index = (size - bits) * steps + ((ns >> (size - bits - 1)) - steps);
    return index < size_ ? index : size_ - 1;
  }
  static double value_of(std::size_t index) {
    if (index < steps) return static_cast<double>(index);
    return static_cast<double>((steps + index % steps) << (index / steps - 1));
  }
  static constexpr std::size_t size_ = steps * 32;

  std::array<std::uint32_t, size_> counts_{};
  std::uint64_t all_ = 0;
  std::uint64_t longest_ = 0;
};

struct times {
  std::uint64_t wrong;
  double median, p99, p99_9, longest, mean;  // nanoseconds
};

}  // namespace
}  // namespace muster::bench

template <>
inline constexpr bool muster::any_bytes_are_valid<muster::bench::times> = true;

namespace muster::bench {
namespace {

times measure_calls(inside& in, std::int64_t right, std::uint64_t calls) {
  distribution all;
  std::uint64_t wrong = 0;
  const clock::time_point begin = clock::now();
  clock::time_point last = begin;
  for (std::uint64_t n = calls; n != 0; --n) {
    wrong += in.getppid() != right ? 1U : 0U;
    const clock::time_point now = clock::now();
    all.add(static_cast<std::uint64_t>(std::chrono::nanoseconds(now - last).count()));
    last = now;
  }
  const double mean = std::chrono::duration<double, std::nano>(last - begin).count() / static_cast<double>(calls);
  return {wrong, all.quantile(500), all.quantile(990), all.quantile(999), all.longest(), mean};
}

/// Two processes that compute, with as many threads as a client and its broker have.
class busy_processes {
 public:
  explicit busy_processes(const std::vector<int>& units) {
    for (int& one : all_) {
      one = ::fork();
      if (one != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      share_units(units);
      for (std::atomic<std::uint64_t> n{0};;) n.fetch_add(1, std::memory_order_relaxed);
    }
  }
  ~busy_processes() {
    for (const int one : all_) {
      if (one <= 0) continue;
      ::kill(one, SIGKILL);
      ::waitpid(one, nullptr, 0);
    }
  }
  busy_processes(const busy_processes&) = delete;
  busy_processes& operator=(const busy_processes&) = delete;

 private:
  std::array<int, 2> all_{};
};

/// 64 fibers that make calls endlessly.
class flooding_client {
 public:
  explicit flooding_client(const std::vector<int>& units) : box_(muster::policy{}, {.jobs = fibers, .calls = fibers}) {
    pin_inside(box_, units);
    jobs_.reserve(fibers);
    for (unsigned f = 0; f < fibers; ++f)
      jobs_.push_back(box_.submit([](inside& in) -> std::uint64_t {
        for (;;) static_cast<void>(in.getppid());
      }));
    while (calls() < 64 * fibers) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::uint64_t calls() const { return box_.usage().calls; }
  /// Must run before the jobs are destroyed, because they do not end by themselves.
  ~flooding_client() { box_.stop(); }
  flooding_client(const flooding_client&) = delete;
  flooding_client& operator=(const flooding_client&) = delete;

 private:
  static constexpr unsigned fibers = 64;
  sandbox box_;
  std::vector<sandbox::job<std::uint64_t>> jobs_;
};

outcome run_crowd(const crowd_spec& spec) {
  const std::int64_t right = ::getppid();
  std::optional<busy_processes> busy;
  std::optional<flooding_client> flood;
  if (spec.beside == crowd_spec::other::busy) busy.emplace(spec.pus_beside);
  if (spec.beside == crowd_spec::other::flood) {
    share_units(spec.pus_beside);  // its broker's threads
    flood.emplace(spec.pus_beside);
  }
  share_units(spec.pus);
  sandbox box{muster::policy{}};
  pin_inside(box, spec.pus);
  const auto run_calls = [&](std::uint64_t calls) {
    return box.run([right, calls](inside& in) { return measure_calls(in, right, calls); }).value();
  };
  run_calls(16);
  // Where both clients share processors, all calls of a sample may fit into a time slice in which the other client does
  // not run. Such a sample shows nothing and is taken again.
  times seen{};
  std::uint64_t flooded = 0;
  for (int samples = 0; samples != 1000; ++samples) {
    const std::uint64_t before = flood ? flood->calls() : 0;
    seen = run_calls(spec.items);
    if (!flood) break;
    flooded = flood->calls() - before;
    if (flooded != 0) break;
  }
  outcome result;
  result.items = spec.items;
  result.seconds = seen.mean * 1e-9 * static_cast<double>(spec.items);
  result.detail["p99"] = seen.p99;
  result.detail["median"] = seen.median;
  result.detail["p99.9"] = seen.p99_9;
  result.detail["max"] = seen.longest;
  if (flood) {
    result.detail["flood"] = static_cast<double>(flooded) / result.seconds * 1e-6;
    if (flooded == 0) result.error = "the other client has made no calls";
  }
  box.stop();
  flood.reset();
  busy.reset();
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  if (seen.wrong != 0) result.error = std::to_string(seen.wrong) + " calls did not return what they should";
  return result;
}

}  // namespace

void add_sandbox_crowd(catalogue& to) {
  to.add("muster", "ours",
         {{.name = "sandbox", .note = "muster::inside::getppid(), one call after another", .crowd = run_crowd}});
}

}  // namespace muster::bench
