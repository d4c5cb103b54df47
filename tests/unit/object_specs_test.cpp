// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// object_specs_test.cpp: the specifications of stacks and other objects, and the LIFO monitor, checked: the monitor
// against Wing-Gong-Lowe on random histories, the specifications on histories that are right and on near misses.
#include "../support/object_specs.hpp"
#include "../support/lifo_monitor.hpp"
#include "../support/random_history.hpp"
#include "../support/scale.hpp"
#include "../support/wing_gong_lowe.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster_test {
namespace {

std::string rule_of(const std::string& violation) { return violation.substr(0, violation.find(':')); }

event pushed(std::uint64_t value, std::uint64_t begin, std::uint64_t end) {
  return {0, op::push, value, result::success, begin, end};
}
event popped(std::uint64_t value, std::uint64_t begin, std::uint64_t end) {
  return {1, op::pop, value, result::success, begin, end};
}
event nothing(std::uint64_t begin, std::uint64_t end) { return {1, op::pop, 0, result::empty, begin, end}; }

TEST(LifoMonitor, AgreesWithWingGongLowe) {
  random_source random(11);
  std::size_t linearizable = 0;
  std::map<std::string, std::size_t> by_rule;
  const std::size_t count = scaled(300'000);
  for (std::size_t i = 0; i < count; ++i) {
    history_shape shape;
    shape.lifo = true;
    shape.busy = random.one_in(8);
    shape.threads = static_cast<std::uint32_t>(random.between(2, 4));
    shape.operations = random.between(2, random.one_in(8) ? 14 : 9);
    shape.spacing = random.one_in(3) ? 1 : 16;
    shape.push_percent = random.between(40, 65);
    const std::size_t way = random.below(4);
    std::vector<event> history = way == 3 ? arbitrary_history(random, shape) : linearizable_history(random, shape);
    for (std::size_t n = way == 3 || way == 0 ? 0 : random.between(1, 2); n > 0; --n) mutate(random, shape, history);
    const std::string violation = lifo_violation(history);
    wing_gong_lowe<stack_spec> search;
    ASSERT_EQ(search.linearizable(history), violation.empty()) << violation << '\n' << describe(history);
    linearizable += violation.empty();
    if (!violation.empty()) ++by_rule[rule_of(violation)];
  }
  EXPECT_GT(linearizable, count / 4);
  EXPECT_LT(linearizable, count * 3 / 4);
  for (const char* rule : {"VRepeat", "VFresh", "VWit", "VOrder"}) EXPECT_GT(by_rule[rule], count / 100) << rule;
}

TEST(LifoMonitor, ChecksAHundredThousandOperations) {
  random_source random(12);
  history_shape shape;
  shape.lifo = true;
  shape.threads = 8;
  shape.operations = scaled(100'000);
  const std::vector<event> history = linearizable_history(random, shape);
  EXPECT_EQ(lifo_violation(history), "");
  std::size_t noticed = 0;
  for (int i = 0; i < 20; ++i) {
    std::vector<event> wrong = history;
    for (int n = 0; n < 3; ++n) mutate(random, shape, wrong);
    noticed += !lifo_violation(wrong).empty();
  }
  EXPECT_GT(noticed, 10u);
}

TEST(LifoMonitor, NamesTheBrokenRule) {
  EXPECT_EQ(lifo_violation(std::vector{pushed(1, 0, 1), pushed(2, 2, 3), popped(2, 4, 5), popped(1, 6, 7)}), "");
  EXPECT_EQ(
      lifo_violation(std::vector{pushed(1, 0, 1), pushed(2, 2, 3), popped(1, 4, 5), popped(2, 6, 7)}),
      "VOrder: the stack is never empty between 1 and 6, but no value can have been at the bottom: of 2 values, 1 "
      "among them");
  EXPECT_EQ(rule_of(lifo_violation(std::vector{pushed(1, 0, 1), nothing(2, 3)})), "VWit");
  EXPECT_EQ(lifo_violation(std::vector{pushed(1, 0, 2), nothing(2, 3)}), "");
  EXPECT_EQ(rule_of(lifo_violation(std::vector{pushed(1, 0, 1), popped(1, 2, 3), popped(1, 2, 3)})), "VRepeat");
  EXPECT_EQ(rule_of(lifo_violation(std::vector{popped(1, 0, 1), pushed(1, 2, 3)})), "VFresh");
}

TEST(LifoMonitor, RefusesHistoriesThatItCannotDecide) {
  EXPECT_THROW(lifo_violation(std::vector{pushed(1, 0, 1), pushed(1, 2, 3)}), std::invalid_argument);
  EXPECT_THROW(lifo_violation(std::vector{event{0, op::push, 1, result::pending, 0, never}}), std::invalid_argument);
  EXPECT_THROW(lifo_violation(std::vector{event{0, op::close, 0, result::success, 0, 1}}), std::invalid_argument);
  EXPECT_THROW(lifo_violation(std::vector{event{0, op::push, 1, result::full, 0, 1}}), std::invalid_argument);
}

template <class Spec>
bool accepts(const std::vector<typename Spec::event_type>& history, Spec spec = Spec{}) {
  return wing_gong_lowe<Spec>(std::move(spec)).linearizable(history);
}

TEST(StackSpec, KnowsFullAndPending) {
  const event full{0, op::push, 9, result::full, 2, 3};
  EXPECT_TRUE(accepts({pushed(1, 0, 1), full}, stack_spec(1)));
  EXPECT_FALSE(accepts({pushed(1, 0, 1), full}, stack_spec(2)));
  EXPECT_TRUE(accepts<stack_spec>({pushed(1, 0, 1), {1, op::pop, 0, result::pending, 1, never}, nothing(4, 5)}));
}

call applied(std::uint64_t argument, std::uint64_t answer, std::uint64_t begin, std::uint64_t end) {
  return {0, call::kind::apply, argument, answer, begin, end};
}

TEST(CounterSpec, GivesEachAdditionItsOwnAnswer) {
  EXPECT_TRUE(accepts<counter_spec>({applied(1, 0, 0, 9), applied(5, 1, 0, 9), applied(1, 6, 3, 4)}));
  EXPECT_FALSE(accepts<counter_spec>({applied(1, 0, 0, 9), applied(5, 0, 0, 9)}));     // both were first
  EXPECT_FALSE(accepts<counter_spec>({applied(1, 1, 0, 1), applied(1, 0, 2, 3)}));     // the later was first
  EXPECT_TRUE(accepts<counter_spec>({applied(7, 0, 0, never), applied(1, 7, 2, 3)}));  // pending, but done
  EXPECT_TRUE(accepts<counter_spec>({applied(7, 0, 0, never), applied(1, 0, 2, 3)}));  // and not done
  EXPECT_THROW(accepts<counter_spec>({applied(1, 0, 5, 4)}), std::invalid_argument);
}

TEST(FetchAndMultiplySpec, NoticesOrder) {
  const fetch_and_multiply_spec two(2);
  EXPECT_TRUE(accepts({applied(3, 2, 0, 9), applied(5, 6, 0, 9), applied(7, 30, 0, 9)}, two));
  EXPECT_FALSE(accepts({applied(3, 2, 0, 9), applied(5, 6, 0, 9), applied(7, 14, 0, 9)}, two));
}

call allocated(std::uint64_t size, std::uint64_t address, std::uint64_t begin, std::uint64_t end) {
  return {0, call::kind::allocate, size, address, begin, end};
}
call released(std::uint64_t address, std::uint64_t begin, std::uint64_t end) {
  return {0, call::kind::release, address, 0, begin, end};
}

TEST(AllocatorSpec, KeepsBlocksApart) {
  const allocator_spec spec({.begin = 64, .end = 128, .alignment = 8});
  EXPECT_TRUE(accepts({allocated(16, 64, 0, 1), allocated(8, 80, 0, 1), allocated(40, 88, 2, 3)}, spec));
  EXPECT_FALSE(accepts({allocated(16, 64, 0, 1), allocated(8, 72, 2, 3)}, spec));  // overlap from above
  EXPECT_FALSE(accepts({allocated(8, 72, 0, 1), allocated(16, 64, 2, 3)}, spec));  // and from below
  EXPECT_FALSE(accepts({allocated(8, 68, 0, 1)}, spec));                           // not aligned
  EXPECT_FALSE(accepts({allocated(8, 56, 0, 1)}, spec));                           // before the heap
  EXPECT_FALSE(accepts({allocated(16, 120, 0, 1)}, spec));                         // past its end
  EXPECT_TRUE(accepts({allocated(1'000, 0, 0, 1)}, spec));                         // may fail
  EXPECT_FALSE(accepts({allocated(8, 0, 0, 1)}, allocator_spec({.begin = 64, .end = 128, .may_fail = false})));
  EXPECT_TRUE(accepts({allocated(8, 64, 0, 1), released(64, 2, 9), allocated(8, 64, 3, 4)}, spec));
  EXPECT_FALSE(accepts({allocated(8, 64, 0, 1), released(64, 5, 9), allocated(8, 64, 3, 4)}, spec));  // still live
  EXPECT_FALSE(accepts({allocated(8, 64, 0, 1), released(64, 2, 3), released(64, 4, 5)}, spec));      // twice
  EXPECT_FALSE(accepts({released(64, 0, 1)}, spec));                                                  // foreign
}

struct square {
  std::uint64_t operator()(std::uint64_t asked) const { return asked * asked; }
};

TEST(ExchangeSpec, AnswersEachRequestOnce) {
  using spec = exchange_spec<square>;
  const auto request = [](std::uint64_t number, std::uint64_t asked, std::uint64_t begin, std::uint64_t end) {
    return call{0, call::kind::request, number, asked, begin, end};
  };
  const auto response = [](std::uint64_t number, std::uint64_t answer, std::uint64_t begin, std::uint64_t end) {
    return call{1, call::kind::response, number, answer, begin, end};
  };
  EXPECT_TRUE(accepts<spec>({request(1, 3, 0, 1), request(2, 4, 0, 5), response(2, 16, 4, 6), response(1, 9, 7, 8)}));
  EXPECT_FALSE(accepts<spec>({request(1, 3, 0, 1), response(1, 16, 2, 3)}));                       // a wrong answer
  EXPECT_FALSE(accepts<spec>({request(1, 3, 0, 1), request(2, 4, 0, 1), response(1, 16, 2, 3)}));  // another's
  EXPECT_FALSE(accepts<spec>({request(1, 3, 2, 3), response(1, 9, 0, 1)}));  // before it was asked
  EXPECT_FALSE(accepts<spec>({request(1, 3, 0, 1), response(1, 9, 2, 3), response(1, 9, 4, 5)}));  // twice
  EXPECT_FALSE(accepts<spec>({request(1, 3, 0, 1), request(1, 3, 2, 3)}));  // a number used twice
}

}  // namespace
}  // namespace muster_test
