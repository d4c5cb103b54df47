// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Indices of workers, and objects of each worker: threads that are inside a pool at the same time have different
// indices; nothing that workers add to their elements is lost.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::per_worker;
using muster::pool;
using muster_test::scaled;

class workers_of_pools : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, workers_of_pools, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

// Each place is used by one thread at a time.
TEST_P(workers_of_pools, have_indices_of_their_own) {
  constexpr unsigned callers = 3;
  std::vector<std::atomic<int>> inside(GetParam().workers + callers);
  std::atomic<unsigned> wrong{0};
  const auto look = [&] {
    const std::optional<unsigned> index = workers_.worker_index();
    if (!index.has_value() || *index >= inside.size()) {
      ++wrong;
      return;
    }
    if (inside[*index].fetch_add(1) != 0) ++wrong;
    for (int i = 0; i < 20; ++i) muster::pause();
    inside[*index].fetch_sub(1);
  };
  const int many = static_cast<int>(scaled(500));
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < callers; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < many / 50; ++round) {
        workers_.run([&] { muster::parallel_for(0, 50, [&](int) { look(); }); });
        workers_.submit(look).get();
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0U);
  EXPECT_FALSE(workers_.worker_index().has_value());
  pool other({.workers = 1});
  workers_.run([&] {
    const auto index = workers_.worker_index();
    EXPECT_TRUE(index.has_value());
    EXPECT_FALSE(other.worker_index().has_value());
    other.run([&] { EXPECT_FALSE(workers_.worker_index().has_value()); });
    EXPECT_EQ(workers_.worker_index(), index);
  });
}

TEST_P(workers_of_pools, add_to_elements_of_their_own) {
  const int many = static_cast<int>(scaled(20'000));
  per_worker<long> sums(workers_);
  EXPECT_EQ(sums.combine(std::plus<>()), 0);
  long expected = 0;
  for (int round = 0; round < 3; ++round) {
    workers_.run([&] { muster::parallel_for(0, many, [&](int i) { sums.local() += i; }); });
    std::jthread([&] { workers_.run([&] { sums.local() += 1; }); }).join();
    muster::task_group group(workers_);
    for (int i = 0; i < 100; ++i) group.run([&] { sums.local() += 1; });
    group.wait();
    expected += static_cast<long>(many) * (many - 1) / 2 + 101;
    EXPECT_EQ(sums.combine(std::plus<>()), expected);
  }
  long sum = 0;
  sums.for_each([&](long each) { sum += each; });
  EXPECT_EQ(sum, expected);
  sums.clear();
  EXPECT_EQ(sums.combine(std::plus<>()), 0);
}

TEST_P(workers_of_pools, have_elements_of_any_type) {
  per_worker<std::string> texts(workers_, "x");
  EXPECT_EQ(texts.combine(std::plus<>()), "x");
  workers_.run([&] { texts.local() += "y"; });
  EXPECT_EQ(texts.combine(std::plus<>()), "xy");
  struct throws {
    throws() = default;
    throws(const throws&) { throw std::runtime_error("copied"); }
    throws(throws&&) noexcept {}
  };
  per_worker<throws> none(workers_);
  EXPECT_THROW(workers_.run([&] { none.local(); }), std::runtime_error);
  std::size_t elements = 0;
  none.for_each([&](throws&) { ++elements; });
  EXPECT_EQ(elements, 0U);
}

TEST_P(workers_of_pools, are_not_the_threads_outside) {
  per_worker<int> numbers(workers_);
  EXPECT_THROW(numbers.local(), std::logic_error);
  pool other({.workers = 1});
  EXPECT_THROW(other.run([&] { return numbers.local(); }), std::logic_error);
}

/// The threads that have called something, by their indices.
class callers {
 public:
  void operator()(unsigned index) {
    const std::lock_guard lock(lock_);
    threads_.push_back(std::this_thread::get_id());
    indices_.push_back(index);
  }
  [[nodiscard]] std::size_t many() const { return threads_.size(); }
  /// True if neither a thread nor an index is there twice.
  [[nodiscard]] bool are_different() const {
    return std::set(threads_.begin(), threads_.end()).size() == many() &&
           std::set(indices_.begin(), indices_.end()).size() == many();
  }
  [[nodiscard]] bool has(std::thread::id thread) const {
    return std::find(threads_.begin(), threads_.end(), thread) != threads_.end();
  }

 private:
  std::mutex lock_;
  std::vector<std::thread::id> threads_;
  std::vector<unsigned> indices_;
};

// Threads that look for work, threads that sleep, and the one that the first submission creates.
TEST_P(workers_of_pools, are_all_called_once) {
  for (std::size_t many = GetParam().workers; many <= GetParam().workers + 1U; ++many) {
    for (int round = 0; round < 30; ++round) {
      callers found;
      workers_.run_on_all([&](unsigned index) {
        EXPECT_EQ(workers_.worker_index(), index);
        muster::fork2([] {}, [] {});
        found(index);
      });
      EXPECT_EQ(found.many(), many);
      EXPECT_TRUE(found.are_different());
      EXPECT_TRUE(found.has(std::this_thread::get_id()));
      if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(round % 2 == 0 ? 1 : 4));
    }
    workers_.submit([] {}).get();
  }
  EXPECT_FALSE(workers_.worker_index().has_value());
}

TEST_P(workers_of_pools, are_called_by_several_threads_while_they_work) {
  std::atomic<unsigned> calls{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int round = 0; round < 20; ++round) {
          workers_.run([] { muster::parallel_for(0, 100, [](int) { muster::pause(); }); });
          workers_.run_on_all([&] { ++calls; });
        }
      });
  }
  EXPECT_EQ(calls, 60U * GetParam().workers);
}

// Each gets the call when it has ended what it executes.
TEST_P(workers_of_pools, are_called_when_they_have_ended_something) {
  std::atomic<bool> begun{false}, released{false};
  std::atomic<unsigned> early{0};
  std::thread::id busy;
  auto task = workers_.submit([&] {
    busy = std::this_thread::get_id();
    begun = true;
    while (!released) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  std::atomic<unsigned> calls{0};
  std::jthread caller([&] {
    workers_.run_on_all([&] {
      ++calls;
      if (!released && std::this_thread::get_id() == busy) ++early;
    });
  });
  while (calls < GetParam().workers) std::this_thread::yield();  // all others, and the caller
  released = true;
  caller.join();
  task.get();
  EXPECT_EQ(calls, GetParam().workers + 1U);
  EXPECT_EQ(early, 0U);
}

TEST_P(workers_of_pools, throw_what_one_of_them_throws_when_all_have_ended) {
  std::atomic<unsigned> calls{0};
  EXPECT_THROW(workers_.run_on_all([&](unsigned index) {
    ++calls;
    if (index == 0) throw std::runtime_error("the first");
  }),
               std::runtime_error);
  EXPECT_EQ(calls, GetParam().workers);
  workers_.run([&] { EXPECT_THROW(workers_.run_on_all([](unsigned) {}), std::logic_error); });
  per_worker<int> numbers(workers_);
  workers_.run_on_all([&] { numbers.local() = 1; });
  EXPECT_EQ(numbers.combine(std::plus<>()), static_cast<int>(GetParam().workers));
  muster::pool other({.workers = 1, .stack_bytes = muster_test::small_stack});
  const auto through_another = [&] {
    other.run([&] { EXPECT_THROW(workers_.run_on_all([](unsigned) {}), std::logic_error); });
  };
  workers_.run(through_another);
  workers_.submit(through_another).get();
  workers_.run([&] { muster::fiber(through_another).join(); });
}

// Substitutes that have retired are woken.
TEST(substitutes, are_called_as_well) {
  std::atomic<unsigned> threads{0};
  pool patient({.workers = 2, .substitutes = 3, .on_start = [&](unsigned) { ++threads; }});
  for (int round = 0; round < 10; ++round) {
    patient.run([] {
      muster::fork2([] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); },
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(6)); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // one thread is superfluous, and retires
    callers found;
    const unsigned before = threads;
    patient.run_on_all(std::ref(found));
    EXPECT_GE(found.many(), before + 1U);
    EXPECT_LE(found.many(), threads + 1U);
    EXPECT_TRUE(found.are_different());
  }
}

}  // namespace
