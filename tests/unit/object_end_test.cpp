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
#include <utility>
#include <vector>

#include "combine_kinds.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster::run_team;
using muster_test::scaled;

/// How one kind of object lives. use(object) returns whether it was the last use. (Of no type, so that what follows is
/// compiled once.)
struct life {
  void* (*make)();
  bool (*use)(void*);
  void (*destroy)(void*);
};
template <class Object, auto Make, auto Use>
constexpr life life_of{[]() -> void* { return Make(); },
                       [](void* object) { return Use(*static_cast<Object*>(object)); },
                       [](void* object) { delete static_cast<Object*>(object); }};

/// Objects that are made one after another, each for `users`; its last user destroys it.
class generations {
 public:
  generations(const life& how, unsigned users) : how_(how), users_(users) {}
  ~generations() { EXPECT_EQ(alive_.load(), 0) << "an object has not been destroyed"; }

  /// For one user. `pause` lets others run.
  void live_through(std::uint64_t rounds, const std::function<void()>& pause) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (arrived_.fetch_add(1) + 1 == round * users_) {
        alive_.fetch_add(1);
        now_.store(how_.make());
        made_.store(round);
      }
      while (made_.load() != round) pause();
      void* const mine = now_.load();
      if (known_.fetch_add(1) + 1 == round * users_) all_know_.store(round);
      while (all_know_.load() < round) pause();
      if (!how_.use(mine)) continue;
      how_.destroy(mine);
      alive_.fetch_sub(1);
    }
  }

 private:
  const life how_;
  const std::uint64_t users_;
  std::atomic<void*> now_{nullptr};
  std::atomic<std::uint64_t> arrived_{0}, made_{0}, known_{0}, all_know_{0};
  std::atomic<int> alive_{0};
};

void live_with_four_threads(const life& how, std::uint64_t rounds) {
  generations all(how, 4);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&] { all.live_through(rounds, [] { std::this_thread::yield(); }); });
}

void live_with_eight_fibers(const life& how, std::uint64_t rounds) {
  generations all(how, 8);
  run_team({.carriers = 2, .fibers = 4}, [&](unsigned, unsigned) {
    all.live_through(rounds, [] { muster::this_fiber::yield(), std::this_thread::yield(); });
  });
}

/// Each of four threads owns the object, uses it once and lets it go.
void expect_to_be_owned_by_its_users(std::shared_ptr<void> (*make)(), std::uint64_t (*use)(void*)) {
  for (std::size_t round = 0; round < scaled(200); ++round) {
    auto first = make();
    std::atomic<std::uint64_t> sum{0};
    std::vector<std::jthread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([mine = first, use, &sum]() mutable {
        sum.fetch_add(use(mine.get()));
        mine.reset();
      });
    first.reset();
    all.clear();
    ASSERT_EQ(sum.load(), 1U + 2 + 3 + 4);
  }
}

template <class Kind>
class combining_object : public ::testing::Test {};
TYPED_TEST_SUITE(combining_object, muster_test::combining_kinds, muster_test::kind_names);

/// The state is the number of users that have not left.
template <class Object, unsigned Users>
Object* made_for() {
  return new Object(combine_options{.threads = 16}, Users);
}
template <class Object>
bool leave(Object& from) {
  return from.apply([](std::uint64_t& users) noexcept { return --users; }) == 0;
}
template <class Object>
void expect_to_be_destroyed_by_its_last_user() {
  live_with_four_threads(life_of<Object, made_for<Object, 4>, leave<Object>>, scaled(600));
  live_with_eight_fibers(life_of<Object, made_for<Object, 8>, leave<Object>>, scaled(300));
}

TYPED_TEST(combining_object, may_be_destroyed_by_its_last_user) {
  expect_to_be_destroyed_by_its_last_user<typename TypeParam::template of<std::uint64_t>>();
}

TYPED_TEST(combining_object, may_be_owned_by_its_users) {
  using object = typename TypeParam::template of<std::uint64_t>;
  expect_to_be_owned_by_its_users(
      []() -> std::shared_ptr<void> { return std::make_shared<object>(); },
      [](void* o) { return static_cast<object*>(o)->apply([](std::uint64_t& n) { return ++n; }); });
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
  expect_to_be_destroyed_by_its_last_user<muster::psim<std::uint64_t>>();
}

// Another thread executes an announced operation while its owner executes it too, for a long time.
TEST(psim, does_not_end_while_a_thread_executes_operations_that_others_have_executed) {
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

// ---------------------------------------------------------------------------------------------------------- structures

using boxed = std::string;
boxed as_item(std::uint64_t n) { return std::string(40, 'x') + std::to_string(n); }

/// The thread that pops the last of its items destroys it.
template <class Structure, std::uint64_t Last>
void expect_to_be_destroyed_by_the_last_to_pop() {
  constexpr auto make = [] {
    auto made = std::make_unique<Structure>(combine_options{.threads = 16});
    for (std::uint64_t i = 0; i < 8; ++i) made->push(as_item(i));
    return made.release();
  };
  // Two each: the item that comes last may be the first of a thread's.
  constexpr auto pop_two = [](Structure& s) {
    const auto is_last = [&s] {
      const auto item = s.pop();
      EXPECT_TRUE(item.has_value());
      return item == as_item(Last);
    };
    return is_last() || is_last();
  };
  live_with_four_threads(life_of<Structure, make, pop_two>, scaled(500));
}

TEST(structures, may_be_destroyed_by_the_last_to_pop) {
  expect_to_be_destroyed_by_the_last_to_pop<muster::combining_queue<boxed>, 7>();
  expect_to_be_destroyed_by_the_last_to_pop<muster::psim_queue<boxed>, 7>();
  expect_to_be_destroyed_by_the_last_to_pop<muster::combining_stack<boxed>, 0>();
  expect_to_be_destroyed_by_the_last_to_pop<muster::psim_stack<boxed>, 0>();
}

/// Answers that the asking thread awaits in its own frame: ask() makes a queue, has push(queue) called by another
/// thread and pops.
class answers {
 public:
  struct question {
    void (*push)(void*);
    void* to;
  };
  void ask(const question& one) { asked_.push(&one); }

 private:
  muster::combining_queue<const question*> asked_;
  std::jthread answers_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto one = asked_.pop()) {
        const question now = **one;
        now.push(now.to);
      } else {
        std::this_thread::yield();
      }
    }
  }};
};

template <class Queue, auto Item>
void expect_to_be_destroyed_when_an_item_has_come(std::size_t rounds = scaled(200)) {
  answers others;
  for (std::size_t i = 0; i < rounds; ++i) {
    Queue answer(combine_options{.threads = 16});
    const answers::question one{[](void* to) { static_cast<Queue*>(to)->push(Item()); }, &answer};
    others.ask(one);
    std::optional<typename Queue::value_type> got;
    while (!(got = answer.pop())) std::this_thread::yield();
    ASSERT_EQ(*got, Item());
  }
}

/// An object whose operations take long to leave it when they have had their effect, but for those of its maker.
template <class State, class...>
class lingering {
 public:
  template <class... Args>
  explicit lingering(const combine_options& = {}, Args&&... args) : state_(std::forward<Args>(args)...) {}
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
  constexpr auto seven = [] { return number{7}; };
  constexpr auto boxed_seven = [] { return as_item(7); };
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number>, seven>();
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<boxed>, boxed_seven>();
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number, muster::flat_combining>, seven>();
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_queue<number, lingering>, seven>(30);
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_stack<number, lingering>, seven>(30);
  expect_to_be_destroyed_when_an_item_has_come<muster::combining_stack<number>, seven>();
  expect_to_be_destroyed_when_an_item_has_come<muster::psim_queue<number>, seven>();
  expect_to_be_destroyed_when_an_item_has_come<muster::psim_stack<number>, seven>();
}

// ----------------------------------------------------------------------------------------------------- posted requests

/// Threads that post and end, and an object that ends before they do, or after, or meanwhile.
TEST(posted_requests, do_not_destroy_their_object_when_the_thread_ends) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto* const object = new muster::osci<int>(combine_options{.detached = true});
        std::jthread([object] { object->post([object](int&) noexcept { delete object; }); }).join();
      },
      "destroyed by one of its own operations");
}

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
