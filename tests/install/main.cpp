// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// main.cpp: the program of a user of muster: a queue, forks and a combining object. Built against muster in each way of
// getting it.
#include <muster/muster.hpp>

#include <cstdio>
#include <thread>

static_assert(muster::header_version.major == MUSTER_VERSION_MAJOR);

namespace {

constexpr int items = 1000;
constexpr long expected = long{items} * (items + 1) / 2;

long through_a_queue() {
  muster::spsc_queue<int> queue(16);
  long sum = 0;
  std::thread consumer([&] {
    while (auto item = queue.pop()) sum += *item;
  });
  for (int i = 1; i <= items; ++i)
    if (queue.push(i) != muster::queue_status::success) break;
  queue.close();
  consumer.join();
  return sum;
}

long by_forks(int first, int last) {
  if (first == last) return first;
  const int middle = first + (last - first) / 2;
  auto [left, right] =
      muster::fork2([=] { return by_forks(first, middle); }, [=] { return by_forks(middle + 1, last); });
  return left + right;
}

long by_combining() {
  muster::osci<long> sum;
  const auto add = [&sum](int first) {
    for (int i = first; i <= items; i += 2) sum.apply([i](long& s) { s += i; });
  };
  std::thread other(add, 1);
  add(2);
  other.join();
  return sum.apply([](long& s) { return s; });
}

}  // namespace

int main() {
  const long queued = through_a_queue();
  const long forked = muster::pool(2).run([] { return by_forks(1, items); });
  const long combined = by_combining();
#if defined(MUSTER_FORK_BARRIER)
  constexpr const char* engine = "barrier";
#else
  constexpr const char* engine = "watermark";
#endif
  std::printf("muster %d.%d.%d: %ld by a queue, %ld by forks, %ld by combining; forks by %s\n", MUSTER_VERSION_MAJOR,
              MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH, queued, forked, combined, engine);
  return queued == expected && forked == expected && combined == expected ? 0 : 1;
}
