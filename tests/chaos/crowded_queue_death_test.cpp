// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Many producers of a shared_queue are killed at the same place, one after another, so that their unfinished pushes lie
// in a row; and a consumer of several lanes waits for one that is dead while the others have come to their end.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <chrono>

#include "dying_child.hpp"
#include "running_clock.hpp"

namespace muster_test {
namespace {

using namespace std::chrono_literals;
using status = muster::queue_status;
namespace shape = muster::shape;

constexpr muster::rank_t first_rank = (muster::rank_t{1} << 52) - 3;  // three items before the ranks wrap

TEST(crowded_queue_death, of_many_producers_is_one_wait_for_the_consumers) {
  constexpr number crowd = 40;
  number held = 0;
  number n = 1;
  bool late = false;
  next_operation next(1);
  for (bool died = true; died; next.after(n, late)) {
    auto q = muster::shared_queue<number, shape::mpmc, muster::wait::park>::create_anonymous(
        2 * crowd, {.ports = crowd + 2, .tag = {}, .first_rank = first_rank});
    for (number i = 1; i <= crowd; ++i)
      died = child_dies(0, [&] {
        auto in = q.producer();
        muster_chaos::die_at(n);
        in.push(i);
      });
    ASSERT_EQ(q.producer().try_push(crowd + 1), status::success);
    auto out = q.consumer();
    const number before = q.size_approx();
    number last = 0, items = 0;
    const auto begin = running_clock::now();
    while (last != crowd + 1) {
      const auto item = out.pop_for(10s);
      ASSERT_TRUE(item) << "died at " << n << ", after " << items << " items";
      ASSERT_GT(*item, last);
      last = *item;
      ++items;
    }
    late = running_clock::now() - begin >= 1s;  // for all of the dead together
    held += before - items;
    ASSERT_EQ(out.try_pop().status(), status::empty);
    q.recover([](number) { ADD_FAILURE() << "an item of a producer"; });
    EXPECT_EQ(q.info().participants.size(), 1U);
    q.check();
  }
  EXPECT_GE(held, crowd) << "no process died in the middle of a push";
}

// The end of a lane is no reason to look again and again while a push into another one is under way.
TEST(crowded_queue_death, of_a_lanes_producer_does_not_make_consumers_of_a_closed_queue_spin) {
  constexpr number enough = 20'000;  // operations on shared memory; waiting for the dead one takes a few hundred
  number n = 1;
  for (bool died = true; died; ++n) {
    auto q = muster::shared_queue<number, shape::lanes, muster::wait::park>::create_anonymous(
        4, {.ports = 4, .lanes = 2, .tag = {}, .first_rank = first_rank});
    auto drained = q.producer();
    died = child_dies(n, [&] { q.producer().push(7); });
    q.close();
    const bool spun = child_dies(enough, [&] {
      auto out = q.consumer();
      const auto item = out.pop();
      if (item && (*item != 7 || out.pop())) ::_exit(1);
      if (!item && item.status() != status::closed) ::_exit(1);
    });
    EXPECT_FALSE(spun) << "died at " << n;
    EXPECT_EQ(drained.try_push(1), status::closed);
    auto out = q.consumer();
    EXPECT_EQ(out.try_pop().status(), status::closed) << "died at " << n;
  }
}

}  // namespace
}  // namespace muster_test
