// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: the same tasks in a pool of muster.

#include <muster/fork.hpp>

#include <atomic>
#include <cstdio>

namespace {

// [ours]
long fib(int n) {
  if (n < 2) return n;  // no threshold
  auto [a, b] = muster::fork2(fib, n - 1, [n] { return fib(n - 2); });
  return a + b;
}

struct node {
  node* left;
  node* right;
};

void count(muster::task_group& group, const node* at, std::atomic<int>& sum) {
  if (at == nullptr) return;
  ++sum;
  group.run([&group, at, &sum] { count(group, at->left, sum); });
  group.run([&group, at, &sum] { count(group, at->right, sum); });
}

int count(const node* at) {  // costs less: nothing is allocated
  if (at == nullptr) return 0;
  auto [left, right] = muster::fork2([at] { return count(at->left); }, [at] { return count(at->right); });
  return 1 + left + right;
}
// [/ours]

}  // namespace

int main() {
  node leaf{nullptr, nullptr}, inner{&leaf, &leaf}, root{&inner, &leaf};
  // [ours-main]
  muster::pool pool(4);
  const long f = pool.run([] { return fib(24); });

  std::atomic<int> sum = 0;
  muster::task_group group(pool);
  group.run([&] { count(group, &root, sum); });
  group.wait();
  // [/ours-main]
  if (pool.run([&] { return count(&root); }) != sum) return 1;
  std::printf("fib(24) is %ld\n%d nodes\n", f, sum.load());
}
