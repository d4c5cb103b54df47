// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Combining objects by the numbers: what they make is destroyed once, requests travel in batches of the size that was
// asked for, and each is answered once.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include "combine_kinds.hpp"
#include "counted.hpp"
#include "counting_allocator.hpp"
#include "scale.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::fiber;
using muster_test::allocations_left;
using muster_test::bytes_allocated;
using muster_test::counted;
using muster_test::for_ever;
using number = std::uint64_t;

/// A result that does not fit where small ones do.
struct large_result {
  counted one;
  std::array<char, 100> filler{};
};

template <class Object>
void expect_nothing_left() {
  const auto before = counted::alive();
  {
    Object object(muster::combine_options{}, number{3});
    EXPECT_EQ(counted::alive(), before + 1) << "one state";
    std::vector<fiber> fibers;
    for (number i = 0; i < 5; ++i)
      fibers.emplace_back([&object, i] {
        const auto result = object.apply([i](counted&) { return large_result{counted(i)}; });
        EXPECT_EQ(result.one.value(), i);
      });
    fibers.clear();
    EXPECT_EQ(counted::alive(), before + 1) << "results are left";
  }
  EXPECT_EQ(counted::alive(), before) << "the state is left";
}

TEST(combining, destroys_states_and_results) {
  expect_nothing_left<muster::osci<counted>>();
  expect_nothing_left<muster::osci_shared<counted>>();
  expect_nothing_left<muster::cc_synch<counted>>();
  expect_nothing_left<muster::flat_combining<counted>>();
}

/// Notes how many additions come together, and how many of all have been done.
struct grouped {
  struct add {
    int operator()(grouped&) const noexcept { return -1; }
  };
  void execute(muster::batch<grouped, add, int> all) noexcept {
    largest = std::max(largest, all.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i].result(++added);
  }
  std::size_t largest = 0;
  int added = 0;
};

template <class Object>
void expect_batches_of(unsigned most) {
  Object object(muster::combine_options{.batch = most});
  std::vector<fiber> fibers;
  std::set<int> results;
  for (int i = 0; i < 20; ++i) fibers.emplace_back([&] { results.insert(object.apply(grouped::add{})); });
  fibers.clear();
  EXPECT_EQ(results.size(), 20U);
  EXPECT_EQ(*results.begin(), 1);
  EXPECT_EQ(object.apply([](grouped& s) { return s.largest; }), most);
}

TEST(combining, sends_batches_of_the_size_that_was_asked_for) {
  for (const unsigned most : {2U, 5U}) {
    expect_batches_of<muster::osci<grouped>>(most);
    expect_batches_of<muster::osci_shared<grouped>>(most);
  }
}

// All announce themselves while the first operation is being executed; its thread executes `help` of them.
template <class Object>
void expect_help_for(unsigned help) {
  Object object(muster::combine_options{.help = help});
  std::atomic<unsigned> by_first{0};
  std::atomic<std::thread::id> first;
  const auto note = [&](auto&) {
    if (first.load() == std::this_thread::get_id()) ++by_first;
  };
  muster_test::in_one_round_of_threads(
      object, 5, [&](unsigned) { object.apply(note); }, [&] { first = std::this_thread::get_id(); });
  EXPECT_LE(by_first, help);
}

TEST(combining, helps_as_many_as_its_options_say) {
  for (const unsigned help : {1U, 3U}) {
    expect_help_for<muster::cc_synch<int>>(help);
    expect_help_for<muster::osci<int>>(help);
  }
}

// Threads that come one after another need the part of one; a number may be in use elsewhere in the meantime.
TEST(combining, gives_the_part_of_an_ended_thread_to_the_next) {
  using part = muster::detail::thread_part;
  muster::detail::per_thread<part> parts(1000);
  const auto come = [&parts] { parts.own([](unsigned) { return new part; }); };
  for (unsigned i = 0; i < 20; ++i) std::jthread(come).join();
  unsigned made = 0;
  parts.for_each([&made](const part&) { ++made; });
  EXPECT_LE(made, 2U);
}

TEST(combining, gives_a_state_only_its_own_kind_of_requests) {
  muster::osci<grouped> object({.detached = true});
  int between = 0;
  auto first = object.submit(grouped::add{});
  auto other = object.submit([&between](grouped& s) {
    between = s.added;
    return 40;
  });
  auto second = object.submit(grouped::add{});
  auto third = object.submit(grouped::add{});
  EXPECT_EQ(third.get(), 3);
  EXPECT_EQ(first.get(), 1);
  EXPECT_EQ(second.get(), 2);
  EXPECT_EQ(other.get(), 40);
  EXPECT_EQ(between, 1);
  EXPECT_EQ(object.apply([](grouped& s) { return s.largest; }), 2U);
}

TEST(tickets, can_be_assigned) {
  muster::osci<int> object({.detached = true});
  const auto add = [&object](int n) { return object.submit([n](int& s) { return s += n; }); };
  auto first = add(1);
  auto second = add(10);
  first = std::move(second);  // drops its former result
  EXPECT_FALSE(second.valid());
  auto third = add(100);
  EXPECT_EQ(third.get(), 111);
  EXPECT_EQ(first.get(), 11);
}

// All three travel together, so that the stack itself never sees the pair.
TEST(a_stack, gives_an_item_to_one_of_two) {
  muster::combining_stack<int> stack;
  std::vector<std::optional<int>> popped;
  {
    fiber push([&] { stack.push(7); });
    fiber pop([&] { popped.push_back(stack.pop()); });
    fiber pop_too([&] { popped.push_back(stack.pop()); });
  }
  ASSERT_EQ(popped.size(), 2U);
  EXPECT_NE(popped[0].has_value(), popped[1].has_value());
  EXPECT_EQ(popped[0].value_or(0) + popped[1].value_or(0), 7);
  EXPECT_EQ(stack.pop(), std::nullopt);
}

// Segments are used again, and none is left half full.
TEST(a_queue, of_segments_that_are_filled_to_the_end) {
  muster::combining_queue<number, muster::cc_synch, 3> queue;
  for (number round = 0; round < 5; ++round) {
    for (number i = 0; i < 3; ++i) queue.push(3 * round + i);
    for (number i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), 3 * round + i);
    EXPECT_EQ(queue.pop(), std::nullopt);
  }
}

template <class Structure>
void expect_items_destroyed() {
  const auto before = counted::alive();
  {
    Structure object;
    for (number i = 0; i < 100; ++i) object.push(counted(i));
    for (number i = 0; i < 30; ++i) EXPECT_TRUE(object.pop());
    EXPECT_EQ(counted::alive(), before + 70);
  }
  EXPECT_EQ(counted::alive(), before);
}

TEST(structures, destroy_the_items_that_are_left) {
  expect_items_destroyed<muster::combining_queue<counted>>();
  expect_items_destroyed<muster::combining_stack<counted>>();
  expect_items_destroyed<muster::psim_queue<counted>>();
  expect_items_destroyed<muster::psim_stack<counted>>();
}

// The thread that has made the queue uses it.
TEST(structures, destroy_an_item_that_is_refused) {
  const auto before = counted::alive();
  {
    muster::combining_queue<counted> queue({.threads = 1});
    queue.push(counted(1));
    std::jthread([&] { EXPECT_THROW(queue.push(counted(2)), std::length_error); }).join();
    EXPECT_EQ(counted::alive(), before + 1);
    EXPECT_EQ(queue.pop()->value(), 1U);
    EXPECT_EQ(queue.pop(), std::nullopt);
  }
  EXPECT_EQ(counted::alive(), before);
}

// Pushes and pops meet in one execution.
TEST(a_wait_free_stack, whose_pushes_and_pops_meet_keeps_its_nodes) {
  muster::psim_stack<number> stack({.threads = 8}, {.alone_first = false});
  std::atomic<number> sum{0}, popped{0};
  constexpr number each = 500;
  muster::run_team({.carriers = 2, .fibers = 4}, [&](unsigned carrier, unsigned f) {
    for (number i = 1; i <= each; ++i) {
      if (f % 2 == 0) {
        stack.push((carrier * 2 + f / 2) * each + i);
      } else if (const auto one = stack.pop()) {
        sum += *one;
        ++popped;
      }
    }
  });
  stack.check();
  while (const auto one = stack.pop()) {
    sum += *one;
    ++popped;
  }
  constexpr number all = 4 * each;
  EXPECT_EQ(popped, all);
  EXPECT_EQ(sum, all * (all + 1) / 2);
  stack.check();
}

// ------------------------------------------------------------------------------------------------------------- memory

// Wherever memory ends, an item that has not been pushed has been destroyed.
TEST(structures, destroy_an_item_for_which_there_is_no_memory) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  for (long allocations = 0;; ++allocations) {
    ASSERT_LT(allocations, 100);
    const auto before = counted::alive();
    muster::combining_queue<counted> queue;
    bool pushed = false;
    std::jthread([&] {
      allocations_left = allocations;
      try {
        queue.push(counted(7));
        pushed = true;
      } catch (const std::bad_alloc&) {
      }
      allocations_left = for_ever;
    }).join();
    ASSERT_EQ(counted::alive(), before + (pushed ? 1 : 0)) << "after " << allocations << " allocations";
    if (pushed) break;
    EXPECT_EQ(queue.pop(), std::nullopt);
  }
}

// Wherever memory ends, the constructor leaves nothing behind.
template <class Structure>
void expect_no_leak_without_memory() {
  static_cast<void>(Structure());  // what outlives objects, for the next
  for (long allocations = 0;; ++allocations) {
    ASSERT_LT(allocations, 100);
    const std::size_t before = muster_test::allocations - muster_test::deallocations;
    bool made = false;
    allocations_left = allocations;
    try {
      Structure one;
      made = true;
    } catch (const std::bad_alloc&) {
    }
    allocations_left = for_ever;
    ASSERT_EQ(muster_test::allocations - muster_test::deallocations, before) << "after " << allocations;
    if (made) break;
  }
}
TEST(structures, leak_nothing_when_they_cannot_be_made) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  expect_no_leak_without_memory<muster::combining_queue<number>>();
  expect_no_leak_without_memory<muster::combining_queue<counted, muster::flat_combining>>();
  expect_no_leak_without_memory<muster::combining_stack<counted>>();
  expect_no_leak_without_memory<muster::psim_queue<number>>();
  expect_no_leak_without_memory<muster::psim_stack<counted>>();
}

// Wherever memory ends, all functions have been executed, or none; and no batch is lost.
TEST(apply_batch, executes_nothing_without_memory) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  struct add {
    std::array<number, 8> much{1};
    void operator()(number& sum) const { sum += much[0]; }
  };
  std::vector<add> functions(300);
  for (long allocations = 0;; ++allocations) {
    ASSERT_LT(allocations, 100);
    muster::osci<number> object({.batch = 128});
    object.apply([](number&) {});
    bool executed = false;
    allocations_left = allocations;
    try {
      object.apply_batch(std::span(functions), static_cast<int*>(nullptr));
      executed = true;
    } catch (const std::bad_alloc&) {
    }
    allocations_left = for_ever;
    object.check();
    ASSERT_EQ(object.apply([](number& sum) { return sum; }), executed ? 300U : 0U) << "after " << allocations;
    if (executed) break;
  }
}

TEST(structures, use_their_boxes_again) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  muster::combining_queue<counted> queue;
  const auto once = [&queue] {
    queue.push(counted(7));
    return queue.pop()->value();
  };
  EXPECT_EQ(once(), 7U);
  bytes_allocated = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(once(), 7U);
  EXPECT_EQ(bytes_allocated, 0U);
}

TEST(psim, has_the_results_of_each_batch_once) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  const auto bytes_of_a_thread = [](unsigned threads) {
    muster::psim<number> object({.threads = threads, .batch = 64});
    bytes_allocated = 0;
    object.apply([](number& s) noexcept { ++s; });
    return bytes_allocated;
  };
  // 16 bytes for each result, and three copies of a record, in which 64 threads have 17 words.
  const std::size_t expected = std::size_t{256} * (64 * 16) + 3 * 256 / 64 * 17 * 8;
  const std::size_t more = bytes_of_a_thread(512) - bytes_of_a_thread(256);
  EXPECT_GE(more, expected - 1024);
  EXPECT_LE(more, expected + 1024);
}

/// The object and what its first thread allocates, and what each further thread allocates, at most. Memory that is
/// freed at once counts as well.
template <class Object>
void expect_memory(std::size_t with_one_thread, std::size_t for_another, const muster::combine_options& options = {}) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  const auto use = [](Object& object) { object.apply([](number& s) noexcept { ++s; }); };
  {
    Object before;  // what a process allocates once
    use(before);
  }
  Object object(options);
  bytes_allocated = 0;
  use(object);
  EXPECT_LE(sizeof object + bytes_allocated, with_one_thread);
  EXPECT_GT(bytes_allocated, 0U);
  bytes_allocated = 0;
  for (int i = 0; i < 1000; ++i) use(object);
  EXPECT_EQ(bytes_allocated, 0U);
  // Threads that live at the same time. The object's tables grow for some of them: so the mean counts.
  constexpr std::size_t others = 32;
  std::atomic<std::size_t> all{0}, arrived{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < others; ++i)
      threads.emplace_back([&] {
        Object other;
        use(other);
        bytes_allocated = 0;
        use(object);
        all += bytes_allocated;
        ++arrived;
        while (arrived != others) std::this_thread::yield();
      });
  }
  EXPECT_LE(all / others, for_another);
}

TEST(memory, of_an_osci) { expect_memory<muster::osci<number>>(1024, 384); }
TEST(memory, of_a_cc_synch) { expect_memory<muster::cc_synch<number>>(1024, 384); }
TEST(memory, of_a_flat_combining) { expect_memory<muster::flat_combining<number>>(1024, 384); }
TEST(memory, of_an_osci_shared) { expect_memory<muster::osci_shared<number>>(1024, 384, {.groups = 1}); }
TEST(memory, of_a_counter) {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  bytes_allocated = 0;
  muster::counter one(number{1});
  EXPECT_EQ(one.fetch_add(1), 1);
  EXPECT_EQ(bytes_allocated, 0U);
  EXPECT_LE(sizeof one, 256U);
}

}  // namespace
