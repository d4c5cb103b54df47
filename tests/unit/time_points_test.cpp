// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that wait up to a point in time, or for a while, with any clock and representation: narrow, coarse,
// too fine to hold the time of the clock, floating. The past returns at once, the future not before; nothing overflows.
#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>
#include <thread>
#include <type_traits>

namespace {

using namespace std::chrono;
using namespace std::chrono_literals;
using muster::queue_status;

using queue = muster::mpmc_queue<int, muster::layout::packed, muster::wait::park>;

/// A clock in seconds since it was first asked, in floating point.
struct coarse_clock {
  using rep = float;
  using period = std::ratio<1>;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<coarse_clock>;
  static time_point now() {
    static const auto first = steady_clock::now();
    return time_point(duration(steady_clock::now() - first));
  }
};

using spans = ::testing::Types<duration<std::int64_t, std::nano>, duration<std::int64_t, std::pico>,
                               duration<std::int64_t, std::ratio<3600>>, duration<std::uint64_t, std::micro>,
                               duration<std::int32_t, std::ratio<86400>>, duration<std::int8_t>,
                               duration<float, std::ratio<3600>>, duration<double, std::nano>>;

/// Neither side of a queue waits, and an item that is there is popped.
template <class Clock, class Span>
void expect_no_wait(time_point<Clock, Span> when) {
  queue empty(1), full(1);
  ASSERT_EQ(full.push(1), queue_status::success);
  EXPECT_EQ(empty.pop_until(when).status(), queue_status::empty);
  EXPECT_EQ(full.push_until(2, when), queue_status::full);
  EXPECT_EQ(full.pop_until(when).value_or(0), 1);
  EXPECT_EQ(empty.try_pop().status(), queue_status::empty);
}

template <class Pop>
void expect_wait(Pop pop) {
  queue q(1);
  const std::jthread producer([&q] {
    std::this_thread::sleep_for(20ms);
    q.push(7);
  });
  EXPECT_EQ(pop(q).value_or(0), 7);
}

template <class Clock, class Span>
void expect_right_points() {
  using point = time_point<Clock, Span>;
  using rep = typename Span::rep;
  expect_no_wait(point::min());
  expect_no_wait(point(Span(0)));
  if constexpr (std::is_signed_v<rep>) expect_no_wait(point(Span(-100)));
  if constexpr (std::numeric_limits<rep>::has_quiet_NaN)
    expect_no_wait(point(Span(std::numeric_limits<rep>::quiet_NaN())));
  const point last = point::max();
  const duration<double> left =
      duration<double>(last.time_since_epoch()) - duration<double>(Clock::now().time_since_epoch());
  if (left > 1min) expect_wait([last](queue& q) { return q.pop_until(last); });
  if (left < -1s) expect_no_wait(last);
}

template <class Span>
class time_points : public ::testing::Test {};
TYPED_TEST_SUITE(time_points, spans);

TYPED_TEST(time_points, of_the_steady_clock) { expect_right_points<steady_clock, TypeParam>(); }
TYPED_TEST(time_points, of_the_system_clock) { expect_right_points<system_clock, TypeParam>(); }
TYPED_TEST(time_points, of_a_coarse_clock) { expect_right_points<coarse_clock, TypeParam>(); }

template <class Clock>
class a_clock : public ::testing::Test {};
using clocks = ::testing::Types<steady_clock, system_clock, coarse_clock>;
TYPED_TEST_SUITE(a_clock, clocks);

TYPED_TEST(a_clock, ends_no_wait_early) {
  const auto when = TypeParam::now() + duration_cast<typename TypeParam::duration>(30ms);
  queue empty(1);
  EXPECT_EQ(empty.pop_until(when).status(), queue_status::empty);
  EXPECT_GE(TypeParam::now(), when);
}

/// Takes twice as long as others for a second.
struct slow_clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<slow_clock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() { return time_point(steady_clock::now().time_since_epoch() / 2); }
};

TEST(a_clock_of_its_own, ends_no_wait_early) {
  queue empty(1), full(1);
  ASSERT_EQ(full.push(1), queue_status::success);
  const auto soon = slow_clock::now() + 5ms;
  EXPECT_EQ(empty.pop_until(soon).status(), queue_status::empty);
  EXPECT_GE(slow_clock::now(), soon);
  const auto later = slow_clock::now() + 5ms;
  EXPECT_EQ(full.push_until(2, later), queue_status::full);
  EXPECT_GE(slow_clock::now(), later);
}

template <class Span>
class durations : public ::testing::Test {};
TYPED_TEST_SUITE(durations, spans);

TYPED_TEST(durations, that_are_not_positive_end_at_once) {
  using rep = typename TypeParam::rep;
  queue empty(1), full(1);
  ASSERT_EQ(full.push(1), queue_status::success);
  const auto expect_end = [&](TypeParam span) {
    EXPECT_EQ(empty.pop_for(span).status(), queue_status::empty);
    EXPECT_EQ(full.push_for(2, span), queue_status::full);
  };
  expect_end(TypeParam::min());
  expect_end(TypeParam(0));
  if constexpr (std::is_signed_v<rep>) expect_end(TypeParam(-1));
  if constexpr (std::numeric_limits<rep>::has_quiet_NaN) expect_end(TypeParam(std::numeric_limits<rep>::quiet_NaN()));
}

TYPED_TEST(durations, that_are_the_longest_do_not_end) {
  expect_wait([](queue& q) { return q.pop_for(TypeParam::max()); });
  using rep = typename TypeParam::rep;
  if constexpr (std::numeric_limits<rep>::has_infinity)
    expect_wait([](queue& q) { return q.pop_for(TypeParam(std::numeric_limits<rep>::infinity())); });
}

}  // namespace
