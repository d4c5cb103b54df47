// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: push and pop wait; close ends the stream, and no item is lost.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <string>
#include <thread>
#include <vector>

namespace {

void one_to_one() {
  std::vector<std::string> received;

  // [blocking]
  muster::spsc_queue<std::string> queue(16);

  std::jthread consumer([&] {
    while (auto line = queue.pop())  // waits while the queue is empty
      received.push_back(*std::move(line));
  });

  for (int i = 0; i < 1000; ++i) queue.push("line " + std::to_string(i));  // waits while 16 lines are inside
  queue.close();  // the consumer takes what is left, then its loop ends
  consumer.join();
  // [/blocking]

  expect(received.size() == 1000);
  for (std::size_t i = 0; i < received.size(); ++i) expect(received[i] == "line " + std::to_string(i));
}

void close_and_drain() {
  // [close]
  muster::spsc_queue<int> queue(16);
  queue.push(1);
  queue.push(2);
  queue.close();
  queue.close();  // closing twice is fine

  const muster::queue_status refused = queue.push(3);  // closed: no further items
  const auto first = queue.pop();                      // 1: items inside still come out, in order
  const auto second = queue.pop();                     // 2
  const auto end = queue.pop();                        // no value: closed and drained; it does not wait
  // [/close]

  expect(refused == muster::queue_status::closed);
  expect(first && *first == 1);
  expect(second && *second == 2);
  expect(!end && end.status() == muster::queue_status::closed);
  expect(queue.is_closed());
}

}  // namespace

int main() {
  one_to_one();
  close_and_drain();
}
