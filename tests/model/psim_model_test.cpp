// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim under the checker: small programs in which each thread adds distinct numbers to a counter.
//
// Checked     by the engine: data races, which here means that results are never overwritten while their owner reads
//             them; leaks. Here: results and the last state are those of one order of all operations, which keeps the
//             order of each thread and of time; and no function is called on a state that never was, or with the
//             argument of another, not even where it has no effect.
// Steps       an operation takes a bounded number, whatever the others do.
// Stopped     a thread that stops forever, before each of its steps in turn, keeps no other from finishing.
#include <gtest/gtest.h>
#include <muster/combine/psim.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;

constexpr std::uint64_t start = std::uint64_t{1} << 62;

/// A counter of one or two words. Both words always change together, so a copy of two different states is noticed.
template <unsigned Words>
struct counter {
  counter() { at.fill(start); }
  std::array<std::uint64_t, Words> at;
};

/// The operations of a thread are of two kinds in turn, and the numbers of each kind are its own.
constexpr std::uint64_t number_of(unsigned thread, unsigned operation) {
  return std::uint64_t{1} << (8 * (thread - 1) + operation);
}
constexpr std::uint64_t numbers_of_kind[] = {0x555555, 0xaaaaaa};

template <unsigned Words, unsigned Kind>
struct adding {
  std::uint64_t what;
  std::uint64_t operator()(counter<Words>& c) const noexcept {
    if ((what & ~numbers_of_kind[Kind]) != 0)
      mm::engine::running().fail("a function is called with the argument of another");
    const std::uint64_t before = c.at[0];
    for (std::uint64_t& word : c.at) {
      if (word != before) mm::engine::running().fail("an operation is executed on a mixture of two states");
      word += what;
    }
    if ((before & what) != 0) mm::engine::running().fail("an operation is executed on a state that has it already");
    return before;
  }
};

struct done {
  unsigned thread;
  std::uint64_t number, answer;
  std::uint64_t begin, end;
};

/// The operations of each thread: 'a' adds, 'l' loads, 'e' adds and, after the last addition of all, ends the object.
using script = std::vector<std::string>;

struct setup {
  script threads;
  bool alone_first = true;
};

template <unsigned Words>
class run {
 public:
  explicit run(const setup& s)
      : setup_(s),
        object_(std::in_place,
                muster::combine_options{.threads = static_cast<unsigned>(s.threads.size()) + 1, .batch = 1},
                muster::psim_options{.alone_first = s.alone_first}) {
    all_.reserve(16);
    for (unsigned t = 0; t < s.threads.size(); ++t)
      for (unsigned i = 0; i < s.threads[t].size(); ++i)
        if (s.threads[t][i] == 'e') everything_ |= number_of(t + 1, i);
    static_cast<void>(object_->load());  // leaves this thread's records and results, which others must not mistake
  }

  /// Returns false if a thread has stopped forever.
  bool everything_finished() {
    std::vector<unsigned> threads;
    for (const std::string& commands : setup_.threads)
      threads.push_back(mm::spawn([this, &commands] { go(commands); }));
    bool stopped = false;
    for (const unsigned t : threads) stopped |= !mm::join(t);
    if (object_ && !stopped) object_->check();
    const std::uint64_t last = object_ ? object_->load().at[0] : last_;
    const mm::heap::untracked aside;
    check_history(stopped, last);
    return !stopped;
  }

 private:
  void go(const std::string& commands) {
    mm::engine& e = mm::engine::running();
    const unsigned self = e.current();
    for (unsigned i = 0; i < commands.size(); ++i) {
      e.begin_operation();
      const std::uint64_t begin = e.steps() + 1;
      const std::uint64_t number = commands[i] != 'l' ? number_of(self, i) : 0;
      const std::uint64_t answer = commands[i] == 'l' ? object_->load().at[Words - 1]
                                   : i % 2 == 0       ? object_->apply(adding<Words, 0>{number})
                                                      : object_->apply(adding<Words, 1>{number});
      e.end_operation();
      if (commands[i] == 'e' && (answer | number) == everything_) {
        last_ = object_->load().at[0];
        object_.reset();
      }
      const mm::heap::untracked aside;
      all_.push_back({self, number, answer, begin, e.steps()});
    }
  }

  /// The answers say in which order the operations were: each answer is the sum of all numbers before.
  void check_history(bool stopped, std::uint64_t last) {
    mm::engine& e = mm::engine::running();
    const bool by_time = !e.was_stale();
    std::uint64_t known = start;
    for (const done& d : all_) known |= d.number;
    if (stopped ? (last & known) != known : last != known) e.fail("an operation is lost, or executed twice");
    std::vector<std::uint64_t> states{last};
    for (const done& d : all_) states.push_back(d.answer), states.push_back(d.answer | d.number);
    std::sort(states.begin(), states.end(),
              [](auto a, auto b) { return __builtin_popcountll(a) < __builtin_popcountll(b); });
    for (std::size_t i = 1; i < states.size(); ++i)
      if ((states[i - 1] & states[i]) != states[i - 1])
        e.fail("two operations have seen states that exclude each other");
    for (const done& a : all_) {
      if ((a.answer & a.number) != 0) e.fail("an operation has found its own effect");
      for (const done& b : all_) {
        if (&a != &b && a.number != 0 && b.number != 0 && a.answer == b.answer)
          e.fail("two operations have found the same state");
        const bool comes_before = a.thread == b.thread ? a.end < b.begin : by_time && a.end < b.begin;
        const std::uint64_t after = a.answer | a.number;
        if (comes_before && (b.answer & after) != after) e.fail("an operation does not see one that came before it");
      }
    }
  }

  const setup& setup_;
  std::optional<muster::psim<counter<Words>>> object_;
  std::uint64_t everything_ = start;
  std::uint64_t last_ = 0;
  std::vector<done> all_;
};

template <unsigned Words>
std::function<void()> program(const setup& s) {
  return [s] {
    auto now = std::make_unique<run<Words>>(s);
    // An object in which a thread has stopped cannot be destroyed.
    if (!now->everything_finished()) static_cast<void>(now.release());
  };
}

void search(const mm::limits& within, const setup& s) {
  muster_model_test::expect_right(within, "additions", program<1>(s));
}

class psim : public ::testing::TestWithParam<bool> {
 protected:
  const bool alone_first = GetParam();
};

INSTANTIATE_TEST_SUITE_P(with, psim, ::testing::Bool(),
                         [](const auto& at) { return at.param ? "attempts_alone_first" : "all_announced"; });

TEST_P(psim, two_threads_one_operation_each) {
  search({.preemptions = 2, .stale = 1}, {{"a", "a"}, alone_first});
  search({.preemptions = 3, .stale = 0}, {{"a", "a"}, alone_first});
}

TEST_P(psim, two_threads_two_operations_each) { search({.preemptions = 2, .stale = 0}, {{"aa", "aa"}, alone_first}); }

TEST_P(psim, one_thread_loads) { search({.preemptions = 2, .stale = 1}, {{"l", "aa"}, alone_first}); }

TEST_P(psim, ends_with_its_last_user) {
  search({.preemptions = 2, .stale = 1}, {{"e", "e"}, alone_first});
  search({.preemptions = 2, .stale = 0}, {{"ee", "e"}, alone_first});
}

class psim_by_chance : public psim {};

INSTANTIATE_TEST_SUITE_P(with, psim_by_chance, ::testing::Bool(),
                         [](const auto& at) { return at.param ? "attempts_alone_first" : "all_announced"; });

TEST_P(psim_by_chance, three_threads) {
  for (const script& threads : {script{"aa", "aa", "aa"}, script{"al", "aa", "la"}, script{"aaaa", "aaaa"}})
    for (const auto how : {mm::strategy::random, mm::strategy::priorities})
      search({.how = how, .executions = 10'000, .depth = 4}, {threads, alone_first});
}

// A thread stops forever before any of its steps, also in the middle of an attempt: the others finish.
TEST_P(psim, a_thread_that_stops_keeps_no_other_from_finishing) {
  search({.preemptions = 2, .stale = 0, .freeze = 1}, {{"a", "a"}, alone_first});
  search({.preemptions = 1, .stale = 0, .freeze = 1}, {{"aa", "aa"}, alone_first});
  search({.preemptions = 1, .stale = 0, .freeze = 1}, {{"a", "a", "al"}, alone_first});
}

// Wait-free: no operation needs more steps when the others do more.
TEST_P(psim, operations_have_a_bound) {
  for (const script& threads : {script{"a", "aa"}, script{"a", "aaaaaa"}}) {
    const setup s{threads, alone_first};
    std::uint64_t longest = 0;
    for (const auto how : {mm::strategy::random, mm::strategy::priorities}) {
      const mm::result r = mm::explore({.how = how, .executions = 10'000, .depth = 5}, program<1>(s));
      ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
      longest = std::max(longest, r.longest_operations[1]);
    }
    // As in psim.hpp, for three threads and batches of one, and records of three words; and to record, announce and
    // find the result; and, as it is the thread's first, to be counted.
    constexpr std::uint64_t attempt = 2 * 3 + 3 * (2 * 1 + 2) + 4, more = 5, first = 4;
    EXPECT_LE(longest, 3 * attempt + more + first);
    std::cout << "at most " << longest << " steps\n";
  }
}

// No order is stronger than it needs to be, and the programs above would notice if one were weaker.
TEST(orders, are_all_needed) {
  struct survivor {
    const char* what;
    const char* reason;
  };
  const std::vector<survivor> survivors = {
      {"psim::own_group: compare_exchange",
       "matters when a thread's first operation fails twice and is not counted yet"},
      {"psim::load: store release -> relaxed", "the same end of the same edge as in record_request"},
      {"psim::announce: store release -> relaxed", "there is none in batches of one"},
  };
  std::vector<std::function<void()>> programs;
  for (const script& threads : {script{"aaa", "aaa"}, script{"aaaa", "aaaa"}, script{"ee", "eee"}})
    programs.push_back(program<2>({threads, true}));
  std::vector<mm::operation_site> sites;
  for (const auto& p : programs) {
    const auto some = mm::operations_of({.how = mm::strategy::random, .executions = 200}, p);
    sites.insert(sites.end(), some.begin(), some.end());
    ASSERT_FALSE(mm::explore({.how = mm::strategy::random, .executions = 2000}, p).failed);
    ASSERT_FALSE(mm::explore({.how = mm::strategy::priorities, .executions = 2000, .depth = 4}, p).failed);
  }
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  unsigned noticed = 0;
  for (const mm::operation_site& site : sites) {
    if (site.file.find("psim") == std::string::npos) continue;
    for (const mm::mutation& m : mm::mutations_of(site)) {
      if (m.what != mm::mutation::kind::weaker && m.what != mm::mutation::kind::weaker_failure) continue;
      const std::string what = m.describe();
      bool killed = false;
      for (const auto& p : programs)
        for (const auto how : {mm::strategy::random, mm::strategy::priorities})
          killed = killed || mm::explore({.how = how, .executions = 2000, .depth = 4}, p, &m).failed.has_value();
      noticed += killed;
      const bool expected =
          std::any_of(survivors.begin(), survivors.end(), [&](const survivor& s) { return what.starts_with(s.what); });
      EXPECT_TRUE(killed || expected) << what << " is not noticed";
      std::cout << what << (killed ? ": noticed\n" : ": not noticed\n");
    }
  }
  EXPECT_GE(noticed, 9U);
}

}  // namespace
