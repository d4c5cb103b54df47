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

template <class Clock, class Rep, class Period>
struct unit {
  using clock = Clock;
  using span = duration<Rep, Period>;
  using point = time_point<Clock, span>;
};
template <class Clock>
using units_of =
    ::testing::Types<unit<Clock, std::int64_t, std::nano>, unit<Clock, std::int64_t, std::pico>,
                     unit<Clock, std::uint64_t, std::micro>, unit<Clock, std::int8_t, std::ratio<1>>,
                     unit<Clock, std::int32_t, std::ratio<86400>>, unit<Clock, std::int64_t, std::ratio<3600>>,
                     unit<Clock, float, std::ratio<3600>>, unit<Clock, double, std::nano>>;

template <class Unit>
class a_point : public ::testing::Test {
 protected:
  using point = typename Unit::point;
  using span = typename Unit::span;

  static double seconds_left(point when) {
    return (duration<double>(when.time_since_epoch()) - duration<double>(Unit::clock::now().time_since_epoch()))
        .count();
  }
  /// Neither side of a queue may wait. (A deadline that is taken for another never comes.)
  static void expect_no_wait(point when) {
    queue empty(1), full(1);
    ASSERT_EQ(full.push(1), queue_status::success);
    EXPECT_EQ(empty.pop_until(when).status(), queue_status::empty);
    EXPECT_EQ(full.push_until(2, when), queue_status::full);
    int out[2] = {};
    EXPECT_EQ(full.pop_until(when).value_or(0), 1) << "what is there comes, however late it is";
    EXPECT_EQ(empty.try_pop_n(out, 2), 0U);
  }
  /// Waits until something happens.
  static void expect_wait(point when) {
    queue q(1);
    const std::jthread producer([&q] {
      std::this_thread::sleep_for(20ms);
      q.push(7);
    });
    EXPECT_EQ(q.pop_until(when).value_or(0), 7);
  }
};
template <class Unit>
class a_point_of_steady_clock : public a_point<Unit> {};
template <class Unit>
class a_point_of_system_clock : public a_point<Unit> {};
template <class Unit>
class a_point_of_a_coarse_clock : public a_point<Unit> {};

#define MUSTER_TEST_POINTS(suite, clock)                                                                    \
  TYPED_TEST_SUITE(suite, units_of<clock>);                                                                 \
  TYPED_TEST(suite, that_is_the_first_of_all_has_passed) { this->expect_no_wait(TypeParam::point::min()); } \
  TYPED_TEST(suite, of_the_past_has_passed) {                                                               \
    this->expect_no_wait(typename TypeParam::point(typename TypeParam::span(0)));                           \
    if constexpr (std::is_signed_v<typename TypeParam::span::rep>)                                          \
      this->expect_no_wait(typename TypeParam::point(typename TypeParam::span(-100)));                      \
  }                                                                                                         \
  TYPED_TEST(suite, that_is_the_last_of_all_comes_late_or_has_passed) {                                     \
    const auto last = TypeParam::point::max();                                                              \
    if (this->seconds_left(last) > 60) this->expect_wait(last);                                             \
    if (this->seconds_left(last) < -1) this->expect_no_wait(last);                                          \
  }                                                                                                         \
  TYPED_TEST(suite, that_is_no_number_has_passed) {                                                         \
    using rep = typename TypeParam::span::rep;                                                              \
    if constexpr (std::numeric_limits<rep>::has_quiet_NaN)                                                  \
      this->expect_no_wait(                                                                                 \
          typename TypeParam::point(typename TypeParam::span(std::numeric_limits<rep>::quiet_NaN())));      \
  }

MUSTER_TEST_POINTS(a_point_of_steady_clock, steady_clock)
MUSTER_TEST_POINTS(a_point_of_system_clock, system_clock)
MUSTER_TEST_POINTS(a_point_of_a_coarse_clock, coarse_clock)

template <class Clock>
class a_clock : public ::testing::Test {};
using clocks = ::testing::Types<steady_clock, system_clock, coarse_clock>;
TYPED_TEST_SUITE(a_clock, clocks);

TYPED_TEST(a_clock, is_not_ahead_of_its_time) {
  const auto when = TypeParam::now() + duration_cast<typename TypeParam::duration>(30ms);
  queue empty(1);
  EXPECT_EQ(empty.pop_until(when).status(), queue_status::empty);
  EXPECT_GE(TypeParam::now(), when);
}

template <class Span>
class a_while : public ::testing::Test {};
using spans = ::testing::Types<duration<std::int64_t, std::nano>, duration<std::int64_t, std::pico>,
                               duration<std::int8_t, std::ratio<1>>, duration<std::int32_t, std::ratio<86400>>,
                               duration<float, std::ratio<3600>>, duration<double, std::nano>>;
TYPED_TEST_SUITE(a_while, spans);

TYPED_TEST(a_while, that_is_not_positive_is_over) {
  using rep = typename TypeParam::rep;
  queue empty(1);
  for (const TypeParam span : {TypeParam::min(), TypeParam(-1), TypeParam(0)}) {
    EXPECT_EQ(empty.pop_for(span).status(), queue_status::empty);
    queue full(1);
    ASSERT_EQ(full.push(1), queue_status::success);
    EXPECT_EQ(full.push_for(2, span), queue_status::full);
  }
  if constexpr (std::numeric_limits<rep>::has_quiet_NaN) {
    EXPECT_EQ(empty.pop_for(TypeParam(std::numeric_limits<rep>::quiet_NaN())).status(), queue_status::empty);
  }
}

TYPED_TEST(a_while, that_is_the_longest_lasts) {
  queue q(1);
  const std::jthread producer([&q] {
    std::this_thread::sleep_for(20ms);
    q.push(7);
  });
  using rep = typename TypeParam::rep;
  if constexpr (std::numeric_limits<rep>::has_infinity)
    EXPECT_EQ(q.pop_for(TypeParam(std::numeric_limits<rep>::infinity())).value_or(0), 7);
  else EXPECT_EQ(q.pop_for(TypeParam::max()).value_or(0), 7);
}

}  // namespace
