// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Objects that end as soon as they may: the thread or the fiber whose operation is the last one destroys the object,
// while others are still on their way out of theirs.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "combine_kinds.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster::run_team;
using muster_test::scaled;

/// Objects that are made one after another, each for `users`: whoever uses it last destroys it.
template <class Object>
class generations {
 public:
  generations(unsigned users, std::function<Object*()> make) : users_(users), make_(std::move(make)) {}
  ~generations() { EXPECT_EQ(alive_.load(), 0) << "an object has not been destroyed"; }

  /// use(object) returns whether it was the last use. `pause` lets others run.
  template <class Use>
  void live_through(std::uint64_t rounds, Use use, const std::function<void()>& pause) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (arrived_.fetch_add(1) + 1 == round * users_) {
        alive_.fetch_add(1);
        now_.store(make_());
        made_.store(round);
      }
      while (made_.load() != round) pause();
      Object* const mine = now_.load();
      if (known_.fetch_add(1) + 1 == round * users_) all_know_.store(round);
      while (all_know_.load() < round) pause();
      if (!use(*mine)) continue;
      delete mine;
      alive_.fetch_sub(1);
    }
  }

 private:
  const std::uint64_t users_;
  const std::function<Object*()> make_;
  std::atomic<Object*> now_{nullptr};
  std::atomic<std::uint64_t> arrived_{0}, made_{0}, known_{0}, all_know_{0};
  std::atomic<int> alive_{0};
};

template <class Object, class Use>
void live_through_with_threads(generations<Object>& all, unsigned users, std::uint64_t rounds, Use use) {
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < users; ++i)
    threads.emplace_back([&] { all.live_through(rounds, use, [] { std::this_thread::yield(); }); });
}

template <class Object, class Use>
void live_through_with_fibers(generations<Object>& all, std::uint64_t rounds, Use use) {
  run_team({.carriers = 2, .fibers = 4}, [&](unsigned, unsigned) {
    all.live_through(rounds, use, [] { muster::this_fiber::yield(), std::this_thread::yield(); });
  });
}

template <class Kind>
class combining_object : public ::testing::Test {};
TYPED_TEST_SUITE(combining_object, muster_test::combining_kinds, muster_test::kind_names);

TYPED_TEST(combining_object, may_be_destroyed_by_its_last_user) {
  using object = typename TypeParam::template of<std::uint64_t>;
  const auto leave = [](object& o) { return o.apply([](std::uint64_t& users) { return --users; }) == 0; };
  generations<object> by_threads(4, [] { return new object(combine_options{}, 4U); });
  live_through_with_threads(by_threads, 4, scaled(600), leave);
  generations<object> by_fibers(8, [] { return new object(combine_options{}, 8U); });
  live_through_with_fibers(by_fibers, scaled(300), leave);
}

TYPED_TEST(combining_object, may_be_owned_by_those_who_use_it) {
  using object = typename TypeParam::template of<std::uint64_t>;
  for (std::size_t round = 0; round < scaled(200); ++round) {
    auto first = std::make_shared<object>();
    std::atomic<unsigned> sum{0};
    std::vector<std::jthread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([mine = first, &sum]() mutable {
        sum.fetch_add(static_cast<unsigned>(mine->apply([](std::uint64_t& n) { return ++n; })));
        mine.reset();
      });
    first.reset();
    all.clear();
    ASSERT_EQ(sum.load(), 1U + 2 + 3 + 4);
  }
}

TYPED_TEST(combining_object, is_not_destroyed_by_an_operation_of_its_own) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using object = typename TypeParam::template of<std::uint64_t>;
  EXPECT_DEATH(
      {
        auto one = std::make_unique<object>();
        one->apply([&](std::uint64_t&) { one.reset(); });
      },
      "destroyed by one of its own operations");
}

TEST(psim, may_be_destroyed_by_its_last_user) {
  using object = muster::psim<std::uint64_t>;
  const auto leave = [](object& o) { return o.apply([](std::uint64_t& users) noexcept { return --users; }) == 0; };
  generations<object> by_threads(4, [] { return new object(combine_options{.threads = 16}, 4U); });
  live_through_with_threads(by_threads, 4, scaled(600), leave);
  generations<object> by_fibers(8, [] { return new object(combine_options{.threads = 16}, 8U); });
  live_through_with_fibers(by_fibers, scaled(300), leave);
}

// What a thread has announced is executed by another while it executes it itself, for a long time.
TEST(psim, does_not_end_while_a_thread_executes_what_others_have_executed) {
  struct stop {
    std::atomic<std::thread::id> who;
    std::atomic<bool> inside{false}, go_on{false}, destroyed{false};
  } at;
  auto object = std::make_unique<muster::psim<std::uint64_t>>(combine_options{.threads = 8},
                                                              muster::psim_options{.alone_first = false}, 2U);
  std::jthread slow([&] {
    at.who = std::this_thread::get_id();
    object->apply([here = &at](std::uint64_t& users) noexcept {
      if (std::this_thread::get_id() == here->who.load() && !here->go_on.load()) {
        here->inside = true;
        here->inside.notify_all();
        here->go_on.wait(false);
      }
      --users;
    });
  });
  at.inside.wait(false);
  ASSERT_EQ(object->apply([](std::uint64_t& users) noexcept { return --users; }), 0U);
  std::jthread destroys([&] {
    object.reset();
    at.destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(at.destroyed.load());
  at.go_on = true;
  at.go_on.notify_all();
  destroys.join();
}

TEST(retry, may_be_destroyed_by_its_last_user) {
  using object = muster::retry<std::uint64_t>;
  const auto leave = [](object& o) { return o.apply([](std::uint64_t& users) { return --users; }) == 0; };
  generations<object> by_threads(4, [] { return new object(combine_options{}, 4U); });
  live_through_with_threads(by_threads, 4, scaled(600), leave);
}

// ---------------------------------------------------------------------------------------------------------- structures

using boxed = std::string;
boxed as_item(std::uint64_t n) { return std::string(40, 'x') + std::to_string(n); }

/// The thread that pops the last of its items destroys it.
template <class Structure>
void expect_to_be_destroyed_by_whoever_pops_last(std::uint64_t last) {
  const auto make = [] {
    auto made = std::make_unique<Structure>(combine_options{.threads = 16});
    for (std::uint64_t i = 0; i < 8; ++i) made->push(as_item(i));
    return made.release();
  };
  const auto leave = [last](Structure& s) {
    const auto item = s.pop();
    EXPECT_TRUE(item.has_value());
    return item == as_item(last);
  };
  generations<Structure> all(4, make);
  live_through_with_threads(all, 4, scaled(500), [&](Structure& s) {
    // Two each: the item that comes last may be the first of a thread's.
    return leave(s) || leave(s);
  });
}

TEST(structures, may_be_destroyed_by_whoever_pops_last) {
  expect_to_be_destroyed_by_whoever_pops_last<muster::combining_queue<boxed>>(7);
  expect_to_be_destroyed_by_whoever_pops_last<muster::psim_queue<boxed>>(7);
  expect_to_be_destroyed_by_whoever_pops_last<muster::combining_stack<boxed>>(0);
  expect_to_be_destroyed_by_whoever_pops_last<muster::psim_stack<boxed>>(0);
}

/// Answers that are waited for in the frame of whoever has asked.
template <class Queue, class T>
void expect_to_be_destroyed_when_an_item_has_come(const T& item, std::size_t rounds = scaled(200)) {
  muster::combining_queue<Queue*> asked;
  std::jthread answers([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto one = asked.pop()) {
        (*one)->push(item);
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    Queue answer(combine_options{.threads = 16});
    asked.push(&answer);
    std::optional<T> got;
    while (!(got = answer.pop())) std::this_thread::yield();
    ASSERT_EQ(*got, item);
  }
}

/// An object whose operations take long to leave it when they have had their effect, but for those of its maker.
template <class State, class...>
class lingering {
 public:
  explicit lingering(const combine_options& = {}) {}
  ~lingering() { EXPECT_EQ(inside_.load(), 0) << "destroyed while an operation is on its way out"; }
  template <class F>
  std::invoke_result_t<F&, State&> apply(F&& f) {
    const std::lock_guard lock(mutex_);
    inside_.fetch_add(1);
    const leaving last{inside_, std::this_thread::get_id() != maker_};
    return f(state_);
  }
  void check() const {}

 private:
  struct leaving {
    std::atomic<int>& inside;
    const bool late;
    ~leaving() {
      if (late) std::this_thread::sleep_for(std::chrono::microseconds(300));
      inside.fetch_sub(1);
    }
  };
  const std::thread::id maker_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::atomic<int> inside_{0};
  State state_;
};

TEST(structures, may_be_destroyed_as_soon_as_an_item_has_come) {
  using number = std::uint64_t;
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number>>(number{7});
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<boxed>>(as_item(7));
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number, muster::flat_combining>>(number{7});
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number, lingering>>(number{7}, 30);
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_stack<number, lingering>>(number{7}, 30);
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_stack<number>>(number{7});
  expect_to_be_destroyed_when_an_item_has_come<muster::psim_queue<number>>(number{7});
  expect_to_be_destroyed_when_an_item_has_come<muster::psim_stack<number>>(number{7});
}

// ----------------------------------------------------------------------------------------------------- posted requests

/// Threads that post and end, and an object that ends before they do, or after, or meanwhile.
TEST(posted_requests, are_executed_whether_the_thread_ends_first_or_the_object) {
  for (std::size_t round = 0; round < scaled(300); ++round) {
    std::atomic<unsigned> executed{0};
    auto object = std::make_unique<muster::osci<std::atomic<unsigned>*>>(combine_options{.detached = true}, &executed);
    std::atomic<unsigned> posted{0};
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < 4; ++i)
      all.emplace_back([&] {
        for (int n = 0; n < 3; ++n) object->post([](std::atomic<unsigned>* count) noexcept { count->fetch_add(1); });
        posted.fetch_add(1);
      });
    if (round % 2 == 0) all.clear();
    while (posted.load() != 4) std::this_thread::yield();
    object.reset();
    ASSERT_EQ(executed.load(), 12U);
  }
}

}  // namespace
