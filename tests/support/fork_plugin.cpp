// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A library that forks, loaded by fork_libraries_test.cpp more than once under different names.
#include <muster/combine/cc_synch.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

#include "stolen.hpp"

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace {
bool all_are_stolen = true;
}

/// Adds 1 to an object of the caller's, after a few of its own.
EXPORTED void plugin_adds(void* number) {
  for (int i = 0; i < 4; ++i) muster::cc_synch<int>().apply([](int& n) { ++n; });
  static_cast<muster::cc_synch<int>*>(number)->apply([](int& n) { ++n; });
}
EXPORTED const void* plugin_copy_of_library() { return muster::sync::copy_of_library(); }
/// Returns 1 if this library knows that the caller is a worker.
EXPORTED int plugin_knows_worker() { return muster::detail::worker::current() != nullptr ? 1 : 0; }
/// Sets if leaves() forks only tasks that are stolen.
EXPORTED void plugin_set_stolen(int all) { all_are_stolen = all != 0; }
/// The leaves of a tree. At the bottom it calls `next`, in another library.
EXPORTED long plugin_leaves(int depth, long (*next)(int), int argument) {
  if (depth == 0) return next == nullptr ? 1 : next(argument);
  const auto left = [=] { return plugin_leaves(depth - 1, next, argument); };
  const auto right = [] { return 1L; };
  const auto [a, b] = all_are_stolen ? muster_test::fork_stolen(left, right) : muster::fork2(left, right);
  return a + b;
}
EXPORTED long plugin_throws(int number) { throw std::range_error(std::to_string(number)); }
/// The same with a pool of its own.
EXPORTED long plugin_pool_leaves(int depth) {
  muster::pool own({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
  return own.run([=] { return plugin_leaves(depth, nullptr, 0); });
}
/// The same, while the pool's other worker is busy, until `over`.
EXPORTED long plugin_pool_leaves_alone(int depth, long (*next)(int), int argument, const std::atomic<bool>* over) {
  muster::pool own({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
  return own.run([=] {
    return muster_test::fork_stolen([=] { return plugin_leaves(depth, next, argument); },
                                    [=] {
                                      muster_test::await(*over);
                                      return 0L;
                                    })
        .first;
  });
}
/// Forks in a pool of one worker; each first half calls `next`, in another library. A second half that another thread
/// executes counts a thousand.
EXPORTED long plugin_pool_calls(int forks, long (*next)()) {
  muster::pool own({.workers = 1, .stack_bytes = std::size_t{1} << 20U});
  return own.run([=] {
    const std::thread::id here = std::this_thread::get_id();
    long sum = 0;
    for (int i = 0; i < forks; ++i) {
      const auto [a, b] =
          muster::fork2([=] { return next(); }, [=] { return std::this_thread::get_id() == here ? 1L : 1000L; });
      sum += a + b;
    }
    return sum;
  });
}
/// Forks in a pool of two workers, and calls `next`, in another library, when the second half has been stolen.
EXPORTED long plugin_pool_calls_when_stolen(long (*next)()) {
  muster::pool own({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
  return own.run([=] { return muster_test::fork_stolen([=] { return next(); }, [] { return 0; }).first; });
}
/// Forks in a pool of two workers, and waits for each thief. Returns how many second halves were executed.
EXPORTED long plugin_pool_waits(int forks) {
  muster::pool own({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
  return own.run([=] {
    std::atomic<long> executed{0};
    for (int i = 0; i < forks; ++i) {
      muster_test::fork_stolen([] {},
                               [&] {
                                 ++executed;
                                 std::this_thread::sleep_for(std::chrono::milliseconds(10));
                               });
    }
    return executed.load();
  });
}
/// Forks, or begins an async, which a thief executes: it calls `slowly`. Returns how many times it has done so.
EXPORTED int plugin_is_helped(int by_async, void (*slowly)()) {
  std::atomic<bool> begun{false};
  std::atomic<int> executed{0};
  const auto second = [&] {
    begun = true;
    slowly();
    ++executed;
  };
  if (by_async == 0) {
    muster::fork2([&] { muster_test::await(begun); }, second);
  } else {
    muster::finish([&](muster::async_scope& scope) {
      scope.async(second);
      muster_test::await(begun);
    });
  }
  return executed;
}
/// Calls `next` in a pool of two workers.
EXPORTED int plugin_pool_runs(muster::fork_engine engine, int (*next)()) {
  muster::pool own({.workers = 2, .stack_bytes = std::size_t{1} << 20U, .engine = engine});
  return own.run(next);
}
EXPORTED int plugin_uses_stack_scan() { return muster::pool::barrier_unavailable_reason() == nullptr ? 1 : 0; }
