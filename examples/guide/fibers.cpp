// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: fibers.

#include "expect.hpp"

#include <muster/fiber.hpp>
#include <muster/queue.hpp>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void two_fibers() {
  // [first]
  std::string turns;
  muster::fiber a([&] {
    turns += "a1 ";
    muster::this_fiber::yield();  // every other fiber of this thread has one turn
    turns += "a2 ";
  });
  muster::fiber b([&] { turns += "b "; });
  a.join();
  b.join();
  // turns is now "a1 b a2 "
  // [/first]
  expect(turns == "a1 b a2 ");
}

void exceptions() {
  bool caught = false;
  // [exception]
  muster::fiber f([] { throw std::runtime_error("no such file"); });
  try {
    f.join();
  } catch (const std::runtime_error& e) {
    caught = e.what() == std::string("no such file");
  }
  // [/exception]
  expect(caught);
}

void teams() {
  // [team]
  std::atomic<int> calls = 0;
  // Two threads, each with sixteen fibers, each of which calls the function once.
  muster::run_team({.carriers = 2, .fibers = 16, .pin = true}, [&](unsigned /*carrier*/, unsigned /*fiber*/) {
    ++calls;
    muster::this_fiber::yield();
  });
  // [/team]
  expect(calls == 32);
}

void waiting() {
  int answer = 0;
  // [waiting]
  muster::spsc_queue<int> questions(4), answers(4);
  muster::fiber asks([&] {
    questions.push(6);
    answer = answers.pop().value();  // waits; the fiber that answers runs
  });
  muster::fiber replies([&] { answers.push(questions.pop().value() * 7); });
  asks.join();
  // [/waiting]
  replies.join();
  expect(answer == 42);
}

void small_stacks() {
  int sum = 0;
  // [stack]
  const muster::stack_options small{.size = 32 * 1024};
  muster::fiber f(small, [&] { sum += 1; });
  // [/stack]
  f.join();
  expect(sum == 1);
}

void many_fibers() {
  // [many]
  std::uint64_t sum = 0;
  std::vector<muster::fiber> all;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    all.emplace_back(muster::stack_options{.size = 16 * 1024}, [&sum, i] {
      muster::this_fiber::yield();  // all of them exist now
      sum += i;
    });
  }
  all.clear();  // joins
  // [/many]
  expect(sum == 49'995'000);
}

}  // namespace

int main() {
  two_fibers();
  exceptions();
  teams();
  waiting();
  small_stacks();
  many_fibers();
}
