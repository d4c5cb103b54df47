// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Debug builds notice a second producer, or a second consumer, where there may be one, and say what to use instead.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <functional>
#include <thread>
#include <utility>

namespace {

/// An item that calls its hook once, when it is moved: in the middle of the operation that moves it.
class hooked {
 public:
  explicit hooked(std::function<void()>* hook = nullptr) : hook_(hook) {}
  hooked(hooked&& other) noexcept : hook_(nullptr) {
    if (std::function<void()>* const hook = std::exchange(other.hook_, nullptr)) (*hook)();
  }

 private:
  std::function<void()>* hook_;
};

template <class Queue>
void push_while_a_push_is_in_progress() {
  Queue q(4);
  std::function<void()> intrude = [&q] { std::thread([&q] { q.try_emplace(); }).join(); };
  q.push(hooked(&intrude));
}

template <class Queue>
void pop_while_a_pop_is_in_progress() {
  Queue q(4);
  std::function<void()> intrude = [&q] { std::thread([&q] { q.try_pop(); }).join(); };
  q.emplace(&intrude);
  q.emplace();
  q.pop();
}

TEST(queue_misuse_death_test, a_second_producer_is_noticed) {
  if (!muster::debug_checks) GTEST_SKIP() << "release builds do not look; run the preset debug";
  EXPECT_DEATH(push_while_a_push_is_in_progress<muster::spsc_queue<hooked>>(), "second thread pushes.*mpmc_queue");
  EXPECT_DEATH(push_while_a_push_is_in_progress<muster::spmc_queue<hooked>>(), "second thread pushes.*mpmc_queue");
}

TEST(queue_misuse_death_test, a_second_consumer_is_noticed) {
  if (!muster::debug_checks) GTEST_SKIP() << "release builds do not look; run the preset debug";
  EXPECT_DEATH(pop_while_a_pop_is_in_progress<muster::spsc_queue<hooked>>(), "second thread pops.*spmc_queue");
}

template <class Queue>
void pop_in_the_function_of_consume() {
  Queue q(4);
  q.push(1);
  q.push(2);
  q.consume([&q](int) { q.try_pop(); });
}

TEST(queue_misuse_death_test, a_pop_while_an_item_is_used_is_noticed) {
  if (!muster::debug_checks) GTEST_SKIP() << "release builds do not look; run the preset debug";
  EXPECT_DEATH(pop_in_the_function_of_consume<muster::spsc_queue<int>>(), "second thread pops.*spmc_queue");
}

TEST(queue_misuse_death_test, allowed_uses_are_not_reported) {
  pop_in_the_function_of_consume<muster::spmc_queue<int>>();
  pop_in_the_function_of_consume<muster::mpmc_queue<int>>();
  push_while_a_push_is_in_progress<muster::mpmc_queue<hooked>>();
  pop_while_a_pop_is_in_progress<muster::spmc_queue<hooked>>();
  pop_while_a_pop_is_in_progress<muster::mpmc_queue<hooked>>();
}

TEST(queue_misuse_death_test, a_broken_invariant_aborts_with_its_message) {
  EXPECT_DEATH(MUSTER_CHECK(1 + 1 == 3, "the sum is wrong"), "muster: the sum is wrong");
}

// The roles may be handed from thread to thread as long as they do not overlap.
TEST(queue_misuse_test, roles_may_move_between_threads) {
  muster::spsc_queue<int> q(4);
  for (int i = 0; i < 100; ++i) {
    std::thread([&] { EXPECT_EQ(q.push(i), muster::queue_status::success); }).join();
    std::thread([&] { EXPECT_EQ(*q.pop(), i); }).join();
  }
}

}  // namespace
