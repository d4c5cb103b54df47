// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Valid but unusual types: their unary & and comma are deleted, functions of their namespace have the names of the
// library's own and take anything, they can be neither copied nor assigned, callables are members or final. And macros
// with names that are common in other libraries' headers. Every public template of the library is compiled with them
// and must work as with other types.
#include <gtest/gtest.h>
#include <sys/sysmacros.h>  // major, minor

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

// <complex.h> in GNU mode; X11, Qt and windows.h.
#define I (__extension__ 1.0iF)
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Complex 0
#define signals public
#define slots
#define emit
#define foreach for
#define near
#define far
#define small char
#define interface struct
#define ERROR 0
#define IN
#define OUT
#define OPTIONAL

#include <muster/muster.hpp>
#include <muster/queue/shared.hpp>
#include <muster/queue/shared_bytes.hpp>

#undef I
#undef small
#undef near
#undef far

namespace hostile {

// Code that calls one of these by its bare name gets it, and does not compile.
#define MUSTER_TEST_TAKES_ANYTHING(name) \
  template <class... T>                  \
  void name(T&&...) = delete;
// clang-format off
#define MUSTER_TEST_EACH(X) \
  X(argument_of) X(at_thread_end) X(attempt_until) X(before) X(call_as) X(call_first_in_frame) X(call_branch) \
  X(can_be_forked) X(capture_exception) X(deadline_after) X(describe) X(exception_passes) X(finish) X(finish_fork) \
  X(finish_frame) X(ran_without_pool) X(fork2) X(fork_anywhere) X(fork_call) X(fork_each) X(fork_in_frame) \
  X(fork_of_thread) X(fork_on) X(fork_outside) X(fork_without_frame) X(from_word) X(store_back) X(has_passed) \
  X(innermost) X(is_without_pool) X(join_thief) X(pin_shared_object) X(cache_part) X(cached_part) X(lay_out) \
  X(may_throw) X(new_context) X(node_of) X(number_of) X(on_shared_pool) X(on_some_worker) X(order_for_both) X(own) \
  X(parallel_exclusive_scan) X(parallel_for) X(parallel_invoke) X(parallel_reduce) X(parallel_scan) X(parallel_sort) \
  X(parallel_all_of) X(parallel_any_of) X(parallel_copy_if) X(parallel_find_if) X(parallel_for_each) \
  X(parallel_histogram) X(parallel_max_element) X(parallel_min_element) X(parallel_minmax_element) \
  X(parallel_none_of) X(parallel_partition) X(parallel_transform) X(parallel_transform_reduce) X(parallel_unique) \
  X(parallel_stable_sort) X(parallel_merge) X(insertion_sort) X(stable_sort_places) X(as_counter) X(best_of) \
  X(can_be_divided) X(can_be_written) X(end_of) X(first_match) X(is_predicate) X(is_relation) X(order_of) \
  X(run_parts) X(search_for) X(find_if) X(partition) X(iter_move) X(iter_swap) X(pause) X(prefetch_for_write) \
  X(fork_on_watermark) X(read_start) X(reduce_blocks) X(reduce_fixed) X(run_requests) X(run_team) X(scan_all) \
  X(switch_context) X(take) X(take_to) X(text_of) X(to_word) X(turn) X(turns_after) X(turns_between) \
  X(turns_until_request) X(vacate) X(value_in) X(word_of) X(as_word) X(as_words) X(yield) X(addressof) \
  X(construct_at) X(destroy_at) X(invoke) X(move) X(forward) X(exchange) X(min) X(max) X(begin) X(end) X(distance) \
  X(next) X(advance_a_run) X(by_runs) X(use_in_place) X(use) X(to_address)
// clang-format on
MUSTER_TEST_EACH(MUSTER_TEST_TAKES_ANYTHING)

/// Can be moved, and nothing else.
class item {
 public:
  explicit item(int value) noexcept : value_(value) {}
  item(item&& from) noexcept : value_(from.value_) { from.value_ = -1; }
  item(const item&) = delete;
  item& operator=(item&&) = delete;
  ~item() = default;
  void operator&() const = delete;
  template <class T>
  void operator,(const T&) const = delete;
  int value() const noexcept { return value_; }
  explicit operator bool() const = delete;

 private:
  int value_;
};

/// For loops and sorts, whose elements must be assignable.
struct element {
  int value = 0;
  int turns = 0;
  element() = default;
  explicit element(int v) : value(v) {}
  element(element&& from) noexcept : value(from.value), turns(from.turns) { EXPECT_NE(&from.value, &value); }
  element& operator=(element&& from) noexcept {
    EXPECT_NE(&from.value, &value) << "moved to itself";
    value = from.value;
    turns = from.turns;
    return *this;
  }
  element(const element&) = delete;
  element& operator=(const element&) = delete;
  void operator&() const = delete;
  template <class T>
  void operator,(const T&) const = delete;
  void take_turn() { ++turns; }
  int get() const { return value; }
  bool comes_before(const element& other) const { return value < other.value; }
};
template <class T>
void operator,(T&&, const element&) = delete;

struct final_adder final {
  int operator()(int a, int b) const { return a + b; }
};

struct state {
  int value = 0;
  void operator&() const = delete;
  item add(int n) { return item(value += n); }
};

/// An item that is copied, and a range of three.
struct made {
  int number;
  void operator&() const = delete;
};
struct made_of_numbers {
  std::array<made, 3> all{made{1}, made{2}, made{3}};
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
  void operator&() const = delete;
};

/// A range, and an allocator.
class items : public std::list<item> {
 public:
  void operator&() const = delete;
};
template <class T>
struct heap {
  using value_type = T;
  heap() = default;
  template <class U>
  heap(const heap<U>&) {}
  T* allocate(std::size_t n) { return std::allocator<T>().allocate(n); }
  void deallocate(T* first, std::size_t n) { std::allocator<T>().deallocate(first, n); }
  bool operator==(const heap&) const = default;
  void operator&() const = delete;
  template <class U>
  void operator,(const U&) const = delete;
};

}  // namespace hostile

namespace {

using hostile::element;
using hostile::item;

template <class Queue>
void expect_items_pass(Queue& queue) {
  for (int i = 0; i < 3; ++i) queue.push(item(i));
  EXPECT_EQ((*queue.pop()).value(), 0);
  auto second = queue.try_pop();
  EXPECT_EQ(second->value(), 1);
  EXPECT_EQ(queue.pop_for(std::chrono::seconds(1))->value(), 2);
  queue.emplace(3);
  queue.consume([](item& one) { EXPECT_EQ(one.value(), 3); });
  hostile::items in;
  in.emplace_back(4);
  in.emplace_back(5);
  EXPECT_EQ(queue.push_range(std::move_iterator(in.begin()), std::move_iterator(in.end())), 2U);
  hostile::items out;
  EXPECT_EQ(queue.pop_into(std::back_inserter(out), 1), 1U);
  EXPECT_EQ(queue.try_pop_into(std::back_inserter(out), 1), 1U);
  EXPECT_EQ(out.back().value(), 5);
  queue.close();
}

TEST(hostile_types, pass_through_queues) {
  muster::spsc_queue<item> spsc(4);
  EXPECT_EQ(spsc.front(), nullptr);
  expect_items_pass(spsc);
  muster::spmc_queue<item> spmc(4, {}, hostile::heap<item>());
  expect_items_pass(spmc);
  muster::mpmc_queue<item> mpmc(4);
  expect_items_pass(mpmc);
  muster::spsc_queue<hostile::made> made(4);
  hostile::made_of_numbers numbers;
  EXPECT_EQ(made.push_range(numbers), 3U);
  hostile::made_of_numbers places;
  EXPECT_EQ(made.pop_into(places), 3U);
  EXPECT_EQ(places.all[2].number, 3);
  muster::lanes<item> lanes(4, {.producers = 1}, hostile::heap<int>());
  {
    auto producer = lanes.producer();
    producer.push(item(7));
  }
  EXPECT_EQ((*lanes.pop()).value(), 7);
  muster::combining_queue<item> combining;
  combining.push(item(1));
  combining.emplace(2);
  EXPECT_EQ(combining.pop()->value(), 1);
  EXPECT_EQ(combining.pop()->value(), 2);
  muster::combining_stack<item> stack;
  stack.push(item(1));
  EXPECT_EQ(stack.pop()->value(), 1);
  muster::psim_queue<item> psim_queue;
  psim_queue.push(item(1));
  EXPECT_EQ(psim_queue.pop()->value(), 1);
  muster::psim_stack<item> psim_stack;
  psim_stack.push(item(1));
  EXPECT_EQ(psim_stack.pop()->value(), 1);
}

template <class Object>
void expect_to_hold_a_state() {
  Object object;
  EXPECT_EQ(object.apply([](hostile::state& s) { return s.add(3); }).value(), 3);
  hostile::state& there = object.apply([](hostile::state& s) -> hostile::state& { return s; });
  EXPECT_EQ(there.value, 3);
  EXPECT_EQ(object.apply(&hostile::state::value), 3);
  muster::fiber([&] { EXPECT_EQ(object.apply([](hostile::state& s) { return s.add(1); }).value(), 4); }).join();
}

TEST(hostile_types, are_states_and_results) {
  expect_to_hold_a_state<muster::osci<hostile::state>>();
  expect_to_hold_a_state<muster::osci_shared<hostile::state>>();
  expect_to_hold_a_state<muster::cc_synch<hostile::state>>();
  expect_to_hold_a_state<muster::flat_combining<hostile::state>>();
}

TEST(hostile_types, are_results_of_forks) {
  auto [a, b] = muster::fork2([] { return item(1); }, [] { return item(2); });
  EXPECT_EQ(a.value() + b.value(), 3);
  auto [c, d] = muster::fork2([](item one) { return one.value(); }, item(5), [] { return item(6); });
  EXPECT_EQ(c + d.value(), 11);
  auto all = muster::parallel_invoke([] { return item(1); }, [] {}, [] { return item(3); });
  EXPECT_EQ(std::get<2>(all).value(), 3);
  int sum = 0;
  muster::finish([&](muster::async_scope& scope) { scope.async([&, one = item(4)] { sum += one.value(); }); });
  EXPECT_EQ(sum, 4);
  EXPECT_EQ(muster::pool::shared().run([] { return item(9); }).value(), 9);
}

TEST(hostile_types, are_elements_of_loops) {
  std::vector<element> all;
  for (int i = 0; i < 1000; ++i) all.emplace_back(i * 7919 % 1000);
  muster::parallel_for(all, &element::take_turn);
  muster::parallel_for(all.begin(), all.end(), [](element& one) { one.take_turn(); });
  EXPECT_TRUE(std::ranges::all_of(all, [](const element& one) { return one.turns == 2; }));
  EXPECT_EQ(muster::parallel_reduce(all.begin(), all.end(), 0, hostile::final_adder(), &element::get), 499'500);
  muster::parallel_sort(all, &element::comes_before);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)].value, i);
  muster::parallel_stable_sort(all, std::greater<>(), &element::get);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)].value, 999 - i);
  EXPECT_EQ(muster::parallel_max_element(all, &element::comes_before)->value, 999);
  EXPECT_TRUE(muster::parallel_all_of(all, [](int value) { return value < 1000; }, &element::get));
  EXPECT_EQ(muster::parallel_partition(all, [](const element& one) { return one.value % 2 == 0; }) - all.begin(), 500);
  EXPECT_EQ(muster::parallel_unique(all, std::equal_to<>(), &element::turns) - all.begin(), 1);
  muster::parallel_for_each(all, &element::take_turn);
  EXPECT_EQ(muster::parallel_histogram(all, 5, &element::turns)[3], all.size());
  std::vector<int> ones(1000, 1), sums(1000);
  std::vector<int> twice(2000);
  muster::parallel_merge(ones, ones, twice.begin());
  EXPECT_EQ(twice.back(), 1);
  muster::parallel_transform(all, sums.begin(), &element::get);
  muster::parallel_copy_if(ones, sums.begin(), [](int one) { return one == 1; });
  muster::parallel_scan(ones.begin(), ones.end(), sums.begin(), hostile::final_adder());
  EXPECT_EQ(sums.back(), 1000);
  muster::parallel_exclusive_scan(ones.begin(), ones.end(), sums.begin(), 5, hostile::final_adder());
  EXPECT_EQ(sums.back(), 1004);
}

TEST(hostile_types, run_on_fibers) {
  int seen = 0;
  muster::fiber([&](item one) { seen = one.value(); }, item(3)).join();
  EXPECT_EQ(seen, 3);
}

}  // namespace
