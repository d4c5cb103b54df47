// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// task_run.hpp: one run of a contender that executes functions which are given to it one by one: submitted functions
// and their results, tasks of a group, items of a pipeline. Each function counts its executions, and those of a
// pipeline's last stage check their order, at a cost that is the same for all contenders.
//
// A contender T has
//   caller_works                  true if the thread that waits executes functions as well
//   T(workers)                    starts the threads
// and for each load of task_spec that it takes part in
//   one(f)                        gives f to the pool, and returns its result
//   in_flight(many, f)            the same with f(0) to f(many - 1), all given before the first result is awaited
//   group(many, f)                f(0) to f(many - 1) as tasks of a group, and waits for the group
//   tree(many, f)                 f(1) as a task; that of f(i) gives f(2 * i) and f(2 * i + 1) to the group, below
//                                 `many`
//   pipeline(many, f, g)          a serial stage makes 0 to many - 1, a parallel one calls f(i), a serial one g(i)
//                                 in order
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"
#include "driver/quantiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {

/// Enough for a steady state of each load.
inline std::size_t tasks_of(task_load what) {
  switch (what) {
    case task_load::one: return 1;
    case task_load::pipeline: return 1000;
    default: return 10'000;
  }
}

template <class T>
outcome run_tasks(const task_spec& spec) {
  using clock = std::chrono::steady_clock;
  outcome result;
  // As in run_graph().
  std::vector<int> units = spec.pus;
  if (T::caller_works && units.size() > 1) units.erase(units.begin());
  share_units(units);
  T pool(spec.workers);
  const std::size_t many = tasks_of(spec.what);
  std::vector<std::uint32_t> runs_of(many + 1);
  std::size_t next = 0;
  bool in_order = true;
  const auto count = [&runs_of](std::size_t i) { return ++runs_of[i]; };
  const auto once = [&] {
    const auto refuse = [&] { result.error = "it does not take part in this"; };
    switch (spec.what) {
      case task_load::one:
        if constexpr (requires { pool.one([] { return 1U; }); }) return void(pool.one([&] { return count(0); }));
        return refuse();
      case task_load::in_flight:
        if constexpr (requires { pool.in_flight(many, count); }) return pool.in_flight(many, count);
        return refuse();
      case task_load::group:
        if constexpr (requires { pool.group(many, count); }) return pool.group(many, count);
        return refuse();
      case task_load::tree:
        if constexpr (requires { pool.tree(many, count); }) return pool.tree(many, count);
        return refuse();
      case task_load::pipeline:
        next = 0;
        if constexpr (requires { pool.pipeline(many, count, count); })
          return pool.pipeline(many, count, [&](std::size_t i) { in_order = in_order && i == next++; });
        return refuse();
    }
  };
  once();
  if (T::caller_works && units.size() < spec.pus.size()) share_units({spec.pus.begin(), spec.pus.begin() + 1});
  once();

  const std::uint64_t times = std::max<std::uint64_t>(1, spec.items / many);
  const double cpu = cpu_seconds();
  std::vector<std::uint64_t> took;
  const auto begin = clock::now();
  for (std::uint64_t i = 0; i < times; ++i) {
    if (!spec.latency) {
      once();
    } else {
      const auto at = clock::now();
      once();
      took.push_back(nanoseconds_since(at));
    }
  }
  result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  result.cpu_seconds = cpu_seconds() - cpu;
  result.items = times * many;
  if (spec.latency) result.detail = quantiles(std::move(took));
  const std::size_t first = spec.what == task_load::tree ? 1 : 0;
  const auto wrong = std::find_if(runs_of.begin() + static_cast<std::ptrdiff_t>(first),
                                  runs_of.begin() + static_cast<std::ptrdiff_t>(many),
                                  [&](std::uint32_t runs) { return runs != times + 2; });
  if (wrong != runs_of.begin() + static_cast<std::ptrdiff_t>(many))
    result.error = fmt::format("a function was executed {} times in {} runs", *wrong, times + 2);
  if (!in_order) result.error = "the last stage of the pipeline got its items out of order";
  return result;
}

}  // namespace muster::bench
