// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library used by threads that are about to end, from destructors that run before and after its own and from those
// of pthread keys; and by a process that is about to end, from atexit handlers, destructors of static objects, and by
// threads that are not joined.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>
#include <muster/queue.hpp>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "combine_kinds.hpp"
#include "scale.hpp"

namespace {

using work = std::function<void()>;

/// When a thread does its last work.
enum class moment { late, early, of_a_key, of_a_key_again };
constexpr std::array moments{moment::late, moment::early, moment::of_a_key, moment::of_a_key_again};

struct at_end {
  const work* last = nullptr;
  ~at_end() {
    if (last != nullptr) (*last)();
  }
};

struct key_of_this_test {
  pthread_key_t key{};
  explicit key_of_this_test(void (*destroy)(void*)) { EXPECT_EQ(::pthread_key_create(&key, destroy), 0); }
  ~key_of_this_test() { ::pthread_key_delete(key); }
  key_of_this_test(const key_of_this_test&) = delete;
  key_of_this_test& operator=(const key_of_this_test&) = delete;
};

/// Runs `first` on the calling thread, and `last` when it ends: from the destructor of a thread_local object that is
/// made before the library's own, so that it is destroyed after them; or after them; or from that of a key, in the
/// first round of those or in the second.
void work_and_end(moment when, const work& first, const work& last) {
  static const key_of_this_test once([](void* it) { (*static_cast<const work*>(it))(); });
  static const key_of_this_test twice(
      [](void* it) { ::pthread_setspecific(once.key, it); });  // so that it comes in the next round
  if (when == moment::late) {
    thread_local at_end here;
    here.last = &last;
    first();
  } else {
    first();
  }
  if (when == moment::early) {
    thread_local at_end here;
    here.last = &last;
  }
  if (when == moment::of_a_key) ::pthread_setspecific(once.key, &last);
  if (when == moment::of_a_key_again) ::pthread_setspecific(twice.key, &last);
}

/// All moments at once, each on `of_each` threads, while other threads come and go.
void work_and_end_at_all_moments(unsigned of_each, const work& first, const work& last) {
  std::vector<std::jthread> all;
  for (unsigned i = 0; i < of_each; ++i)
    for (const moment when : moments) all.emplace_back([&first, &last, when] { work_and_end(when, first, last); });
}

/// The number of the calling thread, which no other has meanwhile: the next that comes gets another.
unsigned number_of_its_own() {
  const unsigned mine = muster::sync::thread_index();
  unsigned next = mine;
  std::jthread([&next] { next = muster::sync::thread_index(); }).join();
  EXPECT_NE(mine, next) << "two threads that live have the same number";
  EXPECT_EQ(muster::sync::thread_index(), mine);
  return mine;
}

TEST(thread_numbers, are_never_those_of_two_threads) {
  const work use = [] { number_of_its_own(); };
  for (const moment when : moments) std::jthread([&] { work_and_end(when, use, use); }).join();
  work_and_end_at_all_moments(3, use, use);
}

TEST(thread_numbers, are_given_back_however_late_they_are_taken) {
  std::atomic<unsigned> most{0};
  const work use = [&most] { most.store(std::max(most.load(), number_of_its_own())); };
  const work nothing = [] {};
  for (int round = 0; round < 20; ++round)
    for (const moment when : moments) {
      std::jthread([&] { work_and_end(when, use, use); }).join();
      // The first that it does with the library. (When the first thread_local object of a thread is made in the
      // destructor of a key, the C library forgets it, and the leak is found.)
      if (muster_test::sanitized && when != moment::late && when != moment::early) continue;
      std::jthread([&] { work_and_end(when, nothing, use); }).join();
    }
  EXPECT_LT(most.load(), 8U) << "threads that have ended still have numbers";
}

TEST(thread_numbers, are_the_smallest_free_ones) {
  constexpr unsigned many = 3;
  std::array<unsigned, many> held{};
  {
    std::barrier all_have_one(many);
    std::vector<std::jthread> threads;
    for (unsigned& number : held)
      threads.emplace_back([&] {
        number = muster::sync::thread_index();
        all_have_one.arrive_and_wait();
      });
  }
  unsigned next = 0;
  std::jthread([&next] { next = muster::sync::thread_index(); }).join();
  EXPECT_EQ(next, *std::min_element(held.begin(), held.end()));
}

template <class Kind>
class thread_end : public ::testing::Test {};
TYPED_TEST_SUITE(thread_end, muster_test::combining_kinds, muster_test::kind_names);

TYPED_TEST(thread_end, may_apply) {
  typename TypeParam::template of<std::uint64_t> object;
  constexpr unsigned of_each = 2, times = 200;
  const work apply = [&] {
    for (unsigned i = 0; i < times; ++i)
      object.apply([](std::uint64_t& n) {
        const std::uint64_t before = n;
        if (before % 4 == 0) std::this_thread::yield();  // others announce theirs meanwhile
        return n = before + 1;
      });
  };
  const work beside_another = [&] {
    const std::jthread other(apply);
    apply();
  };
  work_and_end_at_all_moments(of_each, apply, beside_another);
  EXPECT_EQ(object.apply([](const std::uint64_t& n) { return n; }), 3 * times * of_each * moments.size());
}

TEST(thread_end_of_a_poster, loses_no_request) {
  muster::osci<std::uint64_t> object({.detached = true});
  const work post = [&] {
    for (int i = 0; i < 3; ++i) object.post([](std::uint64_t& n) noexcept { ++n; });
  };
  work_and_end_at_all_moments(2, post, post);
  EXPECT_EQ(object.apply([](const std::uint64_t& n) { return n; }), 2U * 3 * 2 * moments.size());
}

// A thread keeps a list of its objects, and drops destroyed ones from it: the first, the last, and some between.
TEST(thread_end_of_a_poster, loses_no_request_of_any_of_its_objects) {
  using object = muster::osci<std::uint64_t>;
  constexpr std::uint64_t objects = 64;
  for (std::uint64_t from = 0; from < 8; ++from) {
    std::vector<std::unique_ptr<object>> all(objects);
    std::thread([&] {
      const auto destroy = [&](std::uint64_t i) { all[i].reset(); };
      for (std::uint64_t i = 0; i < objects; ++i) {
        all[i] = std::make_unique<object>(muster::combine_options{.detached = true});
        all[i]->post([i](std::uint64_t& n) noexcept { n += i + 1; });
        if (i % 8 == from) destroy(i);                  // the newest
        if (i >= 20 && i % 3 == 0) destroy(i - 20);     // one that is old
        if (i == 7 + from) destroy(0), destroy(i - 1);  // the oldest, and the newest but one
      }
    }).join();
    for (std::uint64_t i = 0; i < objects; ++i) {
      if (all[i] != nullptr) {
        EXPECT_EQ(all[i]->apply([](const std::uint64_t& n) { return n; }), i + 1);
      }
    }
  }
}

/// Pushes and pops numbers that differ, from all destructors; nothing is lost, and nothing comes twice.
template <class Structure>
void expect_to_lose_nothing(Structure& structure) {
  std::atomic<std::uint32_t> next{0};
  std::mutex mutex;
  std::vector<std::uint32_t> popped;
  const work push_and_pop = [&] {
    for (int i = 0; i < 100; ++i) {
      structure.push(next.fetch_add(1));
      const auto item = structure.pop();
      const std::lock_guard lock(mutex);
      if (item) popped.push_back(*item);
    }
  };
  work_and_end_at_all_moments(2, push_and_pop, push_and_pop);
  while (const auto item = structure.pop()) popped.push_back(*item);
  std::sort(popped.begin(), popped.end());
  ASSERT_EQ(popped.size(), next.load());
  for (std::uint32_t i = 0; i < next.load(); ++i) ASSERT_EQ(popped[i], i);
}

TEST(structures, lose_nothing_to_threads_that_end) {
  muster::psim_queue<std::uint32_t> queue;
  expect_to_lose_nothing(queue);
  muster::psim_stack<std::uint32_t> stack;
  expect_to_lose_nothing(stack);
  muster::combining_queue<std::uint32_t> combining;
  expect_to_lose_nothing(combining);
}

TEST(psim, may_be_applied_by_a_thread_that_ends) {
  muster::psim<std::uint64_t> object;
  const work apply = [&] {
    for (int i = 0; i < 100; ++i) object.apply([](std::uint64_t& n) noexcept { return ++n; });
  };
  work_and_end_at_all_moments(2, apply, apply);
  EXPECT_EQ(object.apply([](const std::uint64_t& n) noexcept { return n; }), 2U * 100 * 2 * moments.size());
}

struct used_at_end {
  bool ended = false;
  ~used_at_end() { ended = true; }
};
bool has_ended() {
  thread_local used_at_end here;
  return *const_cast<volatile bool*>(&here.ended);
}

// The thread_local objects of a thread that executes its posted requests at its end have been destroyed.
TEST(posted_requests, of_a_thread_that_ends_are_not_followed_by_operations_that_others_wait_for) {
  muster::osci<int> object({.detached = true});
  struct {
    std::atomic<bool> executing{false};
    std::atomic<int> announced{0};
  } now;
  std::atomic<bool> ended{false};
  std::jthread ending([&] {
    object.apply([](int&) {});
    has_ended();  // made now, it is destroyed before the posted request is executed
    object.post([&now](int&) noexcept {
      now.executing.store(true);
      while (now.announced.load() != 3) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // most likely they have announced them
    });
  });
  while (!now.executing.load()) std::this_thread::yield();
  std::vector<std::jthread> all;
  for (int i = 0; i < 3; ++i)
    all.emplace_back([&, i] {
      if (i == 1) object.post([](int& n) noexcept { n += 10; });  // no thread waits for it
      if (i == 1) object.flush();
      now.announced.fetch_add(1);
      object.apply([&](int& n) {
        ++n;
        if (has_ended()) ended.store(true);
      });
    });
  all.clear();
  ending.join();
  EXPECT_FALSE(ended.load());
  EXPECT_EQ(object.apply([](int& n) { return n; }), 13);
}

TEST(lanes, lose_nothing_to_consumers_that_end) {
  constexpr std::uint32_t items = 4000;
  muster::lanes<std::uint32_t> queue(64, {.producers = 2, .threads = 32});
  std::vector<std::atomic<unsigned>> seen(items);
  std::jthread producer([&] {
    auto first = queue.producer(), second = queue.producer();
    for (std::uint32_t i = 0; i < items; ++i) (i % 2 == 0 ? first : second).push(i);
    queue.close();
  });
  const work some = [&] {
    for (int i = 0; i < 50; ++i)
      if (const auto item = queue.try_pop()) seen[*item].fetch_add(1);
  };
  const work all = [&] {
    while (const auto item = queue.pop()) seen[*item].fetch_add(1);
  };
  work_and_end_at_all_moments(1, some, all);
  for (const auto& times : seen) ASSERT_EQ(times.load(), 1U);
}

TEST(fibers, may_be_made_by_a_thread_that_ends) {
  std::atomic<unsigned> turns{0};
  const work fibers = [&] {
    muster::fiber one([&] { muster::this_fiber::yield(), turns.fetch_add(1); });
    muster::fiber other([&] { muster::this_fiber::yield(), turns.fetch_add(1); });
    one.join(), other.join();
  };
  work_and_end_at_all_moments(1, fibers, fibers);
  EXPECT_EQ(turns.load(), 4 * moments.size());
}

// ---------------------------------------------------------------------------------------------- the end of a process

muster::osci<int>& counted_at_exit() {
  static auto* const one = new muster::osci<int>;
  return *one;
}
void count_at_exit() {
  counted_at_exit().apply([](int& n) { ++n; });
  muster::mpmc_queue<int> queue(4);
  queue.push(1);
  if (!queue.pop()) std::_Exit(3);
}
struct counts_at_exit {
  ~counts_at_exit() { count_at_exit(); }
};
[[noreturn]] void end_while_it_is_used() {
  std::atexit([] {  // the last of all
    count_at_exit();
    std::_Exit(counted_at_exit().apply([](int& n) { return n; }) == 4 ? 0 : 4);
  });
  static const counts_at_exit one;
  thread_local const counts_at_exit before;
  static_cast<void>(&before);
  count_at_exit();
  std::exit(5);
}
[[noreturn]] void end_beside_threads_that_go_on() {
  for (int i = 0; i < 3; ++i)
    std::thread([] {
      for (;;) counted_at_exit().apply([](int& n) { ++n; });
    }).detach();
  while (counted_at_exit().apply([](int& n) { return n; }) < 1000) std::this_thread::yield();
  std::exit(0);
}

TEST(process_end, may_use_the_library_to_the_last_death) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_while_it_is_used(), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(end_beside_threads_that_go_on(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
