// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// select() under the checker: small programs in which a thread or fiber sleeps for several queues at once. One that
// sleeps after the event that it waits for is a deadlock, which the checker reports.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/queue.hpp>
#include <muster/queue/select.hpp>

#include "small_waits.hpp"

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <variant>

namespace {

using namespace muster_model_test;
using muster::fiber;
using muster::queue_status;
namespace sync = muster::sync;
constexpr auto relaxed = std::memory_order_relaxed;

/// The item, or a negative number.
template <class Result>
int item_of(const Result& found) {
  return found ? std::visit([](int item) { return item; }, *found) : -static_cast<int>(found.status());
}
template <class Queue>
int popped(Queue& from) {
  const auto item = from.pop();
  return item ? *item : -static_cast<int>(item.status());
}
constexpr int end = -static_cast<int>(queue_status::closed);

// An item in each.
template <class A, class B>
void one_of_each() {
  made<A> a;
  made<B> b;
  mm::parallel(
      [&] {
        const int sum = item_of(muster::select(a, b)) + item_of(muster::select(a, b));
        mm::require(sum == 3, "another item");
      },
      [&] { a.push(1); }, [&] { b.push(2); });
}

// One of them closes while select sleeps, and the other has an item later.
template <class A, class B>
void one_closes() {
  made<A> a;
  made<B> b;
  mm::parallel(
      [&] {
        mm::require(item_of(muster::select(a, b)) == 2, "another item");
        mm::require(item_of(muster::select(a, b)) == end, "not the end");
      },
      [&] { a.close(), b.push(2), b.close(); });
}

// Both close, on different threads.
template <class A, class B>
void both_close() {
  made<A> a;
  made<B> b;
  mm::parallel([&] { mm::require(item_of(muster::select(a, b)) == end, "not the end"); }, [&] { a.close(); },
               [&] { b.close(); });
}

// Both have an item when select wakes. The lane, which has been empty, must have its mark again.
void an_item_beside_lanes() {
  made<spsc> a;
  lanes b(2, {.producers = 1, .threads = 3, .cells = 0, .first_rank = 0});
  auto producer = b.producer();
  producer.push(7), popped(b);
  mm::parallel([&] { mm::require(item_of(muster::select(a, b)) > 0, "no item"); }, [&] { producer.push(1); },
               [&] { a.push(2); });
  b.check();
}

// The time is up as the item arrives: then the item is taken now or by the next select.
template <class A, class B>
void time_is_up() {
  made<A> a;
  made<B> b;
  mm::parallel(
      [&] {
        int item = item_of(muster::select_for(std::chrono::hours(1), a, b));
        if (item < 0) item = item_of(muster::select(a, b));
        mm::require(item == 2, "another item");
      },
      [&] { b.push(2); });
}

// Two threads take from the same queues, and a third one, which claims first and then waits, from one of them.
template <class A, class B>
void two_select() {
  made<A> a;
  made<B> b;
  sync::atomic<int> sum{0};
  const auto take = [&] { sum.fetch_add(item_of(muster::select(a, b)), relaxed); };
  mm::parallel(take, take, [&] { a.push(1), b.push(2); });
  mm::require(sum.load(relaxed) == 3, "another item");
}
template <class A, class B>
void beside_a_claim() {
  made<A> a;
  made<B> b;
  sync::atomic<int> sum{0};
  mm::parallel([&] { sum.fetch_add(item_of(muster::select(a, b)), relaxed); },
               [&] { sum.fetch_add(popped(a), relaxed); }, [&] { a.push(1), a.push(2); });
  mm::require(sum.load(relaxed) == 3, "another item");
}

// A select that is woken for the item of the lanes may leave with that of the other queue: then their consumer must be
// woken.
void beside_a_consumer_of_lanes() {
  lanes a(2, {.producers = 2, .threads = 3, .cells = 0, .first_rank = 0});
  made<spsc> b;
  auto first = a.producer(), second = a.producer();
  mm::parallel(
      [&] {
        if (item_of(muster::select(a, b)) == 1) second.push(1);
      },
      [&] { mm::require(popped(a) == 1, "another item"); }, [&] { first.push(1), b.push(2); });
}

// A fiber selects, its sibling pops from a queue of its own, and a thread pushes.
template <class A, class B>
void on_a_fiber() {
  made<A> a;
  made<B> b;
  made<spsc> c;
  mm::parallel(
      [&] {
        fiber one([&] { mm::require(item_of(muster::select(a, b)) == 2, "another item"); });
        fiber two([&] { mm::require(popped(c) == 4, "another item"); });
      },
      [&] { c.push(4), b.push(2); });
}

// The sibling makes the event.
template <class A, class B>
void of_a_sibling() {
  made<A> a;
  made<B> b;
  made<spsc> c;
  mm::parallel(
      [&] {
        fiber one([&] { mm::require(item_of(muster::select(a, b)) == 2, "another item"); });
        fiber two([&] { b.push(popped(c) + 1); });
      },
      [&] { c.push(1); });
}

template <class A, class B>
void on_a_fiber_and_a_thread() {
  made<A> a;
  made<B> b;
  sync::atomic<int> sum{0};
  const auto take = [&] { sum.fetch_add(item_of(muster::select(a, b)), relaxed); };
  mm::parallel([&] { fiber one(take), two(take); }, take, [&] { a.push(1), b.push(2), a.push(4); });
  mm::require(sum.load(relaxed) == 7, "another item");
}

template <class A, class B>
void stopped() {
  made<A> a;
  made<B> b;
  std::stop_source stop;
  mm::parallel(
      [&] {
        const int found = item_of(muster::select(stop.get_token(), a, b));
        mm::require(found == 2 || found == -static_cast<int>(queue_status::empty) ||
                        found == -static_cast<int>(queue_status::busy),
                    "another answer");
        mm::require(found == 2 || item_of(muster::select(a, b)) == 2, "another item");
      },
      [&] { stop.request_stop(), b.push(2); });
}

const waiting_program table[] = {
    {"one_of_each_of_spsc_and_mpmc", one_of_each<spsc, mpmc>, {1, 1}},
    {"one_of_each_of_spmc_and_spsc", one_of_each<spmc, spsc>, {1, 1}},
    {"one_closes_of_spsc_and_mpmc", one_closes<spsc, mpmc>, {1, 1}},
    {"one_closes_of_mpmc_and_spmc", one_closes<mpmc, spmc>, {1, 1}},
    {"both_close_of_spsc_and_spmc", both_close<spsc, spmc>, {1, 1}},
    {"both_close_of_mpmc_and_spsc", both_close<mpmc, spsc>, {1, 1}},
    {"an_item_beside_lanes", an_item_beside_lanes, {2, 1}},
    {"time_is_up_of_spsc_and_mpmc", time_is_up<spsc, mpmc>, {2, 1}},
    {"time_is_up_of_mpmc_and_spmc", time_is_up<mpmc, spmc>, {2, 1}},
    {"two_select_of_spmc_and_mpmc", two_select<spmc, mpmc>, {1, 0}},
    {"beside_a_claim_of_spmc", beside_a_claim<spmc, spsc>, {1, 1}},
    {"beside_a_claim_of_mpmc", beside_a_claim<mpmc, spsc>, {1, 0}},
    {"beside_a_consumer_of_lanes", beside_a_consumer_of_lanes, {1, 0}},
    {"on_a_fiber_of_spsc_and_mpmc", on_a_fiber<spsc, mpmc>, {1, 1}},
    {"of_a_sibling_of_spsc_and_mpmc", of_a_sibling<spmc, mpmc>, {1, 1}},
    {"on_a_fiber_and_a_thread_of_mpmc_and_spmc", on_a_fiber_and_a_thread<mpmc, spmc>, {1, 0}},
    {"stopped_of_spsc_and_mpmc", stopped<spsc, mpmc>, {1, 1}},
};

class select_model : public ::testing::TestWithParam<waiting_program> {
 protected:
  void SetUp() override { prepare_fibers(); }
};

TEST_P(select_model, wakes_every_waiter) { expect_right_with_any_fences(GetParam(), 4'000); }

INSTANTIATE_TEST_SUITE_P(programs, select_model, ::testing::ValuesIn(table),
                         [](const auto& at) { return std::string(at.param.name); });

// Of the sleep for several words; those of waking are changed with the queues'.
TEST(select_mutants, are_noticed_or_explained) {
  prepare_fibers();
  mutant_search search;
  add_with_any_fences(search, table);
  search.files = {"detail/wait_any", "queue/select"};
  search.prefix = "";
  search.run();
}

}  // namespace
