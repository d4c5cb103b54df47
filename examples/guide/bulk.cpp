// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: several items at once.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <list>
#include <memory>
#include <numeric>
#include <ranges>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t total = 100'000;

void producer_and_consumers() {
  std::vector<long> samples(total);
  std::iota(samples.begin(), samples.end(), 1L);
  std::atomic<long> sum = 0;

  // [bulk]
  muster::spmc_queue<long> queue(1024);

  const auto consume = [&] {
    std::array<long, 8> batch;
    while (const std::size_t n = queue.pop_n(batch.begin(), batch.size()))  // waits for at least one item
      sum += std::accumulate(batch.begin(), batch.begin() + n, 0L);         // n is 0 when closed and drained
  };
  std::jthread a(consume), b(consume), c(consume);

  const std::size_t pushed = queue.push_n(samples.begin(), samples.size());  // waits for room as often as needed
  queue.close();
  // [/bulk]
  a.join();
  b.join();
  c.join();

  expect(pushed == total);
  expect(sum == static_cast<long>(total * (total + 1) / 2));
}

void without_waiting() {
  muster::spsc_queue<int> queue(4);
  const std::vector<int> six{1, 2, 3, 4, 5, 6};

  // [bulk-try]
  const std::size_t pushed = queue.try_push_n(six.begin(), six.size());  // 4: there was no more room

  std::vector<int> out(6);
  const std::size_t popped = queue.try_pop_n(out.begin(), out.size());  // 4: all there were
  out.resize(popped);
  // [/bulk-try]

  expect(pushed == 4);
  expect(out == std::vector<int>{1, 2, 3, 4});
  expect(queue.try_pop().status() == muster::queue_status::empty);
}

void ranges() {
  int length = 0;
  // [ranges]
  muster::spsc_queue<std::unique_ptr<std::string>> queue(64);
  std::list<std::unique_ptr<std::string>> lines;
  for (const char* text : {"one", "two", "three"}) lines.push_back(std::make_unique<std::string>(text));

  queue.push_range(std::move_iterator(lines.begin()), std::move_iterator(lines.end()));
  queue.push_range(std::views::iota(0, 10) |
                   std::views::transform([](int i) { return std::make_unique<std::string>(std::to_string(i)); }));
  queue.close();

  std::vector<std::unique_ptr<std::string>> batch(8);
  while (const std::size_t n = queue.pop_into(batch))  // waits for at least one item, takes up to 8
    for (std::size_t i = 0; i != n; ++i) length += static_cast<int>(batch[i]->size());
  // [/ranges]
  expect(length == 3 + 3 + 5 + 10);
}

}  // namespace

int main() {
  producer_and_consumers();
  without_waiting();
  ranges();
}
