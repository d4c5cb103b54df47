// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: operations that do not wait, wait for a time, or wait until a stop is requested.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

void trying() {
  int taken = 0;
  int other_work = 0;
  muster::spmc_queue<int> queue(2);

  // [try-push]
  int dropped = 0;
  for (int sample = 0; sample < 5; ++sample)
    if (queue.try_push(sample) != muster::queue_status::success) ++dropped;  // never waits
  // [/try-push]
  expect(dropped == 3);
  queue.close();

  // [try-pop]
  bool open = true;
  while (open) {
    auto item = queue.try_pop();  // never waits
    switch (item.status()) {
      case muster::queue_status::success: taken += *item; break;
      case muster::queue_status::closed: open = false; break;  // closed and drained
      default: ++other_work; break;                            // empty, or busy: nothing now, ask again later
    }
  }
  // [/try-pop]
  expect(taken == 0 + 1);
  expect(other_work == 0);
}

void timed() {
  using namespace std::chrono_literals;
  muster::spsc_queue<int> queue(1);
  const auto start = std::chrono::steady_clock::now();

  // [timed]
  const auto nothing = queue.pop_for(5ms);     // empty: the time is over
  const auto first = queue.push_for(1, 5ms);   // success
  const auto second = queue.push_for(2, 5ms);  // full: the time is over; 2 is not in the queue
  const auto until = std::chrono::steady_clock::now() + 1s;
  const auto item = queue.pop_until(until);  // 1, at once
  // [/timed]

  expect(nothing.status() == muster::queue_status::empty);
  expect(first == muster::queue_status::success);
  expect(second == muster::queue_status::full);
  expect(item && *item == 1);
  // Two waits of 5 ms. There is no upper limit, because it would depend on how busy the machine is.
  expect(std::chrono::steady_clock::now() - start >= 10ms);
}

void stopped() {
  std::atomic<int> taken = 0;
  std::atomic<bool> ended = false;

  // [stop]
  muster::spmc_queue<int> queue(64);

  std::jthread worker([&](std::stop_token stop) {
    while (auto item = queue.pop(stop))  // waits for an item, but no longer than until a stop is requested
      taken += *item;
    ended = true;
  });

  queue.push(20);
  queue.push(22);
  while (taken != 42) std::this_thread::yield();
  worker.request_stop();  // the queue stays open: other workers continue, and this one ends
  worker.join();
  // [/stop]

  expect(ended);
  expect(!queue.is_closed());
  expect(queue.push(1) == muster::queue_status::success);
  const auto item = queue.try_pop();
  expect(item && *item == 1);
}

}  // namespace

int main() {
  trying();
  timed();
  stopped();
}
