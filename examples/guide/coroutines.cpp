// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: coroutines that pop and push, and that continue in a pool.

#include "expect.hpp"

#include <muster/fork.hpp>
#include <muster/queue.hpp>
#include <muster/queue/async.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <vector>

namespace {

// The smallest type of a coroutine: it begins at once, and its frame ends with it.
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// [coroutines]
task square(muster::mpmc_queue<int>& in, muster::mpmc_queue<int>& out, muster::pool& on) {
  while (auto item = co_await muster::async_pop(in, on))  // while there is none, no thread waits
    co_await muster::async_push(out, on, *item * *item);  // nor while out is full
  out.close();
}
// [/coroutines]

// [schedule]
task add_up(muster::pool& on, std::vector<int> numbers, muster::spsc_queue<long>& result) {
  co_await on.schedule();  // from here on a thread of the pool, where it may fork
  result.push(muster::parallel_reduce(numbers.begin(), numbers.end(), 0L, std::plus<>()));
}
// [/schedule]

// [receiver]
struct add_to {
  muster::spsc_queue<long>& result;
  void set_value() && noexcept {  // on a thread of the pool
    result.push(muster::parallel_reduce(1, 101, 0L, std::plus<>()));
  }
  void set_stopped() && noexcept { result.close(); }
};
// [/receiver]

}  // namespace

int main() {
  // [start]
  muster::mpmc_queue<int> in(4), out(4);
  muster::pool pool({.workers = 2});  // declared last, so that its threads end before the queues
  square(in, out, pool);              // runs until it must wait; then on the pool

  for (int i = 1; i <= 3; ++i) in.push(i);  // threads and coroutines may share a queue
  in.close();
  int sum = 0;
  while (auto item = out.pop()) sum += *item;  // 1 + 4 + 9
  // [/start]
  expect(sum == 14);

  muster::spsc_queue<long> result(1);
  {
    muster::pool adders;
    // [schedule-start]
    add_up(adders, std::vector<int>(1000, 1), result);  // returns at once
    const long total = *result.pop();
    // [/schedule-start]
    expect(total == 1000);

    // [sender]
    auto operation = adders.scheduler().schedule().connect(add_to{result});
    operation.start();  // returns at once
    const long to_100 = *result.pop();
    // [/sender]
    expect(to_100 == 5050);
  }
}
