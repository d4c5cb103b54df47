// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/calibrate.hpp"

#include "driver/machine.hpp"
#include "driver/placement.hpp"
#include "driver/thread_group.hpp"

#include <muster/base/arch.hpp>
#include <muster/base/detail/futex.hpp>
#include <muster/fiber/fiber.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <sched.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace muster::bench {
namespace {

using clock = std::chrono::steady_clock;
using muster_simulation::picoseconds;
using word = std::uint64_t;

picoseconds in_picoseconds(double ns) { return static_cast<picoseconds>(std::llround(ns * 10) * 100); }

double since(clock::time_point begin) { return std::chrono::duration<double, std::nano>(clock::now() - begin).count(); }

/// The minimum of many short tries, in nanoseconds: other load only adds to it.
template <class Try>
double least_of(Try one) {
  double least = one();
  for (unsigned tries = 1; tries < 60; ++tries) least = std::min(least, one());
  return least;
}

/// The time of one call of `piece`, among many in a row.
template <class Piece>
double each(unsigned times, Piece piece) {
  return least_of([&] {
    const clock::time_point begin = clock::now();
    for (unsigned i = 0; i < times; ++i) piece();
    return since(begin) / times;
  });
}

struct alignas(isolation_size) shared_word {
  std::atomic<word> value{0};
};

/// A load that depends on the load before it, in a working set of `bytes`.
double load_in(std::size_t bytes, std::size_t line) {
  const std::size_t step = line / sizeof(std::size_t);
  std::vector<std::size_t> next(bytes / sizeof(std::size_t));
  std::vector<std::size_t> order(bytes / line);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  for (std::size_t i = 0; i < order.size(); ++i) next[order[i] * step] = order[(i + 1) % order.size()] * step;
  std::atomic<std::size_t> at{0};  // keeps the compiler from removing the loads
  constexpr unsigned loads = 50'000;
  return least_of([&] {
    std::size_t place = at.load(std::memory_order_relaxed);
    const clock::time_point begin = clock::now();
    for (unsigned i = 0; i < loads; ++i) place = next[place];
    const double ns = since(begin) / loads;
    at.store(place, std::memory_order_relaxed);
    return ns;
  });
}

/// A load of a line in L1 on which nothing depends: the cost of one of the library's operations that hits its line.
double hit() {
  std::vector<shared_word> words(16);
  return each(20'000,
              [&] {
                for (shared_word& w : words)
                  w.value.store(w.value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
              }) /
         (2.0 * static_cast<double>(words.size()));
}

/// The transfer of a line between cores: half a step of two threads that answer each other, because a step moves the
/// line twice, for the load and for the store.
double transfer(int from, int to) {
  constexpr word steps = 2'000;
  return least_of([&] {
    shared_word shared;
    const outcome run = run_crew({from, to}, [&](unsigned index, start_line& line) {
      line.arrive_and_wait();
      for (word n = index; n < steps; n += 2) {
        while (shared.value.load(std::memory_order_acquire) != n) {
        }
        shared.value.store(n + 1, std::memory_order_release);
      }
    });
    return run.seconds * 1e9 / static_cast<double>(steps) / 2;
  });
}

/// The time of a switch among as many fibers as Osci has.
double switch_to_a_fiber() {
  constexpr unsigned fibers = 64;
  bool stop = false;
  std::vector<fiber> others;
  for (unsigned f = 1; f < fibers; ++f)
    others.emplace_back([&stop] {
      while (!stop) this_fiber::yield();
    });
  const double round = each(100, [] { this_fiber::yield(); });
  stop = true;
  return round / fibers;
}

struct futex_times {
  double sleep = 0;
  double call = 0;
  double wake = 0;
};

/// The times of a thread that sleeps and one that wakes it. The moment of falling asleep is not visible here. So
/// entering the wait is taken as half of a call that finds the word changed and returns, and the switch as one waking
/// call.
futex_times futex(int first, int second) {
  constexpr unsigned rounds = 200;
  std::atomic<std::uint32_t> value{0};
  std::vector<double> calls;
  std::vector<double> wakes;
  std::atomic<std::int64_t> called{0};
  const auto now = [] { return std::chrono::nanoseconds(clock::now().time_since_epoch()).count(); };
  run_crew({first, second}, [&](unsigned index, start_line& line) {
    line.arrive_and_wait();
    for (std::uint32_t n = 0; n < rounds; ++n) {
      if (index == 0) {
        while (value.load() == n) muster::futex_wait(&value, n, 1, no_deadline, futex_scope::process);
        wakes.push_back(static_cast<double>(now() - called.load()));
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // the other thread sleeps by then
        called.store(now());
        value.store(n + 1);
        muster::futex_wake(&value, 1, 1, futex_scope::process);
        calls.push_back(static_cast<double>(now() - called.load()));
      }
    }
  });
  // Not the minimum: a sleeper whose processor is not idle yet wakes faster than others.
  const auto typical = [](std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4), all.end());
    return all[all.size() / 4];
  };
  futex_times found;
  found.call = typical(calls);
  found.wake = std::max(typical(wakes) - found.call, 0.0);
  found.sleep =
      each(200, [&] { muster::futex_wait(&value, 0, 1, no_deadline, futex_scope::process); }) / 2 + found.call;
  return found;
}

}  // namespace

muster_simulation::machine calibrate(const placement& place) {
  const std::vector<int> two = place.with(policy::spread).assign(1, 1);
  const std::vector<unit> units = allowed_units();
  std::set<int> cores;
  std::map<int, std::vector<int>> clusters;  // units by L3, one for each core
  for (const unit& u : units)
    if (cores.insert(u.core).second) clusters[u.l3].push_back(u.number);
  if (cores.size() < 2 || !place.pinned())
    throw std::invalid_argument("a machine file needs two cores that threads can be pinned to: allow them by --cpus");

  muster_simulation::machine m;
  const nlohmann::json here = describe_machine();
  m.name = here.at("cpu");
  m.sources = {fmt::format("measured by muster-bench calibrate, {:%Y-%m-%d}, {}", fmt::gmtime(std::time(nullptr)),
                           here.at("kernel").get<std::string>()),
               "store_buffer is not measured: 64, as in AMD's Zen 3; Intel's cores since Skylake have 56 or more"};
  m.clusters = static_cast<unsigned>(clusters.size());
  m.cores_per_cluster = static_cast<unsigned>((cores.size() + clusters.size() - 1) / clusters.size());
  m.threads_per_core = static_cast<unsigned>((units.size() + cores.size() - 1) / cores.size());
  m.line = line_size;
  m.store_buffer = 64;
  const std::array<cache, 3> known = caches();
  const auto size_of = [&known](std::size_t level, std::size_t otherwise) {
    return known[level].size != 0 ? static_cast<std::size_t>(known[level].size) : otherwise;
  };
  m.l1 = size_of(0, m.l1);
  m.l2 = size_of(1, m.l2);
  m.l3 = size_of(2, m.l3);

  const std::vector<int>& near = std::max_element(clusters.begin(), clusters.end(), [](auto& a, auto& b) {
                                   return a.second.size() < b.second.size();
                                 })->second;
  const bool have_near = near.size() > 1;
  const double far = clusters.size() > 1 ? transfer(clusters.begin()->second.front(), clusters.rbegin()->second.front())
                                         : transfer(near[0], near[1]);
  m.elsewhere = in_picoseconds(far);
  m.in_cluster = have_near ? in_picoseconds(transfer(near[0], near[1])) : m.elsewhere;
  const futex_times slept = futex(two[0], two[1]);
  m.sleep = in_picoseconds(slept.sleep);
  m.call = in_picoseconds(slept.call);
  m.wake = in_picoseconds(slept.wake);

  std::jthread([&] {
    pin_this_thread(two[0]);
    shared_word own;
    m.in_l1 = in_picoseconds(std::max(hit(), 0.1));
    m.in_l2 = in_picoseconds(load_in(m.l2 / 2, m.line));
    m.in_l3 = in_picoseconds(load_in(std::min(m.l3 / 4, 4 * m.l2), m.line));
    m.in_memory = in_picoseconds(load_in(std::min<std::size_t>(2 * m.l3, std::size_t{1} << 28U), m.line));
    // Without the time to hit the line, which is counted separately.
    m.read_modify_write =
        in_picoseconds(each(5'000, [&] { own.value.fetch_add(1); }) - static_cast<double>(m.in_l1) / 1000);
    m.fence = in_picoseconds(each(5'000, [] { std::atomic_thread_fence(std::memory_order_seq_cst); }));
    m.heavy_fence = in_picoseconds(muster::asymmetric_fences() ? each(200, [] { muster::heavy_fence(); }) : 0.0);
    m.pause = in_picoseconds(each(1'000, [] { muster::pause(); }));
    m.yield = in_picoseconds(each(500, [] { ::sched_yield(); }));
    m.fiber_switch = in_picoseconds(switch_to_a_fiber());
  }).join();
  return m;
}

}  // namespace muster::bench
