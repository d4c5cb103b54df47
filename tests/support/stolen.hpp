// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stolen.hpp: forks whose second half is stolen, in every run.
#pragma once

#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace muster_test {

using muster::fork2;
using muster::pool;

inline pool& workers() {
  static pool three({.workers = 3, .stack_bytes = std::size_t{16} << 20U});
  return three;
}

/// Until a thief has begun the second half of `fork_stolen`. Forks nothing.
inline void await(const std::atomic<bool>& begun) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!begun) {
    if (std::chrono::steady_clock::now() > limit)
      muster::fail_check("no thread has stolen the second half", __FILE__, __LINE__);
    muster::pause();
  }
}

/// fork2, but the first half continues only after a thief has begun the second.
template <class F, class G>
auto fork_stolen(F first, G second) {
  std::atomic<bool> begun{false};
  return fork2(
      [&] {
        await(begun);
        return first();
      },
      [&] {
        begun = true;
        return second();
      });
}

/// Calls f() in a substitute, of which the pool may have one at least: of three workers one waits for a half that
/// another executes, and may execute nothing else; the third has work for a fourth.
template <class F>
void call_in_substitute(pool& three, F f) {
  std::atomic<bool> begun{false}, met{false};
  three.run([&] {
    fork2(
        [&] {
          fork2([&] { begun.wait(false); },
                [&] {
                  begun = true;
                  begun.notify_all();
                  met.wait(false);
                });
        },
        [&] {
          begun.wait(false);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the first one sleeps
          fork2([&] { met.wait(false); },
                [&] {
                  f();
                  met = true;
                  met.notify_all();
                });
        });
  });
}

/// Hides a value from the optimizer.
template <class T>
[[gnu::noinline]] T opaque(T value) {
  asm volatile("" : : "r"(&value) : "memory");
  return value;
}

inline long leaf(long a) { return opaque(a) * 3 + 1; }

}  // namespace muster_test
