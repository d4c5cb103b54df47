// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: items that are used in the queue, without being moved out.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <thread>

namespace {

// [frame]
struct frame {
  explicit frame(int number) : number(number) { pixels.fill(static_cast<unsigned char>(number)); }
  frame(const frame&) = delete;  // cannot be copied or moved: it is built, used and destroyed in the queue
  int number;
  std::array<unsigned char, 4096> pixels;
};
// [/frame]

void consume() {
  std::atomic<long> brightness = 0;
  // [consume]
  muster::mpmc_queue<frame> queue(16);

  const auto add_up = [&] {
    const auto add = [&](const frame& one) {  // the item in the queue
      for (const unsigned char pixel : one.pixels) brightness += pixel;
    };
    while (queue.consume(add) == muster::queue_status::success) {  // waits for items; closed at the end
    }
  };
  std::jthread a(add_up), b(add_up);

  for (int i = 1; i <= 100; ++i) queue.emplace(i);
  queue.close();
  // [/consume]
  a.join();
  b.join();
  expect(brightness == 4096L * (100 * 101 / 2));
}

/// Sends as long as the other side takes something.
struct connection {
  std::size_t room = 3;
  bool try_send(int) { return room != 0 && room-- != 0; }
};

void front() {
  connection peer;
  muster::spsc_queue<int> queue(8);
  for (int i = 0; i < 5; ++i) queue.push(i);
  // [front]
  const auto send_some = [&] {
    while (const int* next = queue.front()) {  // null: there is no item now
      if (!peer.try_send(*next)) return;       // it stays the first
      queue.try_pop();
    }
  };
  // [/front]
  send_some();
  expect(queue.size_approx() == 2 && *queue.front() == 3);
  peer.room = 5;
  send_some();
  expect(queue.front() == nullptr);
}

}  // namespace

int main() {
  consume();
  front();
}
