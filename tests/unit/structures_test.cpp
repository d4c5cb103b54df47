// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// All queues and stacks that are built on combining objects, and what they have in common: order, items of any kind,
// exceptions, lifetimes, and memory that grows and is given back.
#include <gtest/gtest.h>
#include <muster/combine.hpp>
#include <muster/fiber/team.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using number = std::uint64_t;

template <bool Queue, template <class> class Structure>
struct kind {
  static constexpr bool is_queue = Queue;
  template <class T>
  using of = Structure<T>;
};
template <class T>
using osci_queue = muster::combining_queue<T, muster::osci>;
template <class T>
using short_queue = muster::combining_queue<T, muster::cc_synch, 3>;
template <class T>
using osci_stack = muster::combining_stack<T, muster::osci>;
template <class T>
using flat_stack = muster::combining_stack<T, muster::flat_combining>;
// One of each shape but for the matrix: they are slow to compile.
#if defined(MUSTER_TEST_MATRIX)
using kinds = ::testing::Types<kind<true, short_queue>, kind<false, osci_stack>, kind<true, muster::psim_queue>,
                               kind<true, osci_queue>, kind<false, flat_stack>, kind<false, muster::psim_stack>>;
#else
using kinds = ::testing::Types<kind<true, short_queue>, kind<false, osci_stack>, kind<true, muster::psim_queue>>;
#endif
struct names {
  template <class Kind>
  static std::string GetName(int i) {
    static constexpr std::array<const char*, 6> all = {"short_queue", "osci_stack", "psim_queue",
                                                       "osci_queue",  "flat_stack", "psim_stack"};
    return all.at(static_cast<std::size_t>(i));
  }
};
template <class Kind>
class structure : public ::testing::Test {};
TYPED_TEST_SUITE(structure, kinds, names);

TYPED_TEST(structure, keeps_its_order) {
  typename TypeParam::template of<number> object;
  EXPECT_EQ(object.pop(), std::nullopt);
  for (const number many : std::initializer_list<number>{1, 2, 3, 4, 7, 500, 511, 1021, 3000}) {
    for (number i = 0; i < many; ++i) object.push(i);
    object.check();
    for (number i = 0; i < many; ++i) ASSERT_EQ(object.pop(), TypeParam::is_queue ? i : many - 1 - i);
    EXPECT_EQ(object.pop(), std::nullopt);
    EXPECT_EQ(object.pop(), std::nullopt);
  }
  object.check();
}

// Crosses the ends of the arrays of items in both directions.
TYPED_TEST(structure, grows_and_shrinks) {
  typename TypeParam::template of<number> object;
  std::vector<number> expected;
  number next = 1;
  std::size_t first = 0;  // of the queue
  for (const int change : {509, -2, 3, -1, 2, -3, 1, 480, -480, 1030, -3, -1030, 5, 2000, -1500, -480}) {
    for (int i = 0; i < change; ++i) {
      expected.push_back(next);
      object.push(next++);
    }
    for (int i = 0; i > change; --i) {
      const auto item = object.pop();
      if (expected.size() == first) {
        ASSERT_EQ(item, std::nullopt);
      } else if (TypeParam::is_queue) {
        ASSERT_EQ(item, expected[first++]);
      } else {
        ASSERT_EQ(item, expected.back());
        expected.pop_back();
      }
    }
  }
  object.check();
}

struct no_default {
  explicit no_default(std::int32_t n, char c) noexcept : number(n), letter(c) {}
  std::int32_t number;
  char letter;
};
struct nothing {};

TYPED_TEST(structure, takes_items_of_any_kind) {
  typename TypeParam::template of<no_default> small;
  small.emplace(-3, 'x');
  const auto there = small.pop();
  ASSERT_TRUE(there);
  EXPECT_EQ(there->number, -3);
  EXPECT_EQ(there->letter, 'x');

  typename TypeParam::template of<nothing> empty;
  empty.emplace();
  EXPECT_TRUE(empty.pop());
  EXPECT_FALSE(empty.pop());

  typename TypeParam::template of<std::string> strings;
  strings.push("a string that is too long to lie in place");
  strings.emplace(3, 'y');
  EXPECT_EQ(strings.pop()->size() + strings.pop()->size(), 44U);

  typename TypeParam::template of<std::unique_ptr<int>> owned;
  for (int i = 0; i < 5; ++i) owned.push(std::make_unique<int>(i));
  EXPECT_EQ(**owned.pop(), TypeParam::is_queue ? 0 : 4);

  typename TypeParam::template of<std::array<number, 9>> large;
  large.push({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(large.pop()->at(8), 9U);

  typename TypeParam::template of<double> doubles;
  doubles.push(-0.5);
  EXPECT_EQ(doubles.pop(), -0.5);
}

struct counted {
  explicit counted(int n, bool throws = false) : value(n) {
    if (throws) throw std::runtime_error("no");
    ++alive;
  }
  counted(counted&& other) : value(other.value) {
    if (value == 13) throw std::runtime_error("unlucky");
    ++alive;
  }
  counted& operator=(counted&&) = delete;
  ~counted() { --alive; }
  int value;
  static inline std::atomic<int> alive{0};
};

TYPED_TEST(structure, destroys_each_item_once) {
  {
    typename TypeParam::template of<counted> object;
    for (int i = 0; i < 10; ++i) object.emplace(i);
    for (int i = 0; i < 4; ++i) object.pop();
    EXPECT_EQ(counted::alive, 6);
    object.check();
  }
  EXPECT_EQ(counted::alive, 0);
}

/// Only pushes and pops count as use: not the constructor, nor the destructor.
TYPED_TEST(structure, may_be_made_and_destroyed_by_a_thread_that_is_no_user) {
  {
    auto object = std::make_unique<typename TypeParam::template of<counted>>(muster::combine_options{.threads = 1});
    std::barrier both(2);
    std::jthread user([&] {
      for (int i = 0; i < 10; ++i) object->emplace(i);
      EXPECT_EQ(object->pop()->value, TypeParam::is_queue ? 0 : 9);
      both.arrive_and_wait();
      both.arrive_and_wait();
    });
    both.arrive_and_wait();
    object.reset();
    EXPECT_EQ(counted::alive, 0);
    both.arrive_and_wait();
  }
}

TYPED_TEST(structure, passes_exceptions_of_items_on) {
  {
    typename TypeParam::template of<counted> object;
    EXPECT_THROW(object.emplace(1, true), std::runtime_error);
    EXPECT_EQ(object.pop(), std::nullopt);
    object.emplace(13);
    EXPECT_THROW(object.pop(), std::runtime_error);  // that item is gone
    object.emplace(2);
    EXPECT_EQ(object.pop()->value, 2);
    object.check();
  }
  EXPECT_EQ(counted::alive, 0);
}

TYPED_TEST(structure, hands_every_item_over_once) {
  typename TypeParam::template of<std::string> object;
  constexpr unsigned carriers = 3, fibers = 5;
  constexpr number each = 300;
  std::array<std::vector<number>, carriers * fibers> seen;
  muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
    const unsigned self = carrier * fibers + fiber;
    for (number i = 0; i < each; ++i) {
      object.push(std::to_string(self * each + i));
      if (i % 3 != 0)
        if (const auto item = object.pop()) seen[self].push_back(std::stoull(*item));
    }
  });
  std::vector<unsigned> times(carriers * fibers * each);
  for (const auto& by_one : seen)
    for (const number item : by_one) ++times.at(item);
  while (const auto item = object.pop()) ++times.at(std::stoull(*item));
  for (number item = 0; item < times.size(); ++item) ASSERT_EQ(times[item], 1U) << item;
  object.check();
}

}  // namespace
