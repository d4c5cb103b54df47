// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Wakes in a queue between processes, under the checker. No process dies here, so sleepers do not check again after a
// time: a lost wake is a deadlock, which the checker reports.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include "expect_right.hpp"
#include "shared_region.hpp"

#include <functional>
#include <string>

namespace {

using namespace muster_model_test;
namespace shape = muster::shape;

[[noreturn]] void fail(const char* what) { mm::engine::running().fail(what); }

/// Of two programs that use a queue, one sleeps while it waits and the other does not.
template <class Shape>
void sleeper_and_spinner() {
  region<Shape, false> all{1, 2, 3, 3};
  auto spinner = all.template seen_by<muster::wait::spin>();
  const auto push = [&](auto& rings, number value) {
    auto seen = rings.view_of(0);
    for (;;) {
      const auto at = rings.claim_place(0, 1, seen);
      if (at) return rings.publish(1, at, value);
      rings.await_room({}, at.status(), 0, seen);
    }
  };
  const auto pop = [&](auto& rings) {
    for (;;) {
      if (const auto at = rings.claim_item(0, 2)) return *rings.take(2, at);
      rings.await_item({}, [&] { return rings.has_news(); });
    }
  };
  mm::parallel([&] { push(spinner, 1); },
               [&] {
                 if (pop(*all.queue) != 1) fail("another item than the one that was pushed");
               });
  push(spinner, 2);
  mm::parallel([&] { push(*all.queue, 3); },
               [&] {
                 if (pop(spinner) != 2) fail("another item than the first");
               });
  if (pop(spinner) != 3) fail("another item than the second");
}

/// Producers of two rings sleep, and there is room in one of them.
void room_in_one_ring() {
  static constexpr unsigned other = 1;
  region<shape::lanes, false> all{1, 4, 3, 5, other + 1};
  auto& rings = *all.queue;
  const auto push = [&](unsigned seat, unsigned ring, number value) {
    auto seen = rings.view_of(ring);
    for (;;) {
      const auto at = rings.claim_place(ring, seat, seen);
      if (at) return rings.publish(seat, at, value);
      rings.await_room({}, at.status(), ring, seen);
    }
  };
  const auto pop = [&](unsigned ring) {
    const auto at = rings.claim_item(ring, 3);
    if (!at) fail("an item is not there");
    return *rings.take(3, at);
  };
  push(1, 0, 10);
  push(2, other, 20);
  const unsigned first = mm::spawn([&] { push(1, 0, 11); });
  const unsigned second = mm::spawn([&] { push(2, other, 21); });
  if (pop(other) != 20) fail("another item than the first of its ring");
  mm::join(second);
  if (pop(0) != 10) fail("another item than the first of its ring");
  mm::join(first);
  if (pop(0) != 11 || pop(other) != 21) fail("another item than the second of its ring");
  rings.check();
}

void expect_no_deadlock(const std::string& name, const std::function<void()>& program) {
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    expect_right(mm::limits{.preemptions = 2, .stale = 1, .executions = 200'000}, name, program);
    for (const auto how : {mm::strategy::random, mm::strategy::priorities})
      expect_right(mm::limits{.how = how, .executions = 20'000, .depth = 4}, name, program);
  }
}

TEST(shared_queue_waiting, is_ended_by_programs_that_wait_in_another_way) {
  expect_no_deadlock("spsc: a sleeper and a spinner", [] { sleeper_and_spinner<shape::spsc>(); });
  expect_no_deadlock("mpmc: a sleeper and a spinner", [] { sleeper_and_spinner<shape::mpmc>(); });
}

TEST(shared_queue_waiting, is_ended_by_room_in_its_own_ring) {
  expect_no_deadlock("lanes: room in the second", [] { room_in_one_ring(); });
}

}  // namespace
