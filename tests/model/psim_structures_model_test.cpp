// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_stack and psim_queue under the checker: small programs in which each thread pushes distinct numbers and pops.
// Chains of one node: what a thread has freed is used again at once, also by other threads.
//
// Checked     by the engine: data races, leaks, the use of what has ended. Here: whole histories are linearizable, by
//             happens-before, and by time when no operation has read an old value; every number comes out once.
// Steps       an operation takes so many at most, whatever the others do.
// Stopped     a thread that stops for ever, before each of its steps in turn, keeps no other from finishing.
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>

#include "muster_model/explore.hpp"
#include "mutant_search.hpp"
#include "object_specs.hpp"
#include "queue_spec.hpp"
#include "wing_gong_lowe.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
using muster_test::event;
using muster_test::op;
using muster_test::result;
using number = std::uint64_t;

/// What the main thread does before, and then each thread, of which it is the first: 'u' pushes, 'o' pops.
struct script {
  std::string before;
  std::vector<std::string> threads;
  bool alone_first = true;
};

template <class Structure>
using spec_of = std::conditional_t<std::same_as<Structure, muster::psim_queue<number>>, muster_test::queue_spec,
                                   muster_test::stack_spec>;

template <class Structure>
class run {
 public:
  explicit run(const script& s)
      : script_(s),
        object_({.threads = static_cast<unsigned>(s.threads.size()), .batch = 1},
                {.alone_first = s.alone_first, .chain = 1}) {
    all_.reserve(32);
    go(s.before);
  }

  /// Returns false when a thread has stopped for ever.
  bool everything_finished() {
    std::vector<unsigned> threads;
    for (std::size_t t = 1; t < script_.threads.size(); ++t)
      threads.push_back(mm::spawn([this, t] { go(script_.threads[t]); }));
    go(script_.threads[0]);
    bool stopped = false;
    for (const unsigned t : threads) stopped |= !mm::join(t);
    if (!stopped) object_.check();
    while (pop()) {
    }
    check_history(stopped);
    return !stopped;
  }

 private:
  struct entry {
    event e;
    mm::view begin, end;
    bool open = false;
  };
  static unsigned self() { return mm::engine::running().current(); }

  void go(const std::string& commands) {
    for (unsigned i = 0; i < commands.size(); ++i)
      if (commands[i] == 'u') {
        push(++pushed_[self()] + 16 * self());
      } else {
        pop();
      }
  }
  void push(number value) {
    begin(op::push, value);
    object_.push(value);
    end(result::success);
  }
  bool pop() {
    begin(op::pop, 0);
    const std::optional<number> value = object_.pop();
    if (value) open_[self()].e.value = *value;
    end(value ? result::success : result::empty);
    return value.has_value();
  }

  void begin(op kind, number value) {
    const mm::heap::untracked aside;
    mm::engine& e = mm::engine::running();
    e.begin_operation();
    open_[self()] = {
        {self(), kind, value, result::pending, e.steps() + 1, muster_test::never}, e.known().now, {}, true};
  }
  void end(result outcome) {
    const mm::heap::untracked aside;
    mm::engine& e = mm::engine::running();
    e.end_operation();
    entry& done = open_[self()];
    done.e.outcome = outcome;
    done.e.end = e.steps();
    done.open = false;
    ++e.known().now.clock(self());
    done.end = e.known().now;
    all_.push_back(done);
  }

  void check_history(bool stopped) {
    const mm::heap::untracked aside;
    // What a thread was doing when it stopped may have happened or not.
    for (entry& last : open_)
      if (stopped && last.open) {
        last.end.clock(last.e.thread) = ~0U;
        all_.push_back(last);
      }
    std::vector<event> history;
    std::vector<std::uint64_t> before(all_.size(), 0);
    const bool by_time = !mm::engine::running().was_stale();
    number pushed = 0, popped = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const entry& b = all_[i];
      history.push_back(b.e);
      if (b.e.outcome == result::success) (b.e.kind == op::push ? pushed : popped) += b.e.value;
      for (std::size_t j = 0; j < all_.size(); ++j) {
        const entry& a = all_[j];
        const unsigned by = a.e.thread;
        const bool happens_before = by == b.e.thread ? j < i : b.begin.clock(by) >= a.end.clock(by);
        if (happens_before || (by_time && a.e.end < b.e.begin)) before[i] |= std::uint64_t{1} << j;
      }
    }
    if (!stopped && pushed != popped) mm::engine::running().fail("an item is lost, or comes twice");
    muster_test::wing_gong_lowe<spec_of<Structure>> search;
    if (!search.linearizable(std::span<const event>(history), before))
      mm::engine::running().fail("the history is not linearizable:\n" + muster_test::describe(history));
  }

  const script& script_;
  Structure object_;
  std::vector<entry> all_;
  std::array<entry, mm::most_threads> open_;
  std::array<number, mm::most_threads> pushed_{};
};

template <class Structure>
std::function<void()> program(const script& s) {
  return [s] {
    auto now = std::make_unique<run<Structure>>(s);
    // An object in which a thread has stopped cannot be destroyed.
    if (!now->everything_finished()) static_cast<void>(now.release());
  };
}

template <class Structure>
class psim_structures : public ::testing::Test {
 protected:
  static void search(const mm::limits& within, const script& s) {
    for (const bool alone_first : {true, false}) {
      script now = s;
      now.alone_first = alone_first;
      const mm::result r = mm::explore(within, program<Structure>(now));
      ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
      EXPECT_TRUE(r.complete || within.how != mm::strategy::exhaustive) << "not complete after " << r.executions;
      std::cout << r.executions << " executions, " << r.steps << " steps" << (r.complete ? ", complete" : "") << '\n';
    }
  }
};

struct names {
  template <class Structure>
  static std::string GetName(int) {
    return std::same_as<Structure, muster::psim_queue<number>> ? "queue" : "stack";
  }
};
using structures = ::testing::Types<muster::psim_stack<number>, muster::psim_queue<number>>;
TYPED_TEST_SUITE(psim_structures, structures, names);

TYPED_TEST(psim_structures, one_pushes_one_pops) {
  this->search({.preemptions = 3, .stale = 0}, {"", {"u", "o"}});
  this->search({.preemptions = 1, .stale = 1}, {"", {"u", "o"}});
}

TYPED_TEST(psim_structures, two_push) { this->search({.preemptions = 2, .stale = 0}, {"", {"u", "u"}}); }

TYPED_TEST(psim_structures, two_pop) { this->search({.preemptions = 2, .stale = 0}, {"uu", {"o", "o"}}); }

TYPED_TEST(psim_structures, each_pushes_and_pops) {
  this->search({.preemptions = 2, .stale = 0}, {"u", {"ou", "uo"}});
  this->search({.preemptions = 1, .stale = 0}, {"", {"uu", "oo"}});
}

TYPED_TEST(psim_structures, three_threads) {
  this->search({.preemptions = 1, .stale = 0}, {"u", {"o", "u", "o"}});
  this->search({.preemptions = 1, .stale = 0}, {"uo", {"u", "u", "o"}});
}

TYPED_TEST(psim_structures, nodes_go_round) {
  for (const auto how : {mm::strategy::random, mm::strategy::priorities})
    for (const script& s : {script{"uuuu", {"oooo", "uuu"}}, script{"u", {"uouo", "ouou"}},
                            script{"uuu", {"ooou", "uou", "oo"}}, script{"", {"uouou", "uo", "o"}}})
      this->search({.how = how, .executions = 5000, .depth = 4}, s);
}

// A thread stops for ever before any of its steps, also in the middle of an execution: the others finish.
TYPED_TEST(psim_structures, a_thread_that_stops_keeps_no_other_from_finishing) {
  for (const char* victim : {"u", "o"})
    this->search({.preemptions = 1, .stale = 0, .freeze = 1}, {"u", {"uoo", victim}});
}

// Wait-free: no operation needs more steps when the others do more.
TYPED_TEST(psim_structures, operations_have_a_bound) {
  for (const char* others : {"uo", "uouououo"}) {
    std::uint64_t longest = 0;
    for (const char* own : {"u", "o"})
      for (const bool alone_first : {true, false})
        for (const auto how : {mm::strategy::random, mm::strategy::priorities}) {
          const mm::result r = mm::explore({.how = how, .executions = 4000, .depth = 5},
                                           program<TypeParam>({"u", {others, own}, alone_first}));
          ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
          longest = std::max(longest, r.longest_operations[1]);
        }
    // As in psim.hpp, for two threads, batches of one and records of six words; and in each attempt two requests, each
    // of which links what was there before, looks for a node at both threads, fills it, and links it.
    constexpr std::uint64_t attempt = 2 * 6 + 2 * (2 * 1 + 2) + 4 + 2 * (2 + 4 + 3), more = 5 + 8, first = 4;
    EXPECT_LE(longest, 3 * attempt + more + first);
    std::cout << "at most " << longest << " steps\n";
  }
}

// ------------------------------------------------------------------------------------------------------------- mutants

using muster_model_test::mutant_search;

template <class Structure>
mutant_search mutants_of(const std::string& file, const std::string& prefix) {
  mutant_search search;
  for (const script& s : {script{"uuuu", {"oooo", "uuu"}}, script{"u", {"uouo", "ouou"}}, script{"", {"uu", "oo"}},
                          script{"uuu", {"ooou", "uou", "oo"}}, script{"", {"uouou", "uo", "o"}},
                          script{"", {"u", "uouou"}}, script{"uuuu", {"oooo", "u", "uu"}}})
    for (const bool alone_first : {true, false}) {
      script now = s;
      now.alone_first = alone_first;
      search.programs.push_back({file + (alone_first ? "" : ", announced"), true, program<Structure>(now), {}});
    }
  search.survivors = {
      {"psim_store::refill: load repeated", true, "the exchange reads it again"},
      {"psim_stack::for_each: load repeated", true, "check() counts the items and looks at none"},
      {"psim_queue::for_each: load repeated", true, "check() counts the items and looks at none"},
      // These are needed by executions without an effect, which must find nodes that have been made.
      {"pushing::operator: store release -> relaxed", true, "the checker's atomics are there before they are made"},
      {"popping::operator: load acquire -> relaxed", true, "the checker's atomics are there before they are made"},
  };
  search.files = {"/" + file + ".hpp", "impl/psim_nodes"};
  search.prefix = prefix;
  search.executions = 4096;
  return search;
}

TEST(mutants, of_the_stack_are_noticed_or_explained) {
  mutants_of<muster::psim_stack<number>>("psim_stack", "psim_stack::").run();
}

TEST(mutants, of_the_queue_are_noticed_or_explained) {
  mutants_of<muster::psim_queue<number>>("psim_queue", "psim_queue::").run();
}

}  // namespace
