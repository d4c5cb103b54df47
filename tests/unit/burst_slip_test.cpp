// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// When a thread that waits for a combining object stays away from it. The threads are played: the test counts the
// operations that each would have had.
#include <gtest/gtest.h>
#include <muster/combine/detail/burst_slip.hpp>

#include <cstdint>

namespace {

using muster::detail::burst_slip;
using habits = burst_slip::habits;

struct played {
  burst_slip slip;
  std::uint32_t last = 0;

  void operate(habits& thread, unsigned operations) {
    for (; operations != 0; --operations) {
      if (last == thread.number()) thread.continue_burst();
      else thread.end_burst();
      last = thread.number();
    }
  }
};

TEST(burst_slip, two_threads_that_let_each_other_run_keep_doing_so) {
  played all;
  habits a, b;
  unsigned absences = 0;
  for (unsigned turn = 0; turn < 1000; ++turn) {
    habits& here = turn % 2 == 0 ? a : b;
    all.operate(here, 1 + 2 * burst_slip::enough);
    absences += all.slip.should_stay_away(here) ? 1 : 0;
  }
  EXPECT_GE(absences, 990U);
}

TEST(burst_slip, finds_out_when_an_absence_is_answered) {
  played all;
  habits a, b;
  // Each operation meets another until one thread stays away; then the other has a burst.
  bool away = false;
  unsigned absences = 0, of_last = 0;
  constexpr unsigned turns = 4000, last = 100;
  for (unsigned turn = 0; turn < turns; ++turn) {
    habits& here = turn % 2 == 0 ? a : b;
    all.operate(here, away ? 1 + 2 * burst_slip::enough : 1);
    away = all.slip.should_stay_away(here);
    absences += away ? 1 : 0;
    if (turn >= turns - last) of_last += away ? 1 : 0;
  }
  EXPECT_EQ(of_last, last) << absences;
}

TEST(burst_slip, hardly_tries_when_bursts_stay_short) {
  played all;
  habits a, b;
  unsigned absences = 0;
  constexpr unsigned turns = 1'000'000;
  for (unsigned turn = 0; turn < turns; ++turn) {
    habits& here = turn % 2 == 0 ? a : b;
    all.operate(here, 1 + turn % burst_slip::enough);
    absences += all.slip.should_stay_away(here) ? 1 : 0;
  }
  EXPECT_GT(absences, 0U);
  EXPECT_LT(absences, turns / 1000);
}

TEST(burst_slip, makes_no_way_for_a_thread_that_comes_rarely) {
  played all;
  habits always, rarely;
  unsigned absences = 0;
  for (unsigned turn = 0; turn < 100'000; ++turn) {
    all.operate(always, 100);
    absences += all.slip.should_stay_away(always) ? 1 : 0;
    all.operate(rarely, 1);
    all.slip.should_stay_away(rarely);
  }
  EXPECT_LE(absences, burst_slip::trials);
}

TEST(burst_slip, stops_when_bursts_become_short) {
  played all;
  habits a, b;
  for (unsigned turn = 0; turn < 100; ++turn) {
    habits& here = turn % 2 == 0 ? a : b;
    all.operate(here, 100);
    all.slip.should_stay_away(here);
  }
  unsigned absences = 0;
  for (unsigned turn = 0; turn < 10'000; ++turn) {
    habits& here = turn % 2 == 0 ? a : b;
    all.operate(here, 2);
    absences += all.slip.should_stay_away(here) ? 1 : 0;
  }
  EXPECT_GE(absences, 2 * (burst_slip::trust - burst_slip::trials));
  EXPECT_LE(absences, 2 * (burst_slip::trust + burst_slip::trials) + 10'000 / 32);
}

/// A burst counts even if the other thread had an operation between it and the wait.
TEST(burst_slip, remembers_a_burst_until_the_thread_waits) {
  played all;
  habits a, b;
  const auto burst_then_one = [&](habits& here, habits& other) {
    all.operate(here, 100);
    all.operate(other, 1);
    all.operate(here, 1);
    return all.slip.should_stay_away(here);
  };
  burst_then_one(a, b);
  EXPECT_TRUE(burst_then_one(b, a));
  for (unsigned turn = 0; turn < 100; ++turn) EXPECT_TRUE(turn % 2 == 0 ? burst_then_one(a, b) : burst_then_one(b, a));
}

}  // namespace
