// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A process that uses a shared_queue is killed before its n-th operation on the queue's memory, for every n until it
// survives: in a pop, in a push, when it opens or closes a port, when it closes the queue, and when it recovers the
// ports of another. No operation waits for it for more than a second; every item is accounted for; all cells are used
// again. Operations that sleep when it dies are in shared_sleepers_queue_death_test.cpp.
#include "shared_death.hpp"

#include <optional>

namespace muster_test {
namespace {

template <class Shape>
class shared_queue_death : public ::testing::Test {};
TYPED_TEST_SUITE(shared_queue_death, shapes, shape_names);

TYPED_TEST(shared_queue_death, of_a_consumer_loses_no_item_but_the_one_it_was_given) {
  std::size_t lost = 0, given = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    s.push(1, capacity);
    died = child_dies(n, [&] { s.child_pops(3); });
    const auto before = s.shared.info().participants;
    const std::uint64_t dead = s.dead();
    const std::vector<number> back = s.recover();
    EXPECT_EQ(s.shared.info().deaths, dead) << "died at " << n;
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
  EXPECT_GT(lost, 2U);   // a consumer can die between receiving an item and using it
  EXPECT_GT(given, 2U);  // and one at which it is claimed
}

TYPED_TEST(shared_queue_death, of_a_producer_costs_the_item_that_it_was_pushing) {
  number n = 1;
  std::size_t lost = 0;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    died = child_dies(n, [&] { s.child_pushes(1, 3); });
    const std::uint64_t dead = s.dead();
    const std::vector<number> got = s.drain();
    // Completed pushes are there; the one that was begun may be.
    EXPECT_GE(got.size(), s.child.pushed);
    EXPECT_LE(got.size(), s.child.tried);
    for (number i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i + 1);
    lost += s.child.tried - got.size();
    EXPECT_TRUE(s.recover().empty());
    EXPECT_EQ(s.shared.info().deaths, dead) << "died at " << n;  // also where a consumer has cleared up
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
  EXPECT_GT(lost, 2U);
}

TYPED_TEST(shared_queue_death, of_a_producer_holds_up_a_waiting_consumer_for_less_than_a_second) {
  number n = 1;
  bool late = false;
  next_operation next(1);
  for (bool died = true; died; next.after(n, late)) {
    scene<TypeParam> s;
    auto port = s.shared.consumer();
    died = child_dies(n, [&] { s.child_pushes(1, 2); });
    s.push(10, 10);  // by a second producer, or, where there may be only one, by the successor
    std::vector<number> got;
    const auto begin = running_clock::now();
    while (got.empty() || got.back() != 10) {
      const auto item = port.pop_for(10s);
      ASSERT_TRUE(item) << "died at " << n;
      got.push_back(*item);
    }
    late = running_clock::now() - begin >= 1s;
  }
  EXPECT_GT(n, 20U);
}

/// A consumer dies at every `stride`-th operation, and the process that recovers it at every one.
template <class Shape>
void kill_keepers(number stride) {
  std::size_t given = 0;
  number first = 1;
  for (bool first_died = true; first_died; first += stride) {
    std::size_t held = 0;  // items that the first had claimed: the same whenever its keeper dies
    number n = 1;
    for (bool died = true; died; ++n) {
      scene<Shape> s;
      s.push(1, capacity);
      first_died = child_dies(first, [&] { s.child_pops(3); });
      died = child_dies(n, [&] { s.shared.recover([&](number item) { s.keeper.popped[s.keeper.pops++] = item; }); });
      // The item that the dead keeper was delivering is delivered again.
      std::vector<number> back = together(s.recover(), s.keeper.items());
      back.erase(std::unique(back.begin(), back.end()), back.end());
      if (n == 1) held = back.size();
      EXPECT_EQ(back.size(), held) << "died at " << first << ", and at " << n;
      given += back.size();
      EXPECT_LE(missing(together(together(s.child.items(), back), s.drain()), capacity).size(), 1U);
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << first << ", and at " << n;
    }
    EXPECT_GT(n, 2U);
    EXPECT_LE(held, first_died ? 1U : 0U);
  }
  EXPECT_GT(first, 50U);
  EXPECT_GT(given, 0U);
}

TYPED_TEST(shared_queue_death, of_a_keeper_leaves_recovery_to_the_next) { kill_keepers<TypeParam>(7); }
TYPED_TEST(shared_queue_death, of_a_keeper_at_any_moment_nightly) { kill_keepers<TypeParam>(1); }

/// Two processes recover a third at the same time, and one of them dies at every operation.
template <class Shape>
void kill_one_of_two_keepers(number stride) {
  std::size_t given = 0, by_the_child = 0, by_the_other = 0;
  bool first_died = true;
  for (number first = 1; first_died; first += stride) {
    bool alone = false;  // the child has lived, and did all of it
    for (number n = 1; !alone && n < 100; ++n) {
      scene<Shape> s;
      s.push(1, capacity);
      first_died = child_dies(first, [&] { s.child_pops(3); });
      if (s.dead() == 0) break;
      std::vector<number> own;
      const bool died = child_dies(
          n,
          [&] {
            s.keeper.tried = 1;
            s.shared.recover([&](number item) { s.keeper.popped[s.keeper.pops++] = item; });
          },
          [&] {
            if (s.keeper.tried == 0) return;
            for (const auto end = scene<Shape>::clock::now() + std::chrono::microseconds((7 * n + first) % 64);
                 scene<Shape>::clock::now() < end;) {
            }
            s.shared.recover([&](number item) { own.push_back(item); });
          });
      // A surviving keeper delivers it once; the item that a dead keeper was delivering is delivered again.
      const std::vector<number> here = together(own, s.recover());
      EXPECT_LE(here.size(), 1U) << "died at " << first << ", and at " << n;
      std::vector<number> back = together(here, s.keeper.items());
      EXPECT_LE(back.size(), died ? 2U : 1U) << "died at " << first << ", and at " << n;
      if (!died) {
        EXPECT_EQ(s.shared.info().deaths, 1U) << "died at " << first << ", and at " << n;
      }
      back.erase(std::unique(back.begin(), back.end()), back.end());
      given += back.size();
      by_the_child += s.keeper.pops;
      by_the_other += own.size();
      alone = !died && own.empty();
      EXPECT_LE(missing(together(together(s.child.items(), back), s.drain()), capacity).size(), 1U)
          << "died at " << first << ", and at " << n;
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << first << ", and at " << n;
    }
  }
  EXPECT_GT(given, 0U);
  EXPECT_GT(by_the_child, 0U);
  EXPECT_GT(by_the_other, 0U);
}

TYPED_TEST(shared_queue_death, of_one_of_two_keepers_leaves_recovery_to_the_other) {
  kill_one_of_two_keepers<TypeParam>(3);
}
TYPED_TEST(shared_queue_death, of_one_of_two_keepers_at_any_moment_nightly) { kill_one_of_two_keepers<TypeParam>(1); }

/// A producer dies while it writes an item, and the consumer that waits for the item and clears up after the dead, at
/// every `stride`-th operation. By day only the first such moment of the producer.
template <class Shape>
void kill_helpers(number stride, bool all_moments) {
  std::size_t moments = 0, in_the_way = 0, cleared_by_the_dead = 0;
  bool first_died = true;
  for (number first = 1; first_died && (all_moments || moments == 0); ++first) {
    {
      scene<Shape> s;
      first_died = child_dies(first, [&] { s.child_pushes(1, 3); });
      auto port = s.shared.consumer();
      while (port.try_pop()) {
      }
      if (port.try_pop().status() != status::busy) continue;
    }
    ++moments;
    number n = 1;
    for (bool died = true; died; n += stride) {
      scene<Shape> s;
      child_dies(first, [&] { s.child_pushes(1, 3); });
      died = child_dies(n, [&] {
        auto port = s.shared.consumer();
        // When it does not get as far as to wait, again.
        for (int vain = 0; vain < 5 && s.shared.info().deaths == 0; ++vain)
          while (const auto item = port.pop_for(70ms)) {
            muster_chaos::point();
            s.keeper.popped[s.keeper.pops++] = *item;
          }
      });
      in_the_way += s.dead() == 2;
      cleared_by_the_dead += died && s.shared.info().deaths != 0;
      // The next process is asked to recover, or finds the dead one in its way.
      const std::vector<number> before = n % 2 == 0 ? s.drain() : std::vector<number>();
      const std::vector<number> back = s.recover();
      const std::vector<number> all = together(together(together(s.keeper.items(), before), back), s.drain());
      // The producer's is lost, and one that the consumer had in its hands may be.
      EXPECT_LE(missing(all, s.child.pushed).size(), died ? 1U : 0U) << "died at " << first << ", and at " << n;
      ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << first << ", and at " << n;
    }
    EXPECT_GT(n, 10U);
  }
  EXPECT_GT(moments, all_moments ? 2U : 0U);
  EXPECT_GT(in_the_way, 0U);
  EXPECT_GT(cleared_by_the_dead, 0U);
}

TYPED_TEST(shared_queue_death, of_a_consumer_that_clears_up_leaves_that_to_the_next) {
  kill_helpers<TypeParam>(3, false);
}
TYPED_TEST(shared_queue_death, of_a_consumer_that_clears_up_at_any_moment_nightly) { kill_helpers<TypeParam>(1, true); }

TYPED_TEST(shared_queue_death, of_the_closer_delays_no_other) {
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

// Pushes, and pops where there may be other consumers, continue while the child pops and after it dies.
TYPED_TEST(shared_queue_death, does_not_disturb_others_meanwhile) {
  std::size_t meanwhile = 0, of_the_child = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    auto in = s.shared.producer();
    auto out = TypeParam::one_consumer ? std::nullopt : s.shared.try_consumer();
    number pushed = 0;
    std::vector<number> own;
    const auto go_on = [&] {
      const status pushing = in.try_push(pushed + 1);
      ASSERT_TRUE(pushing == status::success || pushing == status::full);
      if (pushing == status::success) ++pushed, ++meanwhile;
      if (pushed % 3 != 0 || !out) return;
      if (const auto item = out->try_pop()) own.push_back(*item);
    };
    died = child_dies(
        n,
        [&] {
          auto port = s.shared.consumer();
          for (int tries = 0; tries < 24; ++tries, muster_chaos::point())
            if (const auto item = port.try_pop()) s.child.popped[s.child.pops++] = *item;
        },
        go_on);
    of_the_child += s.child.pops;
    for (int i = 0; i < 20; ++i) go_on();
    const std::vector<number> back = s.recover();
    if (!out) out.emplace(s.shared.consumer());
    while (const auto item = out->try_pop()) own.push_back(*item);
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    EXPECT_LE(missing(together(together(s.child.items(), back), own), pushed).size(), died ? 1U : 0U);
  }
  EXPECT_GT(n, 60U);
  EXPECT_GT(meanwhile, n);
  EXPECT_GT(of_the_child, 0U);
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

TEST(shared_queue_ports, of_the_dead_are_closed_except_those_with_items) {
  std::size_t closed = 0, kept = 0;
  for (number n = 1; n != 60; ++n) {
    scene<shape::mpmc> s;
    s.push(1, capacity);
    const bool died = child_dies(n, [&] { s.child_pops(3); });
    const std::uint64_t dead = s.dead();
    const std::size_t ports = s.shared.recover();
    EXPECT_LE(ports, dead) << "died at " << n;
    EXPECT_EQ(s.dead(), dead - ports) << "died at " << n;
    // The other ports have an item each, which is delivered as ever.
    const std::vector<number> back = s.recover();
    EXPECT_EQ(back.size(), dead - ports) << "died at " << n;
    EXPECT_LE(missing(together(together(s.child.items(), back), s.drain()), capacity).size(), died ? 1U : 0U);
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
    closed += ports;
    kept += back.size();
  }
  EXPECT_GT(closed, 0U);
  EXPECT_GT(kept, 0U);
}

// The next consumer of a queue with one consumer first pops the item that the dead one had claimed; also if the next
// one dies before its pop, or leaves without one.
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
  // Their process lives, so they are not taken away.
  EXPECT_EQ(s.shared.recover([](number) {}), 0U);
  EXPECT_EQ(s.shared.info().participants.size(), 2U);
}

}  // namespace
}  // namespace muster_test
