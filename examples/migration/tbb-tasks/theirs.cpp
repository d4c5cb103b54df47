// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: tasks of oneTBB.

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <cstdio>

namespace {

// [theirs]
long fib(int n) {
  if (n < 16) return n < 2 ? n : fib(n - 1) + fib(n - 2);  // a fork costs as much as many calls
  long a = 0, b = 0;
  tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
  return a + b;
}

struct node {
  node* left;
  node* right;
};

void count(tbb::task_group& group, const node* at, std::atomic<int>& sum) {
  if (at == nullptr) return;
  ++sum;
  group.run([&group, at, &sum] { count(group, at->left, sum); });
  group.run([&group, at, &sum] { count(group, at->right, sum); });
}
// [/theirs]

}  // namespace

int main() {
  node leaf{nullptr, nullptr}, inner{&leaf, &leaf}, root{&inner, &leaf};
  // [theirs-main]
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 4);
  tbb::task_arena arena(4);
  const long f = arena.execute([] { return fib(24); });

  std::atomic<int> sum = 0;
  arena.execute([&] {
    tbb::task_group group;
    group.run([&] { count(group, &root, sum); });
    group.wait();
  });
  // [/theirs-main]
  std::printf("fib(24) is %ld\n%d nodes\n", f, sum.load());
}
