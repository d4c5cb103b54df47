// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues, compiled with -fno-exceptions and -fno-rtti: they do what they do elsewhere, and an error ends the
// program with its message. `./dev check bare` compiles this file and some of tests/unit so.
#include <gtest/gtest.h>
#include <muster/queue.hpp>
#include <muster/queue/async.hpp>
#include <muster/queue/notify_fd.hpp>
#include <muster/queue/select.hpp>
#include <muster/queue/shared.hpp>
#include <muster/queue/shared_bytes.hpp>

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this test is about programs without exceptions and type information: -fno-exceptions -fno-rtti"
#endif

namespace {

constexpr int items = 10'000;
constexpr long expected = long{items} * (items + 1) / 2;
constexpr const char* ends = "compiled without exceptions, so it ends here";

/// Its construction is not noexcept, so every handler for an item that throws is compiled.
struct boxed {
  explicit boxed(int value) : at(std::make_unique<int>(value)) {}
  boxed(boxed&& other) noexcept(false) : at(std::move(other.at)) {}
  boxed& operator=(boxed&& other) noexcept(false) {
    at = std::move(other.at);
    return *this;
  }
  ~boxed() = default;
  boxed(const boxed&) = delete;
  boxed& operator=(const boxed&) = delete;
  std::unique_ptr<int> at;
};

template <class Queue>
class bare_queue : public testing::Test {};
using queues = testing::Types<muster::spsc_queue<boxed>, muster::spmc_queue<boxed>, muster::mpmc_queue<boxed>>;
TYPED_TEST_SUITE(bare_queue, queues);

TYPED_TEST(bare_queue, passes_every_item) {
  TypeParam queue(64);
  long sum = 0;
  std::thread consumer([&] {
    while (auto item = queue.pop()) sum += *item->at;
  });
  for (int i = 1; i <= items; ++i) ASSERT_EQ(queue.emplace(i), muster::queue_status::success);
  queue.close();
  consumer.join();
  EXPECT_EQ(sum, expected);
}

TYPED_TEST(bare_queue, pushes_and_pops_many_at_once) {
  std::array<std::byte, 1U << 16U> storage;
  std::pmr::monotonic_buffer_resource memory(storage.data(), storage.size(), std::pmr::null_memory_resource());
  TypeParam queue(64, {}, &memory);
  std::vector<boxed> in;
  for (int i = 0; i < 50; ++i) in.emplace_back(i);
  EXPECT_EQ(queue.push_n(std::make_move_iterator(in.begin()), in.size()), in.size());
  std::vector<boxed> out;
  EXPECT_EQ(queue.pop_n(std::back_inserter(out), 50), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*out[static_cast<std::size_t>(i)].at, i);
}

TYPED_TEST(bare_queue, errors_end_the_program) {
  EXPECT_DEATH(TypeParam{0}, std::string("_queue: capacity is 0; it must be at least 1.*").append(ends));
  EXPECT_DEATH(
      {
        TypeParam queue(1);
        queue.close();
        static_cast<void>(queue.pop().value());
      },
      ends);
}

TEST(bare_lanes, pass_every_item) {
  muster::lanes<boxed> queue(64, {.producers = 1});
  long sum = 0;
  std::thread consumer([&] {
    while (auto item = queue.pop()) sum += *item->at;
  });
  {
    auto lane = queue.producer();
    for (int i = 1; i <= items; ++i) ASSERT_EQ(lane.emplace(i), muster::queue_status::success);
  }
  queue.close();
  consumer.join();
  EXPECT_EQ(sum, expected);
}

TEST(bare_lanes, errors_end_the_program) {
  muster::lanes<boxed> queue(64, {.producers = 1});
  auto lane = queue.producer();
  EXPECT_DEATH(static_cast<void>(queue.producer()), std::string("lanes: all 1 lanes are taken.*").append(ends));
}

TEST(bare_waiting, select_takes_from_both) {
  muster::spsc_queue<int> numbers(4);
  muster::mpmc_queue<std::string> words(4);
  numbers.push(1);
  words.push("one");
  numbers.close();
  words.close();
  int all = 0;
  while (auto item = muster::select(numbers, words)) all += item->index() == 0 ? 1 : 10;
  EXPECT_EQ(all, 11);
}

/// Keeps the submitted functions for the test to call.
struct by_hand {
  template <class F>
  void submit(F f) {
    submitted.emplace_back(f);
  }
  std::deque<std::function<void()>> submitted;
};
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

task add_up(muster::spsc_queue<boxed>& queue, by_hand& scheduler, int& sum) {
  while (auto item = co_await muster::async_pop(queue, scheduler)) sum += *item->at;
  sum += 1000;
}

TEST(bare_waiting, coroutines_wait) {
  muster::spsc_queue<boxed> queue(4);
  by_hand scheduler;
  int sum = 0;
  add_up(queue, scheduler, sum);
  for (int i = 1; i <= 3; ++i) queue.emplace(i);
  queue.close();
  while (!scheduler.submitted.empty()) {
    const auto first = std::move(scheduler.submitted.front());
    scheduler.submitted.pop_front();
    first();
  }
  EXPECT_EQ(sum, 1006);
}

TEST(bare_shared, passes_items_and_messages) {
  auto queue = muster::shared_queue<int, muster::shape::mpmc>::create_anonymous(16);
  {
    auto in = queue.producer();
    auto out = queue.consumer();
    ASSERT_EQ(in.push(42), muster::queue_status::success);
    EXPECT_EQ(out.pop().value(), 42);
  }
  EXPECT_DEATH((muster::shared_queue<int, muster::shape::mpmc>::open("/nonexistent/queue")),
               std::string("/nonexistent/queue.*").append(ends));
}

}  // namespace
