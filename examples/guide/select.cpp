// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: one thread waits for items of several queues.

#include "expect.hpp"

#include <muster/queue.hpp>
#include <muster/queue/select.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <variant>

int main() {
  int total = 0;
  std::string log;

  // [select]
  muster::spsc_queue<int> orders(64);            // from one thread
  muster::mpmc_queue<std::string> messages(64);  // from any thread

  std::jthread clerk([&] {
    while (auto item = muster::select(orders, messages)) {  // waits until either has an item
      switch (item->index()) {
        case 0: total += std::get<0>(*item); break;  // an int, from orders
        case 1: log += std::get<1>(*item); break;    // a string, from messages
      }
    }
  });

  orders.push(20);
  messages.push("hello");
  orders.push(22);
  orders.close();    // takes no further part
  messages.close();  // the last: select returns no item, and the loop ends
  clerk.join();
  // [/select]
  expect(total == 42);
  expect(log == "hello");

  using namespace std::chrono_literals;
  muster::spsc_queue<int> first(4), second(4);
  // [limits]
  const auto nothing = muster::try_select(first, second);    // empty: it does not wait
  const auto late = muster::select_for(5ms, first, second);  // empty: the time is over
  // [/limits]
  expect(nothing.status() == muster::queue_status::empty);
  expect(late.status() == muster::queue_status::empty);
}
