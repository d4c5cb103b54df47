// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A process that uses a shared_queue is killed before its n-th operation on the queue's memory, for every n until it
// survives: in a pop, in a push, when it opens or closes a port, when it closes the queue, and when it clears up after
// another. Nobody waits for it for more than a second; every item is accounted for; all cells are used again.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "dying_child.hpp"
#include "shared_region.hpp"

namespace muster_test {
namespace {

using namespace std::chrono_literals;
using status = muster::queue_status;
namespace shape = muster::shape;

constexpr std::size_t capacity = 4;
constexpr muster::rank_t first_rank = (muster::rank_t{1} << 52) - 3;  // three items before the ranks wrap

// An item of several cache lines. Where not all its words are the same, it is 0, which nobody pushes.
struct wide {
  number words[16];
  wide(number all) noexcept { std::fill_n(words, std::size(words), all); }
  operator number() const noexcept {
    return std::count(words, std::end(words), words[0]) == std::ssize(words) ? words[0] : 0;
  }
};

template <class Shape>
struct scene {
  using queue = muster::shared_queue<wide, Shape, muster::wait::park>;
  using clock = std::chrono::steady_clock;

  queue shared = queue::create_anonymous(capacity, {.ports = 4, .lanes = 2, .tag = {}, .first_rank = first_rank});
  shared_region region;
  diary& child = region.make<diary>();
  diary& keeper = region.make<diary>();

  void push(number first, number last) {
    auto port = shared.producer();
    for (number i = first; i <= last; ++i) ASSERT_EQ(port.try_push(i), status::success);
  }
  void child_pops(number most) {
    auto port = shared.consumer();
    for (number i = 0; i < most; ++i)
      if (const auto item = port.try_pop()) {
        muster_chaos::point();
        child.popped[child.pops++] = *item;
      }
  }
  void child_pushes(number first, number count) {
    auto port = shared.producer();
    for (number i = 0; i < count; ++i) {
      child.tried = i + 1;
      if (port.try_push(first + i) != status::success) return;
      child.pushed = i + 1;
    }
  }
  std::vector<number> recover() {
    std::vector<number> given;
    shared.recover([&](number item) { given.push_back(item); });
    for (const muster::shared_queue_participant& p : shared.info().participants) EXPECT_TRUE(p.alive);
    return given;
  }
  /// Pops until there is nothing to be had, at most a second after somebody has died.
  std::vector<number> drain() {
    std::vector<number> items;
    auto port = shared.consumer();
    for (const auto end = clock::now() + 1s;;) {
      const auto item = port.try_pop();
      if (item) items.push_back(*item);
      if (item.status() == status::empty || item.status() == status::closed) return items;
      if (clock::now() > end) return ADD_FAILURE() << "the dead are in the way for more than a second", items;
    }
  }
  /// Every cell is used, lap after lap.
  void still_works() {
    auto in = shared.producer();
    auto out = shared.consumer();
    for (number value = 1'000; value < 1'000 + 5 * capacity; value += capacity) {
      for (number i = 0; i < capacity; ++i) ASSERT_EQ(in.try_push(value + i), status::success);
      ASSERT_EQ(in.try_push(0), status::full);
      for (number i = 0; i < capacity; ++i) {
        const auto item = out.try_pop();
        ASSERT_TRUE(item);
        ASSERT_EQ(*item, value + i);
      }
      ASSERT_EQ(out.try_pop().status(), status::empty);
    }
    shared.check();
  }
};

std::vector<number> together(std::vector<number> all, const std::vector<number>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  return all;
}

/// The items of 1 … n that are nowhere; each of the others is in one place.
std::vector<number> missing(const std::vector<number>& all, number n) {
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "an item is delivered twice";
  std::vector<number> none;
  for (number i = 1; i <= n; ++i)
    if (!std::binary_search(all.begin(), all.end(), i)) none.push_back(i);
  EXPECT_EQ(all.size() + none.size(), n) << "an item that nobody pushed";
  return none;
}

template <class Shape>
class shared_queue_death : public ::testing::Test {};
using shapes = ::testing::Types<shape::spsc, shape::spmc, shape::mpmc, shape::lanes>;
struct names {
  template <class Shape>
  static std::string GetName(int) {
    return Shape::name;
  }
};
TYPED_TEST_SUITE(shared_queue_death, shapes, names);

TYPED_TEST(shared_queue_death, of_a_consumer_loses_no_item_but_the_one_it_was_given) {
  std::size_t lost = 0, given = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    s.push(1, capacity);
    died = child_dies(n, [&] { s.child_pops(3); });
    const auto before = s.shared.info().participants;
    const std::vector<number> back = s.recover();
    const std::vector<number> gone = missing(together(together(s.child.items(), back), s.drain()), capacity);
    given += back.size();
    lost += gone.size();
    if (!gone.empty()) {
      // The item that its last pop has returned, or was about to: its seat names it.
      ASSERT_EQ(gone.size(), 1U) << "died at " << n;
      ASSERT_EQ(before.size(), 1U);
      EXPECT_EQ(before[0].items, gone[0]);
      EXPECT_EQ((first_rank + gone[0] - 1) % (muster::rank_t{1} << 52), before[0].last_rank);
    }
    EXPECT_LE(back.size(), died ? 1U : 0U);
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
  EXPECT_GT(lost, 2U);   // whoever has been given an item can die before it does anything with it
  EXPECT_GT(given, 2U);  // and one at which it is claimed
}

TYPED_TEST(shared_queue_death, of_a_producer_costs_the_item_that_it_was_pushing) {
  number n = 1;
  std::size_t lost = 0;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    died = child_dies(n, [&] { s.child_pushes(1, 3); });
    const std::vector<number> got = s.drain();
    // What was pushed is there; what was begun may be.
    EXPECT_GE(got.size(), s.child.pushed);
    EXPECT_LE(got.size(), s.child.tried);
    for (number i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i + 1);
    lost += s.child.tried - got.size();
    EXPECT_TRUE(s.recover().empty());
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
  EXPECT_GT(lost, 2U);
}

TYPED_TEST(shared_queue_death, of_a_producer_holds_up_a_waiting_consumer_for_less_than_a_second) {
  using clock = std::chrono::steady_clock;
  for (number n = 1; n < 60; n += 3) {
    scene<TypeParam> s;
    auto port = s.shared.consumer();
    static_cast<void>(child_dies(n, [&] { s.child_pushes(1, 2); }));
    s.push(10, 10);  // by a second producer, or, where there may be only one, by the successor
    std::vector<number> got;
    const auto begin = clock::now();
    while (got.empty() || got.back() != 10) {
      const auto item = port.pop_for(10s);
      ASSERT_TRUE(item) << "died at " << n;
      got.push_back(*item);
    }
    EXPECT_LT(clock::now() - begin, 1s) << "died at " << n;
  }
}

TYPED_TEST(shared_queue_death, of_who_clears_up_leaves_that_to_the_next) {
  for (number first = 12; first < 60; first += 7) {
    std::size_t given = 0;
    number n = 1;
    for (bool died = true; died; ++n) {
      scene<TypeParam> s;
      s.push(1, capacity);
      static_cast<void>(child_dies(first, [&] { s.child_pops(3); }));
      died = child_dies(n, [&] { s.shared.recover([&](number item) { s.keeper.popped[s.keeper.pops++] = item; }); });
      // What the dead keeper was giving is given again.
      std::vector<number> back = together(s.recover(), s.keeper.items());
      given += back.size();
      back.erase(std::unique(back.begin(), back.end()), back.end());
      EXPECT_LE(missing(together(together(s.child.items(), back), s.drain()), capacity).size(), 1U);
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << first << ", and at " << n;
    }
    EXPECT_GT(n, 2U);
  }
}

TYPED_TEST(shared_queue_death, of_who_closes_waits_for_nobody) {
  number n = 1;
  bool closed_by_the_dead = false;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    s.push(1, 3);
    died = child_dies(n, [&] { s.shared.close(); });
    closed_by_the_dead |= died && s.shared.is_closed();
    if (!s.shared.is_closed()) {
      EXPECT_TRUE(died);
      s.push(4, 4);
      s.shared.close();
    } else {
      EXPECT_EQ(s.shared.producer().try_push(4), status::closed);
    }
    auto port = s.shared.consumer();
    std::vector<number> got;
    while (const auto item = port.pop_for(10s)) got.push_back(*item);
    EXPECT_EQ(port.try_pop().status(), status::closed) << "died at " << n;
    EXPECT_GE(got.size(), 3U);
    for (number i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i + 1);
  }
  EXPECT_GT(n, 5U);
  EXPECT_TRUE(closed_by_the_dead);
}

TYPED_TEST(shared_queue_death, disturbs_nobody_meanwhile) {
  if (TypeParam::one_consumer) GTEST_SKIP() << "there is no other consumer";
  for (number n = 1; n < 400; n += 17) {
    scene<TypeParam> s;
    auto in = s.shared.producer();
    auto out = s.shared.consumer();
    number pushed = 0;
    std::vector<number> own;
    const auto go_on = [&] {
      if (in.try_push(pushed + 1) == status::success) ++pushed;
      if (pushed % 3 != 0) return;
      if (const auto item = out.try_pop()) own.push_back(*item);
    };
    EXPECT_TRUE(child_dies(
        n,
        [&] {
          auto port = s.shared.consumer();
          for (;; muster_chaos::point())
            if (s.child.pops < 64)
              if (const auto item = port.try_pop()) s.child.popped[s.child.pops++] = *item;
        },
        go_on));
    for (int i = 0; i < 20; ++i) go_on();
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    const std::vector<number> back = s.recover();
    while (const auto item = out.try_pop()) own.push_back(*item);
    EXPECT_LE(missing(together(together(s.child.items(), back), own), pushed).size(), 1U);
  }
}

TEST(shared_queue_ports, of_the_dead_are_used_again) {
  scene<shape::mpmc> s;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(child_dies(1'000, [&] {
      const auto port = s.shared.consumer();
      for (;;) muster_chaos::point();
    }));
    if (i % 4 != 3) continue;
    EXPECT_FALSE(s.shared.try_consumer());
    try {
      s.shared.consumer();
      ADD_FAILURE() << "five ports of four";
    } catch (const muster::shared_queue_error& e) {
      EXPECT_NE(std::string(e.what()).find("recover"), std::string::npos) << e.what();
    }
    EXPECT_EQ(s.shared.recover([](number) { ADD_FAILURE() << "there was no item"; }), 4U);
  }
}

// The next consumer of a queue that has one pops what the dead one had claimed, and pops it first; also when the one
// that follows dies before it does, or goes without a pop.
TEST(shared_queue_ports, are_inherited_with_the_item_that_was_claimed) {
  bool died = true;
  for (number n = 1; died; ++n) {
    scene<shape::spsc> s;
    s.push(1, capacity);
    died = child_dies(n, [&] { s.child_pops(3); });
    const auto before = s.shared.info().participants;
    child_dies(n % 40, [&] { const auto port = s.shared.consumer(); });
    if (n % 2 == 0) static_cast<void>(s.shared.consumer());
    const std::vector<number> rest = s.drain();
    ASSERT_TRUE(std::is_sorted(rest.begin(), rest.end())) << "died at " << n;
    const std::vector<number> gone = missing(together(s.child.items(), rest), capacity);
    ASSERT_LE(gone.size(), 1U) << "died at " << n;
    // The item that its last pop has returned, or was about to.
    if (!gone.empty()) {
      ASSERT_EQ(before.at(0).items, gone[0]) << "died at " << n;
    }
    s.shared.recover([](number) { ADD_FAILURE() << "an item was left"; });
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
  }
}

TEST(shared_queue_ports, are_not_shared) {
  scene<shape::spsc> s;
  const auto in = s.shared.producer();
  const auto out = s.shared.consumer();
  EXPECT_FALSE(s.shared.try_producer());
  EXPECT_THROW(s.shared.consumer(), muster::shared_queue_error);
  // They are of a process that lives: nobody takes them away.
  EXPECT_EQ(s.shared.recover([](number) {}), 0U);
  EXPECT_EQ(s.shared.info().participants.size(), 2U);
}

}  // namespace
}  // namespace muster_test
