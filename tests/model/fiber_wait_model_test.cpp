// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Waiting fibers under the checker: small programs in which a thread sleeps for several of its fibers at once. A thread
// that sleeps after the event that it waits for is a deadlock, which the checker reports.
#include <gtest/gtest.h>
#include <muster/combine/osci.hpp>
#include <muster/combine/osci_shared.hpp>
#include <muster/fiber.hpp>
#include <muster/queue.hpp>

#include "small_waits.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
using muster::eventcount;
using muster::fiber;
namespace sync = muster::sync;
constexpr auto relaxed = std::memory_order_relaxed;

/// An event that happens once, and its waiters.
class event {
 public:
  event(eventcount& mask, std::uint32_t key) : mask_(mask), key_(key) {}

  void happens() {
    what_.write_ref() = 7;
    happened_.store(1, std::memory_order_release);
    if (mask_.waiters_after_event(eventcount::bit(key_)) != 0) mask_.wake(key_);
  }
  void await() {
    mm::require(mask_.await<hasty>(
                    key_, [this] { return happened_.load(relaxed) == 1; }, muster::no_deadline),
                "a wait without a limit has come to it");
    mm::require(happened_.load(std::memory_order_acquire) == 1 && what_.read_ref() == 7, "a wait has ended too early");
  }
  /// Returns true if it happened in time.
  bool await_for_a_while() {
    return mask_.await<hasty>(
        key_, [this] { return happened_.load(relaxed) == 1; }, muster::deadline_clock::now() + std::chrono::hours(1));
  }

 private:
  eventcount& mask_;
  const std::uint32_t key_;
  sync::atomic<unsigned> happened_{0};
  sync::cell<unsigned> what_{0U};
};

/// Tokens, each of which one waiter takes: their maker wakes one.
class tokens {
 public:
  explicit tokens(eventcount& mask) : mask_(mask) {}
  void give() {
    left_.fetch_add(1, std::memory_order_release);
    if (mask_.waiters_after_event(eventcount::bit(0)) != 0) mask_.wake_one(0);
  }
  void take() {
    for (;;) {
      unsigned left = left_.load(relaxed);
      if (left != 0 && left_.compare_exchange_strong(left, left - 1, std::memory_order_acquire, relaxed)) return;
      if (left == 0) mask_.await<hasty>(0, [this] { return left_.load(relaxed) != 0; }, muster::no_deadline);
    }
  }

 private:
  eventcount& mask_;
  sync::atomic<unsigned> left_{0};
};

void two_words() {
  eventcount first, second;
  event a(first, 0), b(second, 0);
  mm::parallel([&] { fiber one([&] { a.await(); }), two([&] { b.await(); }); }, [&] { a.happens(); },
               [&] { b.happens(); });
}

void two_keys() {
  eventcount mask;
  event a(mask, 0), b(mask, 1);
  mm::parallel([&] { fiber one([&] { a.await(); }), two([&] { b.await(); }); }, [&] { a.happens(), b.happens(); });
}

void a_fiber_and_a_thread() {
  eventcount mask;
  event a(mask, 0), b(mask, 1);
  mm::parallel(
      [&] {
        fiber one([&] { a.await(); });
        b.await();
      },
      [&] { a.await(); }, [&] { b.happens(), a.happens(); });
}

void one_wakes_the_other() {
  eventcount mask, another;
  event a(mask, 0), b(another, 0);
  mm::parallel([&] { fiber one([&] { a.await(), b.happens(); }), two([&] { b.await(); }); }, [&] { a.happens(); });
}

void a_waiter_that_is_late() {
  eventcount mask, another;
  event a(mask, 0), b(another, 0);
  mm::parallel(
      [&] {
        fiber one([&] {
          if (!a.await_for_a_while()) a.await();
        });
        fiber two([&] { b.await(); });
      },
      [&] { a.happens(), b.happens(); });
}

// The wake of one sleeper must not be lost in a thread that sleeps for another key of the same mask.
void one_is_woken() {
  eventcount mask, another;
  tokens all(mask);
  event a(mask, 1), b(another, 0);
  mm::parallel([&] { fiber one([&] { a.await(); }), two([&] { b.await(); }); }, [&] { all.take(); },
               [&] { all.give(), a.happens(), b.happens(); });
}

void two_take_tokens() {
  eventcount mask;
  tokens all(mask);
  mm::parallel([&] { fiber one([&] { all.take(); }), two([&] { all.take(); }); }, [&] { all.take(); },
               [&] { all.give(), all.give(), all.give(); });
}

// A fiber ends while all the others wait.
void the_end_of_a_fiber() {
  eventcount mask, another;
  event a(mask, 0), b(another, 0);
  mm::parallel([&] { fiber one([&] { a.await(); }), two([&] { b.await(); }), three([] {}); }, [&] { a.happens(); },
               [&] { b.happens(); });
}

const muster::queue_options options{.threads = 3, .cells = 0, .first_rank = 0};

template <class Queue>
int popped(Queue& from) {
  const auto item = from.pop();
  return item ? *item : -1;
}

template <class Queue>
void items_and_the_end() {
  Queue items(2, options), more(2, options);
  mm::parallel(
      [&] {
        fiber one([&] {
          mm::require(popped(items) == 1, "another item");
          mm::require(items.pop().status() == muster::queue_status::closed, "not closed");
        });
        fiber two([&] { mm::require(popped(more) == 2, "another item"); });
      },
      [&] { more.push(2), items.push(1), items.close(); });
}

template <class Queue>
void room() {
  Queue items(1, options);
  sync::atomic<int> sum{0};
  const auto take = [&] { sum.fetch_add(popped(items), relaxed); };
  mm::parallel(
      [&] {
        fiber one([&] { items.push(1), items.push(2), items.push(4); });
        fiber two(take);
      },
      [&] { take(), take(); });
  mm::require(sum.load(relaxed) == 7, "another item");
}

void of_lanes() {
  lanes items(2, {.producers = 2, .threads = 4, .cells = 0, .first_rank = 0});
  auto first = items.producer(), second = items.producer();
  mm::parallel(
      [&] {
        const auto take = [&] {
          mm::require(items.consumer().pop().status() == muster::queue_status::success, "no item");
        };
        fiber one(take), two(take);
      },
      [&] { first.push(1); }, [&] { second.push(2); });
}

// Both fibers' requests travel together, and both see that the role is theirs.
template <template <class, class> class Object>
void one_role_for_two_fibers() {
  Object<int, hasty> object(muster::combine_options{.threads = 4});
  const auto add = [&object](int n) { object.apply([n](int& s) { s += n; }); };
  mm::parallel([&] { fiber one([&] { add(1); }), two([&] { add(2); }); }, [&] { add(4); });
  mm::require(object.apply([](int& s) { return s; }) == 7, "an addition is lost");
}

// One of them is alone in the ring when it begins again, while the other still waits.
template <template <class, class> class Object>
void one_runs_while_the_other_waits() {
  Object<int, hasty> object(muster::combine_options{.threads = 4});
  const auto add = [&object](int n) { return object.apply([n](int& s) { return s += n; }); };
  mm::parallel(
      [&] {
        fiber one([&] {
          const int before = add(1);
          mm::require(add(2) >= before + 2, "a result of before");
        });
        fiber two([&] {
          const int before = add(4);
          mm::require(add(8) >= before + 8, "a result of before");
        });
      },
      [&] { add(16), add(32); });
  mm::require(object.apply([](int& s) { return s; }) == 63, "an addition is lost");
}

const waiting_program table[] = {
    {"two_words", two_words, {1, 1}},
    {"two_keys", two_keys, {2, 1}},
    {"a_fiber_and_a_thread", a_fiber_and_a_thread, {1, 1}},
    {"one_wakes_the_other", one_wakes_the_other, {2, 2}},
    {"a_waiter_that_is_late", a_waiter_that_is_late, {2, 1}},
    {"one_is_woken", one_is_woken, {1, 1}},
    {"two_take_tokens", two_take_tokens, {1, 1}},
    {"the_end_of_a_fiber", the_end_of_a_fiber, {1, 1}},
    {"items_and_the_end_of_spsc", items_and_the_end<spsc>, {2, 1}},
    {"items_and_the_end_of_mpmc", items_and_the_end<mpmc>, {1, 1}},
    {"room_of_mpmc", room<mpmc>, {1, 1}},
    {"of_lanes", of_lanes, {1, 1}},
    {"one_role_for_two_fibers_of_osci", one_role_for_two_fibers<muster::osci>, {2, 1}},
    {"one_runs_while_the_other_waits_for_osci", one_runs_while_the_other_waits<muster::osci>, {1, 0}},
    {"one_runs_while_the_other_waits_for_osci_shared", one_runs_while_the_other_waits<muster::osci_shared>, {1, 0}},
    {"one_role_for_two_fibers_of_osci_shared", one_role_for_two_fibers<muster::osci_shared>, {1, 1}},
};

class fiber_wait_model : public ::testing::TestWithParam<waiting_program> {
 protected:
  void SetUp() override { prepare_fibers(); }
};

TEST_P(fiber_wait_model, wakes_every_waiter) { expect_right_with_any_fences(GetParam(), 20'000); }

INSTANTIATE_TEST_SUITE_P(programs, fiber_wait_model, ::testing::ValuesIn(table),
                         [](const auto& at) { return std::string(at.param.name); });

// Of the thread that sleeps for its fibers; those of waking are changed with the queues'.
TEST(fiber_wait_mutants, are_noticed_or_explained) {
  prepare_fibers();
  mutant_search search;
  add_with_any_fences(search, table);
  search.files = {"detail/carrier", "detail/wait_any"};
  search.prefix = "";
  search.run();
}

}  // namespace
