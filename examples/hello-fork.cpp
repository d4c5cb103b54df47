// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The first program of the guide: a recursion on all processors.
// [first]
#include <muster/fork.hpp>

#include <cstdio>

long fib(long n) {
  if (n < 2) return n;
  auto [a, b] = muster::fork2([=] { return fib(n - 1); }, [=] { return fib(n - 2); });
  return a + b;
}

int main() {
  muster::pool pool;  // as many workers as the process can run at once
  const long result = pool.run([] { return fib(32); });
  std::printf("fib(32) is %ld, by %u workers\n", result, pool.workers());
  return result == 2'178'309 ? 0 : 1;
}
// [/first]
