// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: items that can only be moved, and constructors that throw.

#include "expect.hpp"

#include <muster/queue.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

void move_only() {
  // [move-only]
  muster::spsc_queue<std::unique_ptr<std::string>> queue(1);
  queue.push(std::make_unique<std::string>("first"));

  auto second = std::make_unique<std::string>("second");
  const auto status = queue.try_push(std::move(second));  // full: and second still owns its string

  std::unique_ptr<std::string> first = *queue.pop();  // the item is moved out of the queue
  // [/move-only]

  expect(status == muster::queue_status::full);
  expect(second != nullptr && *second == "second");
  expect(first != nullptr && *first == "first");

  queue.close();
  expect(queue.push(std::move(second)) == muster::queue_status::closed);
  expect(second != nullptr && *second == "second");
}

// [throwing]
struct parsed {
  explicit parsed(const std::string& text) : number(std::stoi(text)) {}  // throws std::invalid_argument
  int number;
};
// [/throwing]

void exceptions() {
  int refused = 0;

  // [exceptions]
  muster::spsc_queue<parsed> queue(8);
  for (const std::string text : {"1", "two", "3"}) {
    try {
      queue.emplace(text);  // constructs the item inside the queue
    } catch (const std::invalid_argument&) {
      ++refused;  // the queue is as it was before the call
    }
  }
  queue.close();
  // [/exceptions]

  expect(refused == 1);
  const auto first = queue.pop();
  const auto second = queue.pop();
  expect(first && first->number == 1);
  expect(second && second->number == 3);
  expect(queue.pop().status() == muster::queue_status::closed);
}

/// Counts its living instances.
struct counted {
  static inline int alive = 0;
  counted() { ++alive; }
  counted(counted&&) noexcept { ++alive; }
  ~counted() { --alive; }
};

void destruction() {
  {
    // [destruction]
    muster::spsc_queue<counted> queue(8);
    queue.emplace();
    queue.emplace();
    // The two were not popped: the queue destroys them when it is destroyed.
    // [/destruction]
    expect(counted::alive == 2);
  }
  expect(counted::alive == 0);
}

}  // namespace

int main() {
  move_only();
  exceptions();
  destruction();
}
