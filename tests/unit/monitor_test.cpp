// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// monitor_test.cpp: the checkers of histories, checked. Wing-Gong-Lowe is compared with trying every order, the
// FIFO monitor with Wing-Gong-Lowe, and both must find what is wrong with queues that have a seeded fault.
#include "../support/fifo_monitor.hpp"
#include "../support/history.hpp"
#include "../support/locked_queue.hpp"
#include "../support/queue_examples.hpp"
#include "../support/queue_spec.hpp"
#include "../support/random_history.hpp"
#include "../support/scale.hpp"
#include "../support/wing_gong_lowe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace muster_test {
namespace {

/// Returns true if the events in this order respect time and the specification.
bool explains(const std::vector<event>& history, const std::vector<std::size_t>& order, queue_rules rules) {
  queue_spec spec(rules);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (history[order[j]].end < history[order[i]].begin) return false;
    }
    if (!spec.apply(history[order[i]])) return false;
  }
  return true;
}

bool linearizable_by_trying_all(const std::vector<event>& history, queue_rules rules) {
  std::vector<std::size_t> order(history.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    if (explains(history, order, rules)) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

/// The next random history: of every four, one is linearizable, two are mutated, one is arbitrary.
std::vector<event> sample(random_source& random, history_shape& shape, std::size_t most) {
  shape.threads = static_cast<std::uint32_t>(random.between(2, 4));
  shape.operations = random.between(2, most);
  shape.spacing = random.one_in(3) ? 1 : 16;
  const std::size_t way = random.below(4);
  if (way == 3) return arbitrary_history(random, shape);
  std::vector<event> history = linearizable_history(random, shape);
  for (std::size_t i = way == 0 ? 0 : random.between(1, 2); i > 0; --i) mutate(random, shape, history);
  return history;
}

struct tally {
  std::size_t linearizable = 0, rejected = 0;
  std::size_t missed = 0;  // the monitor accepted what Wing-Gong-Lowe rejected
  std::map<std::string, std::size_t> by_rule;
};

std::string rule_of(const std::string& violation) { return violation.substr(0, violation.find(':')); }

/// Compares the monitor with Wing-Gong-Lowe on random histories. `vary` sets the shape of each before it is made.
template <class Vary>
tally compare(std::size_t count, std::uint64_t seed, std::size_t most, Vary vary) {
  random_source random(seed);
  tally seen;
  for (std::size_t i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i) {
    history_shape shape;
    vary(random, shape);
    const std::vector<event> history = sample(random, shape, most);
    const std::string violation = fifo_violation(history, shape.rules);
    wing_gong_lowe<queue_spec> search{queue_spec(shape.rules)};
    const bool linearizable = search.linearizable(history);
    ++(linearizable ? seen.linearizable : seen.rejected);
    if (linearizable) {
      [&] {
        ASSERT_TRUE(violation.empty()) << violation << "\nin the linearizable history\n" << describe(history);
        ASSERT_EQ(search.order().size(), history.size());
        ASSERT_TRUE(explains(history, search.order(), shape.rules)) << describe(history);
      }();
    } else if (!violation.empty()) {
      ++seen.by_rule[rule_of(violation)];
    } else {
      ++seen.missed;
      std::size_t pushed = 0;
      for (const event& e : history) pushed += e.kind == op::push && e.outcome == result::success;
      [&] {
        ASSERT_GE(pushed, shape.rules.capacity) << "accepted, capacity never reached, but not linearizable:\n"
                                                << describe(history);
      }();
    }
  }
  ::testing::Test::RecordProperty("linearizable", std::to_string(seen.linearizable));
  ::testing::Test::RecordProperty("rejected", std::to_string(seen.rejected));
  ::testing::Test::RecordProperty("missed", std::to_string(seen.missed));
  return seen;
}

TEST(WingGongLowe, AgreesWithTryingEveryOrder) {
  random_source random(1);
  std::size_t rejected = 0;
  const std::size_t count = scaled(30'000);
  for (std::size_t i = 0; i < count; ++i) {
    history_shape shape;
    shape.close = random.one_in(2);
    shape.busy = random.one_in(4);
    if (random.one_in(2)) shape.rules = {random.between(1, 2), random.one_in(4)};
    const std::vector<event> history = sample(random, shape, 5);
    wing_gong_lowe<queue_spec> search{queue_spec(shape.rules)};
    const bool expected = linearizable_by_trying_all(history, shape.rules);
    ASSERT_EQ(search.linearizable(history), expected) << describe(history);
    rejected += !expected;
  }
  EXPECT_GT(rejected, count / 10);
  EXPECT_LT(rejected, count * 9 / 10);
}

TEST(WingGongLowe, PendingOperationsMayTakeEffectOrNot) {
  wing_gong_lowe<queue_spec> search;
  const event push{0, op::push, 7, result::pending, 1, never};
  const event pop{1, op::pop, 0, result::pending, 2, never};
  const event got{2, op::pop, 7, result::success, 5, 6};
  const event nothing{2, op::pop, 0, result::empty, 5, 6};
  const event early{2, op::pop, 7, result::success, 0, 0};
  EXPECT_TRUE(search.linearizable(std::vector{push}));
  EXPECT_TRUE(search.linearizable(std::vector{push, got}));
  EXPECT_TRUE(search.linearizable(std::vector{push, nothing}));
  EXPECT_TRUE(search.linearizable(std::vector{push, pop, nothing}));
  EXPECT_FALSE(search.linearizable(std::vector{push, early}));
  const event pushed{0, op::push, 7, result::success, 1, 3};
  EXPECT_TRUE(search.linearizable(std::vector{pushed, pop, nothing}));  // the pending pop took 7
  EXPECT_FALSE(search.linearizable(std::vector{pushed, nothing}));
  EXPECT_EQ(search.order().size(), 1u);  // how far it came
  const event close{3, op::close, 0, result::pending, 1, never};
  const event refused{0, op::push, 8, result::closed, 5, 6};
  EXPECT_TRUE(search.linearizable(std::vector{close, refused}));
  EXPECT_TRUE(search.linearizable(std::vector{close, pushed}));
}

TEST(FifoMonitor, AgreesOnUnboundedQueues) {
  const std::size_t count = scaled(250'000);
  const tally seen = compare(count, 2, 8, [](random_source& random, history_shape& shape) {
    shape.push_percent = random.between(40, 65);
    shape.busy = random.one_in(8);
  });
  EXPECT_EQ(seen.missed, 0u);
  EXPECT_GT(seen.linearizable, count / 4);
  EXPECT_GT(seen.rejected, count / 4);
  for (const char* rule : {"VRepeat", "VFresh", "VOrd", "VWit"}) EXPECT_GT(seen.by_rule.at(rule), count / 100) << rule;
}

TEST(FifoMonitor, AgreesOnUnboundedQueuesThatAreClosed) {
  const std::size_t count = scaled(150'000);
  const tally seen = compare(count, 3, 8, [](random_source& random, history_shape& shape) {
    shape.close = true;
    shape.push_percent = random.between(40, 70);
  });
  EXPECT_EQ(seen.missed, 0u);
  EXPECT_GT(seen.linearizable, count / 5);
  EXPECT_GT(seen.rejected, count / 5);
  for (const char* rule : {"VRepeat", "VFresh", "VClosed", "VDrain", "VOrd", "VWit"}) {
    EXPECT_GT(seen.by_rule.at(rule), count / 200) << rule;
  }
}

TEST(FifoMonitor, NeverWrongAndSeldomTooLenientOnBoundedQueues) {
  const std::size_t count = scaled(150'000);
  const tally seen = compare(count, 4, 8, [](random_source& random, history_shape& shape) {
    shape.rules.capacity = random.between(1, 3);
    shape.rules.full_may_be_early = random.one_in(4);
    shape.close = random.one_in(3);
    shape.busy = random.one_in(8);
    shape.push_percent = random.between(50, 75);
  });
  EXPECT_GT(seen.linearizable, count / 5);
  EXPECT_GT(seen.rejected, count / 5);
  for (const char* rule : {"VCapacity", "VFull"}) EXPECT_GT(seen.by_rule.at(rule), count / 200) << rule;
  // fifo_monitor.hpp says why there are any. The seed is fixed.
  EXPECT_LT(seen.missed, seen.rejected / 1'000);
}

/// Both checkers must agree on the example, and the monitor must say exactly this.
void expect_both(const example& e) {
  EXPECT_EQ(fifo_violation(e.history, e.rules), e.expected) << describe(e.history);
  wing_gong_lowe<queue_spec> search{queue_spec(e.rules)};
  EXPECT_EQ(search.linearizable(e.history), e.expected.empty()) << describe(e.history);
}

TEST(FifoMonitor, NamesTheBrokenRuleAndTheOperations) {
  for (const example& e : queue_examples()) expect_both(e);
}

TEST(FifoMonitor, AcceptsTheExampleOfItsDocumentedLimit) {
  const std::vector<event> history = {push(0, 1, 0, 2), pop(2, 1, 8, 10), push(1, 2, 1, 6), pop(3, 2, 4, 9)};
  EXPECT_EQ(fifo_violation(history, {1, false}), "");
  EXPECT_FALSE(wing_gong_lowe{queue_spec({1, false})}.linearizable(history));
}

TEST(Checkers, RefuseHistoriesThatTheyCannotJudge) {
  const auto refuse = [](const std::vector<event>& history) {
    EXPECT_THROW(fifo_violation(history), std::invalid_argument) << describe(history);
  };
  refuse({push(0, 5, 1, 2), push(0, 5, 3, 4)});
  refuse({make(op::push, 0, 5, result::pending, 1, never)});
  refuse({push(0, 5, 2, 1)});
  refuse({push(0, 5, 1, 2, result::empty)});
  refuse({pop_none(0, 1, 2, result::full)});
  refuse({make(op::close, 0, 0, result::busy, 1, 2)});
  wing_gong_lowe<queue_spec> search;
  EXPECT_THROW(search.linearizable(std::vector{push(0, 5, 2, 1)}), std::invalid_argument);
  EXPECT_THROW(search.linearizable(std::vector(65, push(0, 5, 1, 2))), std::length_error);
  recording<exact_clock> record(1, 1);
  record.log(0).invoke(op::close);
  EXPECT_EQ(record.history().at(0).outcome, result::pending);
  EXPECT_THROW(record.log(0).invoke(op::close), std::length_error);
}

TEST(FifoMonitor, FindsOneWrongOperationAmongMillions) {
  random_source random(5);
  for (const std::size_t capacity : {std::size_t{256}, unbounded}) {
    const history_shape shape{.threads = 8, .operations = scaled(2'000'000), .rules = {capacity, false}, .busy = true};
    std::vector<event> history = linearizable_history(random, shape);
    ASSERT_EQ(fifo_violation(history, shape.rules), "");
    std::vector<std::size_t> pops;
    for (std::size_t i = 0; i < history.size(); ++i) {
      if (history[i].kind == op::pop && history[i].outcome == result::success) pops.push_back(i);
    }
    event& early = history[pops[pops.size() / 2]];
    event& late = history[pops[pops.size() / 2 + 300]];
    std::swap(early.value, late.value);
    EXPECT_FALSE(fifo_violation(history, shape.rules).empty());
    std::swap(early.value, late.value);
    early.outcome = result::empty;
    EXPECT_EQ(rule_of(fifo_violation(history, shape.rules)), "VOrd");
  }
}

/// Five threads on a queue of 64: the last one alone, then four at once, then the last one closes and drains.
template <class Clock>
std::vector<event> run(fault seeded, std::size_t operations) {
  locked_queue queue({64, false}, seeded);
  recording<Clock> record(5, operations + 2'000);
  const auto push = [&](std::size_t thread, std::uint64_t value) {
    record.log(thread).invoke(op::push, value);
    record.log(thread).respond(queue.push(value));
  };
  const auto pop = [&](std::size_t thread) {
    std::uint64_t value = 0;
    record.log(thread).invoke(op::pop);
    const result outcome = queue.pop(value);
    record.log(thread).respond(outcome, value);
    return outcome;
  };
  std::uint64_t next = 1;
  for (int i = 0; i < 32; ++i) push(4, next++);
  for (int i = 0; i < 256; ++i) push(4, next++), pop(4);
  for (int i = 0; i < 40; ++i) push(4, next++);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < operations; ++i) {
        if (t < 2) push(t, (t + 1) << 32 | i);
        else pop(t);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < 8; ++i) push(4, next++);
  record.log(4).invoke(op::close);
  queue.close();
  record.log(4).respond(result::success);
  push(4, next++);
  for (int i = 0; i < 1'000 && pop(4) != result::closed; ++i) continue;
  return record.history();
}

template <class Clock>
void catch_every_fault() {
  const queue_rules rules{64, false};
  const std::vector<event> correct = run<Clock>(fault::none, scaled(50'000));
  EXPECT_EQ(fifo_violation(correct, rules), "");
  EXPECT_EQ(correct.back().outcome, result::closed);
  const std::map<fault, std::string> rules_of_faults = {
      {fault::newest_first, "VOrd"},        {fault::swapped, "VOrd"},
      {fault::false_empty, "VWit VClosed"},  // the second when the last false empty comes after the close
      {fault::false_full, "VFull"},         {fault::over_capacity, "VCapacity"},
      {fault::lost_item, "VDrain"},         {fault::doubled_item, "VRepeat"},
      {fault::push_after_close, "VClosed"}, {fault::early_closed, "VDrain"},
  };
  for (const auto& [seeded, rule] : rules_of_faults) {
    const std::string violation = fifo_violation(run<Clock>(seeded, 500), rules);
    ASSERT_FALSE(violation.empty()) << "fault " << static_cast<int>(seeded);
    EXPECT_NE(rule.find(rule_of(violation)), std::string::npos) << violation;
  }
}

TEST(FifoMonitor, CatchesSeededFaultsWithExactStamps) { catch_every_fault<exact_clock>(); }

TEST(FifoMonitor, CatchesSeededFaultsWithCheapStamps) { catch_every_fault<cheap_clock>(); }

}  // namespace
}  // namespace muster_test
