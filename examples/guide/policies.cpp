// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: capacity, threads, and how a queue waits and lies in memory.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void capacity() {
  // [capacity]
  muster::spmc_queue<int> one(1);                        // exactly one item; any number from 1 is fine
  muster::spmc_queue<int> many(1000, {.threads = 200});  // 200 threads may be inside at once; 64 by default
  const std::size_t room = many.capacity();              // 1000, not the next power of two
  // [/capacity]
  expect(room == 1000);
  expect(one.capacity() == 1);
  expect(one.try_push(1) == muster::queue_status::success);
  expect(one.try_push(2) == muster::queue_status::full);
  expect(one.size_approx() == 1);

  std::string complaint;
  // [invalid]
  try {
    muster::spmc_queue<int> impossible(0);
  } catch (const std::invalid_argument& error) {
    complaint = error.what();  // says what was wrong, and what to ask for instead
  }
  // [/invalid]
  expect(!complaint.empty());
}

void memory() {
  // [memory]
  std::array<std::byte, 32'768> buffer;
  std::pmr::monotonic_buffer_resource all(buffer.data(), buffer.size(), std::pmr::null_memory_resource());

  muster::spmc_queue<int> jobs(100, {}, &all);  // in the buffer: a memory resource,
  muster::lanes<int> events(20, {.producers = 4, .threads = 8},
                            std::pmr::polymorphic_allocator<>(&all));  // or any allocator
  // [/memory]
  expect(jobs.try_push(1) == muster::queue_status::success);
  expect(events.producer().try_push(1) == muster::queue_status::success);
}

// [policies]
using default_queue = muster::spmc_queue<int>;  // layout::packed; spin, then park
using idle_queue = muster::spmc_queue<int, muster::layout::packed, muster::wait::park>;   // least CPU, least memory
using busy_queue = muster::spmc_queue<int, muster::layout::aligned, muster::wait::spin>;  // a core for each thread
// [/policies]

/// The promise does not depend on the policies: each kind does the same work.
template <class Queue>
void transfer() {
  constexpr int items = 20'000;
  Queue queue(128);
  std::atomic<long> sum = 0;
  {
    std::vector<std::jthread> consumers;
    for (int i = 0; i < 2; ++i)
      consumers.emplace_back([&] {
        while (auto item = queue.pop()) sum += *item;
      });
    for (int i = 1; i <= items; ++i) queue.push(i);
    queue.close();
  }
  expect(sum == long{items} * (items + 1) / 2);
}

}  // namespace

int main() {
  capacity();
  memory();
  transfer<default_queue>();
  transfer<idle_queue>();
  transfer<busy_queue>();
}
