// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// test_package.cpp: what Conan compiles and runs to test the package: a queue, filled and emptied by two forks.
#include <muster/fork.hpp>
#include <muster/queue.hpp>
#include <muster/version.hpp>

#include <cstdio>

int main() {
  muster::spsc_queue<int> queue(100);
  const auto fill = [&queue] {
    for (int i = 1; i <= 100; ++i) queue.push(i);
    queue.close();
    return 0;
  };
  const auto drain = [&queue] {
    int sum = 0;
    while (auto item = queue.pop()) sum += *item;
    return sum;
  };
  // The queue has room for all items, so the first may end before the second begins.
  const auto [none, sum] = muster::fork2(fill, drain);
  std::printf("muster %d.%d.%d: %d\n", MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH, sum);
  return none == 0 && sum == 5050 ? 0 : 1;
}
