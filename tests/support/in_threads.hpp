// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// in_threads.hpp: one body in several threads, and how their waits give way.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace muster_test {

/// The parameter of an algorithm that waits: more threads than processors let each other run.
struct yielding_turn {
  static void turn() { std::this_thread::yield(); }
};

/// Runs `body(i)` in `threads` threads and waits for them.
template <class Body>
void in_threads(std::size_t threads, Body body) {
  std::vector<std::jthread> all;
  for (std::size_t i = 0; i < threads; ++i) all.emplace_back([&body, i] { body(i); });
}

}  // namespace muster_test
