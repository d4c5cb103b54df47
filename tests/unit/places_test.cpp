// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations at unusual places, and users' code that throws at them: docs/contracts/places.md.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/muster.hpp>

#include "combine_kinds.hpp"
#include "message_of.hpp"
#include "scale.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::fiber;
using muster::queue_status;
namespace this_fiber = muster::this_fiber;

/// Something of each part, all of which needs others to run: a queue whose other end is a fiber, objects with two
/// users, a pool. Returns how much of it has gone right.
int everything() {
  int right = 0;
  muster::mpmc_queue<int> items(2);
  muster::spsc_queue<std::string> texts(2);
  muster::osci<int> sum;
  muster::cc_synch<int> other;
  muster::psim<std::uint64_t> wait_free;
  muster::combining_queue<int> unbounded;
  fiber producer([&] {
    for (int i = 0; i < 5; ++i) items.push(i);
    texts.push("the end");
    sum.apply([](int& s) { s += 2; });
  });
  sum.apply([](int& s) { s += 1; });
  for (int i = 0; i < 5; ++i) right += *items.pop() == i;
  right += *texts.pop() == "the end";
  producer.join();
  right += sum.apply([](int& s) { return s; }) == 3;
  std::jthread([&] { other.apply([](int& s) { s = 7; }); }).join();
  right += other.apply([](int& s) { return s; }) == 7;
  right += wait_free.apply([](std::uint64_t& s) noexcept { return ++s; }) == 1;
  unbounded.push(4);
  right += unbounded.pop() == 4;
  muster::pool pool({.workers = 2});
  const auto [a, b] = pool.run([] { return muster::fork2([] { return 3; }, [] { return 4; }); });
  right += a + b == 7;
  right += pool.submit([] { return 1; }).then([](int one) { return one + 1; }).get() == 2;
  std::atomic<int> tasks = 0;
  muster::task_group group(pool);
  group.run([&] { ++tasks; });
  group.wait();
  right += tasks == 1;
  muster::task_graph graph;
  graph.add([&] { ++tasks; });
  graph.run(pool);
  right += tasks == 2;
  muster::pipeline line(pool,
                        muster::serial([&] { return tasks == 5 ? std::optional<int>() : std::optional(++tasks); }),
                        muster::parallel([](int) {}));
  line.run();
  right += tasks == 5;
  return right;
}
constexpr int all_right = 15;

struct in_destructor {
  int& right;
  ~in_destructor() { right = everything(); }
};

TEST(places, while_an_exception_passes) {
  int right = 0;
  EXPECT_THROW(
      {
        const in_destructor here{right};
        throw std::runtime_error("passes");
      },
      std::runtime_error);
  EXPECT_EQ(right, all_right);
}

TEST(places, in_a_handler_of_exceptions) {
  int right = 0;
  try {
    throw std::runtime_error("handled");
  } catch (const std::runtime_error& e) {
    right = everything();
    EXPECT_STREQ(e.what(), "handled");
    EXPECT_THROW(
        try { throw; } catch (const std::runtime_error& same) {
          EXPECT_EQ(&same, &e);
          throw;
        },
        std::runtime_error);
  }
  EXPECT_EQ(right, all_right);
}

TEST(places, on_a_fiber_of_several) {
  std::array<int, 3> right{};
  std::vector<fiber> fibers;
  for (int& one : right) fibers.emplace_back([&one] { one = everything(); });
  fibers.clear();
  for (const int one : right) EXPECT_EQ(one, all_right);
}

TEST(places, within_an_operation) {
  muster::osci<int> object;
  muster::flat_combining<int> other;
  EXPECT_EQ(object.apply([](int&) { return everything(); }), all_right);
  EXPECT_EQ(other.apply([](int&) { return everything(); }), all_right);
}

/// Does something of each part when it is made, moved or destroyed.
class busy_item {
 public:
  explicit busy_item(int value) : value_(value) { done_ += everything(); }
  busy_item(busy_item&& other) noexcept : value_(std::exchange(other.value_, 0)) { done_ += everything(); }
  busy_item& operator=(busy_item&& other) noexcept {
    value_ = std::exchange(other.value_, 0);
    return *this;
  }
  ~busy_item() { done_ += everything(); }
  int value() const { return value_; }
  static int done() { return done_; }

 private:
  int value_;
  static inline int done_ = 0;
};

TEST(places, by_an_item_on_its_way) {
  const int before = busy_item::done();
  {
    muster::mpmc_queue<busy_item> queue(2);
    EXPECT_EQ(queue.emplace(3), queue_status::success);
    EXPECT_EQ(queue.pop()->value(), 3);
    muster::combining_queue<busy_item> unbounded;
    unbounded.emplace(4);
    EXPECT_EQ(unbounded.pop()->value(), 4);
  }
  const int done = busy_item::done() - before;
  EXPECT_GE(done, 4 * all_right);
  EXPECT_EQ(done % all_right, 0);
}

// Its only thread is the one that has called fork(2).
TEST(places, in_a_child_process) {
  muster::osci<int> before;
  muster::mpmc_queue<int> items(4);
  before.apply([](int& s) { s = 5; });
  items.push(6);
  std::jthread([&] { before.apply([](int& s) { ++s; }); }).join();  // a thread that has used it, and has ended
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool right =
        before.apply([](int& s) { return ++s; }) == 7 && items.try_pop().value() == 6 && everything() == all_right;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(before.apply([](int& s) { return s; }), 6);
}

// Threads of its parent take stacks all the time, and so may hold the mutex of their pool.
TEST(places, in_child_processes_of_many_threads) {
  muster::fiber([] { muster::osci<int>().apply([](int& s) { ++s; }); }).join();
  std::atomic<bool> stop{false};
  std::vector<std::jthread> busy;
  for (int i = 0; i < 2; ++i)
    busy.emplace_back([&] {
      while (!stop) muster::fiber([] {}).join();
    });
  unsigned hung = 0;
  for (int n = 0; n < 200 && hung == 0; ++n) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      muster::fiber([] {}).join();
      muster::osci<int> own;
      own.apply([](int& s) { ++s; });
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    hung += !WIFEXITED(status);
  }
  stop = true;
  EXPECT_EQ(hung, 0U);
}

/// A result whose n-th move throws.
class throwing_result {
 public:
  explicit throwing_result(int moves) : moves_(moves) {}
  throwing_result(throwing_result&& other) : moves_(other.moves_ - 1) {
    if (moves_ < 0) throw std::runtime_error("moved");
  }
  throwing_result& operator=(throwing_result&&) = delete;

 private:
  int moves_;
};

template <class Object>
void expect_effect_and_exception() {
  Object object;
  int thrown = 0, returned = 0;
  for (int moves = 0; moves < 4; ++moves) {
    try {
      static_cast<void>(object.apply([moves](int& s) {
        ++s;
        throwing_result made(moves);
        return throwing_result(std::move(made));
      }));
      ++returned;
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_GE(thrown, 1);
  EXPECT_EQ(thrown + returned, 4);
  EXPECT_EQ(object.apply([](int& s) { return s; }), 4);
  // The same for operations that cannot throw, which another fiber executes, or (most likely) another thread. Only the
  // owner moves the result.
  int moved = 0;
  const auto body = [&](unsigned i) {
    const bool throws = i % 2 == 0;
    const std::string message = muster_test::message_of([&] {
      static_cast<void>(object.apply([throws](int& s) noexcept {
        ++s;
        return throwing_result(throws ? 0 : 4);
      }));
    });
    EXPECT_EQ(message, throws && message != "nothing" ? "moved" : "nothing");
    return message == "moved";
  };
  muster_test::in_one_round(object, 6, [&](unsigned i) { moved += body(i); });
  EXPECT_EQ(moved, 3);
  muster_test::in_one_round_of_threads(object, 4, body);
  EXPECT_EQ(object.apply([](int& s) { return s; }), 14);
}

TEST(throwing, results_of_operations) {
  expect_effect_and_exception<muster::osci<int>>();
  expect_effect_and_exception<muster::osci_shared<int>>();
  expect_effect_and_exception<muster::cc_synch<int>>();
  expect_effect_and_exception<muster::flat_combining<int>>();
}

TEST(places_death, the_thread_of_another_does_not_end_in_an_operation) {
  if (muster_test::thread_sanitized) GTEST_SKIP() << "the sanitizer ends the program first";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  muster::cc_synch<int> object;
  EXPECT_DEATH(
      muster_test::in_one_round(object, 1, [&](unsigned) { object.apply([](int&) { ::pthread_exit(nullptr); }); }),
      "ended the thread that executed it for another");
}

TEST(throwing, results_of_forks) {
  muster::pool pool({.workers = 2});
  for (int moves = 0; moves < 6; ++moves) {
    int ended = 0;
    try {
      pool.run([&] {
        const auto both = muster::fork2([&] { return throwing_result(moves); }, [&] { return ++ended; });
        static_cast<void>(both);
      });
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "moved");
    }
    EXPECT_EQ(ended, 1);
  }
}

struct broken_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<broken_clock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() { throw std::runtime_error("no clock"); }
};

TEST(throwing, clocks) {
  muster::mpmc_queue<int> queue(2);
  muster::lanes<int> lanes(2, {.producers = 1});
  const broken_clock::time_point when{};
  EXPECT_THROW(queue.pop_until(when), std::runtime_error);
  EXPECT_THROW(lanes.pop_until(when), std::runtime_error);
  EXPECT_THROW(queue.push_until(1, when), std::runtime_error);
  EXPECT_EQ(queue.size_approx(), 0U);
  EXPECT_EQ(queue.push(2), queue_status::success);
  EXPECT_EQ(*queue.pop(), 2);
}

}  // namespace
