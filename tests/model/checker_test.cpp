// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The checker's own test: it finds the bugs of programs with known bugs and nothing in the same programs without them;
// the number of its executions; and its answers to bad input. litmus_test.cpp tests its memory model.
#include <gtest/gtest.h>
#include <muster/base/detail/siblings.hpp>

#include "checker/explore.hpp"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

using namespace muster_model;
namespace sync = muster::sync;

constexpr auto rlx = std::memory_order_relaxed;
constexpr auto acq = std::memory_order_acquire;
constexpr auto rel = std::memory_order_release;

std::string found(const std::function<void()>& program, const limits& within = {}) {
  const result r = explore(within, program);
  return r.failed ? r.failed->what : r.complete ? "" : "not complete";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_FINDS(part, ...) \
  if (const std::string what = found(__VA_ARGS__); !contains(what, part)) ADD_FAILURE() << "found: " << what

// ------------------------------------------------------------------------------------------------------ seeded bugs

void hand_over(std::memory_order publish, std::memory_order look) {
  sync::cell<int> item(0);
  sync::atomic<bool> there{false};
  parallel([&] { item.write_ref() = 7, there.store(true, publish); },
           [&] {
             if (there.load(look)) require(item.read_ref() == 7, "another value");
           });
}

TEST(a_data_race, between_a_write_and_a_read) {
  EXPECT_FINDS("data race: a cell is", [] { hand_over(rlx, acq); });
  EXPECT_FINDS("data race: a cell is", [] { hand_over(rel, rlx); });
  EXPECT_EQ(found([] { hand_over(rel, acq); }), "");
}

TEST(a_data_race, between_two_writes) {
  EXPECT_FINDS("data race: two threads write", [] {
    sync::cell<int> item(0);
    parallel([&] { item.write_ref() = 1; }, [&] { item.write_ref() = 2; });
  });
}

TEST(a_bad_address, is_a_failure_of_its_execution) {
  EXPECT_FINDS("a bad address is used", [] {
    sync::atomic<int*> shared{nullptr};
    int there = 0;
    parallel([&] { shared.store(&there, rel); }, [&] { *shared.load(acq) = 1; });
  });
}

TEST(two_reads, are_no_race) {
  EXPECT_EQ(found([] {
              sync::cell<int> item(3);
              parallel([&] { require(item.read_ref() == 3, "3"); }, [&] { require(item.read_ref() == 3, "3"); });
            }),
            "");
}

// A waiter that looks, then sleeps. The bug: it sleeps on what it has read only now, so the event may be past.
void lost_wakeup(bool buggy) {
  sync::atomic<std::uint32_t> event{0};
  parallel(
      [&] {
        const std::uint32_t seen = event.load(acq);
        if (!buggy && seen != 0) return;
        if (buggy && event.load(acq) != 0 && seen != 0) return;
        sync::futex_wait(event, buggy ? event.load(acq) : seen, 1, muster::no_deadline, muster::futex_scope::process);
      },
      [&] { event.store(1, rel), sync::futex_wake(event, 1, 1, muster::futex_scope::process); });
}

TEST(a_lost_wakeup, is_a_deadlock) {
  EXPECT_FINDS("deadlock", [] { lost_wakeup(true); });
  EXPECT_EQ(found([] { lost_wakeup(false); }), "");
}

// Two locks in two orders.
void two_locks(bool ordered) {
  sync::atomic<int> a{0}, b{0};
  const auto lock = [](sync::atomic<int>& l) {
    while (l.exchange(1, acq) != 0) sync::yield();
  };
  parallel([&] { lock(a), lock(b), b.store(0, rel), a.store(0, rel); },
           [&] {
             sync::atomic<int>&first = ordered ? a : b, &second = ordered ? b : a;
             lock(first), lock(second), second.store(0, rel), first.store(0, rel);
           });
}

TEST(two_locks_in_two_orders, are_a_deadlock) {
  EXPECT_FINDS("deadlock", [] { two_locks(false); }, {.preemptions = 2});
  EXPECT_EQ(found([] { two_locks(true); }, {.preemptions = 2}), "");
}

TEST(a_loop_that_never_ends, is_found) {
  EXPECT_FINDS("a loop that never ends", [] {
    sync::atomic<int> x{0};
    while (x.fetch_add(1, rlx) >= 0) {
    }
  });
}

// Bugs that the compiler must not see.
[[gnu::noipa]] int* block() { return new int(1); }
[[gnu::noipa]] void end_of(sync::cell<int>* item) { delete item; }

TEST(a_leak, is_found) {
  EXPECT_FINDS("1 blocks of together 4 bytes are never freed", [] { block(); });
  EXPECT_EQ(found([] { delete block(); }), "");
}

TEST(a_double_free, is_found) {
  EXPECT_FINDS("freed twice", [] {
    sync::atomic<int*> shared{new int(1)};
    const auto take = [&] {
      if (int* const mine = shared.load(acq); mine != nullptr) {
        shared.store(nullptr, rel);
        delete mine;
      }
    };
    parallel(take, take);
  });
}

TEST(an_atomic_in_freed_memory, is_found) {
  EXPECT_FINDS("after its end", [] {
    auto* const node = new sync::atomic<int>(0);
    parallel([=] { node->store(1, rlx); }, [=] { delete node; });
  });
}

TEST(a_cell_in_freed_memory, is_found) {
  EXPECT_FINDS("after its end", [] {
    auto* const item = new sync::cell<int>(0);
    end_of(item);
    item->read_ref();
  });
  EXPECT_FINDS("data race", [] {
    auto* const item = new sync::cell<int>(0);
    parallel([=] { item->read_ref(); }, [=] { delete item; });
  });
}

TEST(an_exception_that_leaves_a_thread, is_found) {
  EXPECT_FINDS("left a thread: no", [] { throw std::runtime_error("no"); });
}

// A stack of two nodes by index without a counter: the classic ABA.
TEST(aba, is_found) {
  EXPECT_FINDS("popped twice", [] {
    sync::atomic<int> head{0}, next[2]{sync::atomic<int>(1), sync::atomic<int>(-1)};
    sync::atomic<int> held[2]{};
    const auto pop = [&] {
      int top = head.load(acq);
      while (top >= 0 && !head.compare_exchange_strong(top, next[top].load(rlx), std::memory_order_acq_rel, acq)) {
      }
      if (top >= 0) require(held[top].fetch_add(1, rlx) == 0, "popped twice");
      return top;
    };
    parallel([&] { pop(), pop(); },
             [&] {
               const int first = pop();
               if (first < 0) return;
               pop();
               held[first].fetch_sub(1, rlx);
               int top = head.load(acq);
               do next[first].store(top, rlx);
               while (!head.compare_exchange_strong(top, first, std::memory_order_acq_rel, acq));
             });
  });
}

TEST(a_signal, comes_between_any_two_steps) {
  // How often the thread finds that it has been stopped since its last look.
  unsigned before = 0, between = 0, after = 0, never = 0;
  EXPECT_EQ(found(
                [&] {
                  sync::atomic<unsigned> stopped{0};
                  unsigned first = 0, second = 0;
                  parallel([&] { first = stopped.load(rlx), second = stopped.load(rlx); },
                           [&] { engine::running().interrupt(1, [&stopped] { stopped.store(1, rlx); }); });
                  const unsigned at_the_end = stopped.load(rlx);
                  ++(first != 0 ? before : second != 0 ? between : at_the_end != 0 ? after : never);
                },
                {.preemptions = 2}),
            "");
  EXPECT_GT(before, 0U);
  EXPECT_GT(between, 0U);
  EXPECT_GT(after, 0U);
  EXPECT_GT(never, 0U);  // it had ended
}

TEST(a_signal, may_change_what_the_thread_computes_with) {
  EXPECT_FINDS("a count is lost",
               [] {
                 sync::atomic<unsigned> count{0}, handled{0};
                 parallel([&] { count.store(count.load(rlx) + 1, rlx); },
                          [&] {
                            engine::running().interrupt(1, [&count, &handled] {
                              count.store(count.load(rlx) + 1, rlx);
                              handled.store(1, rlx);
                            });
                          });
                 require(count.load(rlx) == 1 + handled.load(rlx), "a count is lost");
               },
               {.preemptions = 2});
}

TEST(a_signal, that_is_blocked_changes_nothing) {
  EXPECT_EQ(found(
                [] {
                  sync::atomic<unsigned> count{0}, busy{0}, handled{0};
                  parallel(
                      [&] {
                        busy.store(1, rlx);
                        count.store(count.load(rlx) + 1, rlx);
                        busy.store(0, rlx);
                      },
                      [&] {
                        engine::running().interrupt(1, [&count, &busy, &handled] {
                          if (busy.load(rlx) != 0) return;
                          count.store(count.load(rlx) + 1, rlx);
                          handled.store(1, rlx);
                        });
                      });
                  require(count.load(rlx) == 1 + handled.load(rlx), "a count is lost");
                },
                {.preemptions = 2}),
            "");
}

TEST(a_signal, is_refused_by_a_search_that_would_miss_executions) {
  EXPECT_FINDS("without a bound on preemptions knows no signals",
               [] { parallel([] {}, [] { engine::running().interrupt(1, [] {}); }); });
}

TEST(freezing, names_the_thread_that_waits_for_a_stopped_one) {
  const auto with = [](bool locks) {
    return [locks] {
      sync::atomic<int> lock{0}, count{0};
      const auto work = [&] {
        if (!locks) {
          count.fetch_add(1, rlx);
          return;
        }
        while (lock.exchange(1, acq) != 0) sync::yield();
        count.fetch_add(1, rlx);
        lock.store(0, rel);
      };
      parallel(work, work);
    };
  };
  EXPECT_FINDS("stopped forever", with(true), {.preemptions = 2, .freeze = 1});
  EXPECT_EQ(found(with(false), {.preemptions = 2, .freeze = 1}), "");
}

// --------------------------------------------------------------------------------------------------- how much it runs

TEST(the_exhaustive_search, runs_independent_steps_in_one_order) {
  const result r = explore({}, [] {
    sync::atomic<int> x{0}, y{0}, z{0};
    parallel([&] { x.store(1, rlx), x.store(2, rlx); }, [&] { y.store(1, rlx), y.store(2, rlx); },
             [&] { z.store(1, rlx), z.store(2, rlx); });
  });
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.executions, 1U);
}

TEST(the_exhaustive_search, runs_dependent_steps_in_every_order) {
  const result r = explore({}, [] {
    sync::atomic<int> x{0};
    const auto thrice = [&] {
      for (int i = 0; i < 3; ++i) x.fetch_add(1, rlx);
    };
    parallel(thrice, thrice);
  });
  EXPECT_TRUE(r.complete);
  EXPECT_EQ(r.executions - r.abandoned, 20U);  // 6 over 3
}

TEST(a_search_that_ends_early, is_not_called_complete) {
  const result r = explore({.executions = 3}, [] { hand_over(rel, acq), hand_over(rel, acq), hand_over(rel, acq); });
  EXPECT_FALSE(r.complete);
  EXPECT_EQ(r.executions, 3U);
}

TEST(a_failure, is_shrunk_and_can_be_repeated) {
  const auto program = [] { hand_over(rlx, acq); };
  for (const strategy how : {strategy::exhaustive, strategy::random, strategy::priorities}) {
    const result r = explore({.how = how}, program);
    ASSERT_TRUE(r.failed);
    EXPECT_LE(r.failed->path.size(), 1U);  // the first thread runs to its end, then the second: nothing to decide
    const auto [name, path] = read_replay(write_replay("hand over", r.failed->path));
    EXPECT_EQ(name, "hand over");
    const std::optional<failure> again = replay({}, path, program);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->what, r.failed->what);
    EXPECT_TRUE(contains(again->trace, "checker_test.cpp:")) << again->trace;
  }
}

TEST(a_mutation, changes_one_operation) {
  const auto program = [] { hand_over(rel, acq); };
  unsigned mutants = 0, killed = 0;
  for (const operation_site& site : operations_of({.how = strategy::random, .executions = 10}, program))
    for (const mutation& m : mutations_of(site)) ++mutants, killed += explore({}, program, &m).failed.has_value();
  EXPECT_EQ(mutants, 3U);  // two orderings; the store skipped
  EXPECT_EQ(killed, 2U);   // skipping the store changes nothing
}

// -------------------------------------------------------------------------------------------------------- bad input

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(bad_limits, are_refused_with_what_to_do) {
  const auto why = [](const limits& l) { return refusal([&] { explore(l, [] {}); }); };
  EXPECT_TRUE(contains(why({.executions = 0}), "ask for 1 or more"));
  EXPECT_TRUE(contains(why({.steps = 1}), "ask for 10 or more"));
  EXPECT_TRUE(contains(why({.preemptions = -2}), "-1 for none"));
  EXPECT_TRUE(contains(why({.stale = -2}), "-1 for none"));
  EXPECT_TRUE(contains(why({.how = strategy::random, .preemptions = 1}), "leave it at -1"));
  EXPECT_TRUE(contains(why({.how = strategy::priorities, .depth = 0}), "1 to 16"));
  EXPECT_TRUE(contains(why({.freeze = 8}), "there are 8"));
}

TEST(a_bad_replay_line, is_refused_with_what_to_do) {
  const auto why = [](const std::string& line) { return refusal([&] { read_replay(line); }); };
  const std::string good = write_replay("p", {{3, 1}});
  EXPECT_TRUE(contains(why("nonsense"), "NAME@BUILD:NUMBER.DECISION"));
  EXPECT_TRUE(contains(why("p@123:1.1"), "of build 123, and this is build"));
  EXPECT_TRUE(contains(why(good + ":x"), "no decision at character"));
  EXPECT_TRUE(contains(why(good + ":1"), "no decision at character"));
  EXPECT_TRUE(contains(why(good + ":1.2x"), "no decision at character"));
}

TEST(too_many, threads_or_atomics_are_refused) {
  EXPECT_FINDS("more threads than", [] {
    for (unsigned i = 0; i < most_threads; ++i) spawn([] {});
  });
  EXPECT_FINDS("more atomics than", [] { sync::atomic<int> many[most_locations + 1]; });
}

}  // namespace
